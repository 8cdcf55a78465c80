"""One run of a producer as the audit knows it: heard when, sealed and holding what, and whether a report of its was lost. Pure.

A run is (instance, epoch). Its counts per window are in `tier_reports.py`, what its silence means for one in `checks.producers`.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .messages import Hold, ProducerReport, Retirement

MOST_GAPS = 100
"""Stretches of lost sequence numbers remembered one by one.

The oldest are joined beyond it, which only says 'lost' about more.
"""
MOST_SEALS = 100
"""Seals that are remembered with their times, of 16 hours of windows; a window of an earlier one counts as sealed by the next.

A run is written down with each of its reports: one that logs for months must not grow with them.
"""

MOST_HELD = 1_000
"""Held windows of a run that are looked at one by one though nobody has mentioned them."""


MOST_UNSETTLED = 320
"""Ranges held before lost reports that are remembered, the latest."""


class RunKey(NamedTuple):
    """Which run of which producer."""

    instance: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """That an operator has said, and the audit heard, that nothing more will come of a run."""

    heard_ms: int
    by: str
    reason: str


@dataclass(slots=True)
class Run:
    """What the reports of one run have said about the run itself. Times are the audit's own clock at arrival."""

    key: RunKey
    first_heard_ms: int
    heard_ms: int
    is_closed: bool = False
    closed_ms: int | None = None
    producer_ids: set[int] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    next_sequence: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Sequence numbers [from, to) that have not arrived though later ones have."""
    seals: list[tuple[int, int]] = field(default_factory=list)
    """(moved_past_ms, heard_ms), both rising: which windows were sealed when."""
    retired: Retired | None = None
    only_between_ms: tuple[int, int] | None = None
    """The run has announced that it logs events of these times only (a replay)."""
    holds: tuple[Hold, ...] | None = None
    """Event times of which it may have records that none of its reports tells of; None: it does not say."""
    unsettled: tuple[Hold, ...] = ()
    """What it held before a report that never arrived: whether it let go of that, it is unknown."""
    cut_off_ms: int | None = None
    """It was heard until the audit topic was away, and not since: it may have taken events, without a promise, until then."""

    @property
    def has_said_all(self) -> bool:
        """True when the run closed and all of its reports are here."""
        return self.is_closed and not self.gaps

    def take(self, report: ProducerReport, now_ms: int) -> None:
        """Take in what `report` says about the run. Any order and any repetition of reports ends in the same state.

        A run that was retired and speaks was not dead: the word about it is void.
        """
        self.retired = self.cut_off_ms = None
        self.heard_ms = max(self.heard_ms, now_ms)
        self.producer_ids.update(report.producer_ids)
        self.topics.update(report.topics)
        self.topics.update(window.topic for window in report.windows)
        if report.sequence >= self.next_sequence:
            if report.sequence > self.next_sequence:
                self.unsettled = (*self.unsettled, *(self.holds or ()))[-MOST_UNSETTLED:]
                self.gaps.append((self.next_sequence, report.sequence))
            self.next_sequence = report.sequence + 1
            self.is_closed = report.state == "closed"
            self.closed_ms = now_ms if self.is_closed else None
            self.holds = () if self.is_closed and report.holds is not None else report.holds
        else:
            self._fill(report.sequence)
            self.unsettled = self.unsettled if self.gaps else ()
        if report.only_between_ms is not None:
            known = self.only_between_ms or report.only_between_ms
            self.only_between_ms = min(known[0], report.only_between_ms[0]), max(known[1], report.only_between_ms[1])
        while len(self.gaps) > MOST_GAPS:
            self.gaps[0:2] = [(self.gaps[0][0], self.gaps[1][1])]
        past = report.moved_past_ms
        if past is not None and (not self.seals or past > self.seals[-1][0]):
            self.seals.append((past, now_ms))
            del self.seals[:-MOST_SEALS]

    def may_touch(self, window_start_ms: int, window_end_ms: int) -> bool:
        """Return whether the run, by its own announcement, may log events of the window."""
        if self.only_between_ms is None:
            return True
        return self.only_between_ms[0] < window_end_ms and window_start_ms < self.only_between_ms[1]

    def held(self) -> tuple[Hold, ...]:
        """Return where it may have records that none of its reports tells of."""
        return (*(self.holds or ()), *self.unsettled) if self.unsettled else self.holds or ()

    def hold_of(self, window_start_ms: int, window_end_ms: int) -> Hold | None:
        """Return what of `holds` the window lies in; None: the run has told all that it took of it."""
        return next((one for one in self.held() if one.from_ms < window_end_ms and window_start_ms < one.to_ms), None)

    def was_cut_off(self, window_start_ms: int, window_end_ms: int) -> bool:
        """Return whether the run may have taken events of the window while it could not announce that."""
        is_before = self.cut_off_ms is not None and window_start_ms < self.cut_off_ms
        return is_before and self.sealed_ms(window_end_ms) is None

    def held_windows(self, window_ms: int) -> set[int] | None:
        """Return the starts of the windows in `holds`; None if they are more than `MOST_HELD`."""
        spans = [(one.from_ms - one.from_ms % window_ms, one.to_ms) for one in self.held()]
        if sum(end - start for start, end in spans) > MOST_HELD * window_ms:
            return None
        return {at for start, end in spans for at in range(start, end, window_ms)}

    def retire(self, retirement: Retirement, now_ms: int) -> None:
        """Take in that nothing more will come of the run; one that has said all needs nobody's word."""
        if not self.has_said_all:
            self.retired = Retired(heard_ms=now_ms, by=retirement.by, reason=retirement.reason)

    def _fill(self, sequence: int) -> None:
        for at, (start, end) in enumerate(self.gaps):
            if start <= sequence < end:
                self.gaps[at : at + 1] = [gap for gap in ((start, sequence), (sequence + 1, end)) if gap[0] < gap[1]]
                return

    def sealed_ms(self, window_end_ms: int) -> int | None:
        """Return when the audit heard that no more is to come for a window that ends there, or None when it has not."""
        at = bisect_left(self.seals, (window_end_ms,))
        sealed_ms = self.seals[at][1] if at < len(self.seals) else None
        if sealed_ms is None or self.closed_ms is None:
            return self.closed_ms if sealed_ms is None else sealed_ms
        return min(sealed_ms, self.closed_ms)


class Runs(dict[RunKey, Run]):
    """All runs, and which of them announced a topic or a producer id."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: dict[str, list[int]] = {}
        """Instance → the epochs of its runs, in order."""
        self._by_topic: dict[str, set[RunKey]] = {}
        self._by_producer_id: dict[int, list[RunKey]] = {}

    def put(self, run: Run) -> None:
        """Add a run, or note what it has announced since."""
        if run.key not in self:
            self[run.key] = run
            insort(self.epochs.setdefault(run.key.instance, []), run.key.epoch)
        for topic in run.topics:
            self._by_topic.setdefault(topic, set()).add(run.key)
        for producer_id in run.producer_ids:
            if producer_id < 0:
                continue  # the number of all who have no id: nobody's in particular
            owners = self._by_producer_id.setdefault(producer_id, [])
            if run.key not in owners:
                insort(owners, run.key)

    def forget(self, key: RunKey) -> None:
        """Forget the run and what it announced."""
        run = self.pop(key)
        _drop(self.epochs, key.instance, key.epoch)
        for topic in run.topics:
            _drop(self._by_topic, topic, key)
        for producer_id in run.producer_ids:
            _drop(self._by_producer_id, producer_id, key)

    def of(self, topic: str) -> list[Run]:
        """Return the runs that announced the topic, in order."""
        return [self[key] for key in sorted(self._by_topic.get(topic, ()))]

    def owner_of(self, producer_id: int) -> RunKey | None:
        """Return whose records carry this producer id: the latest run's, where several announced it; None without any."""
        owners = self._by_producer_id.get(producer_id)
        return owners[-1] if owners else None

    def is_needed(self, run: Run) -> bool:
        """Return whether others are judged by this run: an earlier one of its instance, or a topic that it alone announced."""
        return self.epochs[run.key.instance][0] < run.key.epoch or any(len(self._by_topic[topic]) == 1 for topic in run.topics)


def _drop(index: dict[Any, Any], name: object, one: object) -> None:
    """Remove one of those under the name, and the name with the last."""
    if name in index and one in index[name]:
        index[name].remove(one)
        if not index[name]:
            del index[name]


def has_lost_reports(run: Run) -> bool:
    """Return whether a report that the run has numbered never arrived."""
    return bool(run.gaps)
