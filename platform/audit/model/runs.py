"""One run of a producer as the audit knows it: heard when, sealed and holding what, and whether a report of its was lost; and
what its silence means for a window (`Sealing`). Pure.

A run is (instance, epoch). Its counts per window are in `tier_reports.py`.
"""

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .messages import Hold, ProducerReport, Retirement
from .tiers import PRODUCER, TierRule

if TYPE_CHECKING:
    from .facts import TopicFacts, WindowFacts

MOST_GAPS = 100
"""Stretches of lost sequence numbers remembered one by one.

The oldest are joined beyond it, which only says 'lost' about more.
"""
MOST_SEALS = 100
"""Seals that are remembered with their times, of 16 hours of windows; a window of an earlier one counts as sealed by the next.

A run is written down with each of its reports: one that logs for months must not grow with them.
"""

PRESUMED_DEAD_MS = 3_600_000
"""After so long a silence, windows that begin later do not wait for a run that never says what it holds: they are ACCEPTED."""
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
    """That a person has said, and the audit heard, that nothing more will come of a run."""

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
    """What it held before a report that never arrived: whether it let go of that, nobody knows."""
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

    def _held(self) -> tuple[Hold, ...]:
        return (*(self.holds or ()), *self.unsettled) if self.unsettled else self.holds or ()

    def hold_of(self, window_start_ms: int, window_end_ms: int) -> Hold | None:
        """Return what of `holds` the window lies in; None: the run has told all that it took of it."""
        return next((one for one in self._held() if one.from_ms < window_end_ms and window_start_ms < one.to_ms), None)

    def was_cut_off(self, window_start_ms: int, window_end_ms: int) -> bool:
        """Return whether the run may have taken events of the window while it could not announce that."""
        is_before = self.cut_off_ms is not None and window_start_ms < self.cut_off_ms
        return is_before and self.sealed_ms(window_end_ms) is None

    def held_windows(self, window_ms: int) -> set[int] | None:
        """Return the starts of the windows in `holds`; None if they are more than `MOST_HELD`."""
        spans = [(one.from_ms - one.from_ms % window_ms, one.to_ms) for one in self._held()]
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
        at = [heard for past, heard in self.seals if past >= window_end_ms][:1]
        if self.closed_ms is not None:
            at.append(self.closed_ms)
        return min(at, default=None)


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


def _holds(run: Run, window: "WindowFacts") -> bool:
    """Return whether the run may have records of the window that it never told of."""
    return run.hold_of(window.window_start_ms, window.window_end_ms) is not None


class Sealing:
    """Whether the producers have said all that they will say of one window; who is waited for, and who is silent."""

    def __init__(self, topic: "TopicFacts", window: "WindowFacts", heard_ms: int) -> None:
        self.topic = topic
        self.window = window
        self.heard_ms = heard_ms
        self.waiting: list[str] = []
        self.silent: dict[str, str] = {}
        """Who → in words. A dict keeps the order and each name once."""
        self.retired: dict[str, str] = {}
        """Instance → who took its seal's place, in words."""

    def _blame(self, who: str, since_ms: int, deadline_ms: int, waiting_for: str, note: str = "") -> None:
        """Wait for `who`, or call it silent when it has stood still since `since_ms` for longer than its deadline. `note`: why it
        stands still, in its own words.
        """
        still_ms = self._still_ms(since_ms)
        if still_ms > deadline_ms:
            self.silent.setdefault(who, f"{waiting_for} ({note or f'silent for {still_ms // 1000} s'})")
        else:
            self.waiting.append(waiting_for)

    def _still_ms(self, since_ms: int) -> int:
        """Return for how long the audit has listened since then."""
        return self.heard_ms - max(since_ms, self.topic.listening_since_ms)

    def _seen_ms(self) -> int:
        """Return when anything was last learnt about this window."""
        found = (one.updated_ms for by_partition in self.window.found.values() for one in by_partition.values())
        return max([self.window.reported_ms, *found])

    def _producers_sealed(self, rule: TierRule) -> bool:
        if not self.topic.has_producers:
            self._blame(PRODUCER, self._seen_ms(), rule.deadline_ms, "no producer of this topic has announced itself")
            return False
        waits = len(self.waiting) + len(self.silent)
        for run in self.topic.runs:
            self._run_sealed(run, rule.deadline_ms)
        return len(self.waiting) + len(self.silent) == waits

    def _run_sealed(self, run: Run, deadline_ms: int) -> None:
        name = f"{PRODUCER}:{run.key.instance}"
        if not self._concerns(run):
            return
        if run.retired is not None:
            if self._lacks_a_word_of(run):
                words = f"{name}, retired by {run.retired.by}: {run.retired.reason}"
                self.retired[run.key.instance] = words + self._last_known(run)
            return
        if has_lost_reports(run):
            lost = sum(end - start for start, end in run.gaps)
            self.silent.setdefault(name, f"{lost} of the reports of {name} never arrived")
            return
        if run.holds is not None:
            self._let_go(run, name, deadline_ms)
            return
        if run.sealed_ms(self.window.window_end_ms) is not None:
            return
        touches = self._is_touched_by(run)
        succeeded_at = self.topic.superseded_at.get(run.key)
        if succeeded_at is not None:
            # It ended without sealing. What it had stored and not yet reported is no proof of doubles, and what it lost in
            # memory nobody can count.
            if touches or self.window.window_start_ms < succeeded_at:
                self.silent.setdefault(name, f"an earlier run of {name} (epoch {run.key.epoch}) ended without sealing")
            return
        if self._still_ms(run.heard_ms) > PRESUMED_DEAD_MS and not touches and self.window.window_start_ms > run.heard_ms:
            self.retired[run.key.instance] = f"{name}, presumed dead: it was silent for an hour and never said what it held"
            return
        self._blame(name, run.heard_ms, deadline_ms, f"{name} has not sealed the window")

    def _let_go(self, run: Run, name: str, deadline_ms: int) -> None:
        """Wait for a run that says what it holds: for a held window until it lets go, for another one while the run is heard."""
        window = self.window
        if _holds(run, window):
            if run.key in self.topic.superseded_at:
                words = f"an earlier run of {name} (epoch {run.key.epoch}) ended without sealing"
                self.silent.setdefault(name, words + self._last_known(run))
                return
            note = f"silent for {self._still_ms(run.heard_ms) // 1000} s{self._last_known(run)}"
            self._blame(name, run.heard_ms, deadline_ms, f"{name} holds the window", note)
        elif run.was_cut_off(window.window_start_ms, window.window_end_ms):
            words = f"{name} was not heard since the audit topic was away, and may have taken events meanwhile"
            self._blame(name, run.heard_ms, deadline_ms, words)
        elif run.sealed_ms(window.window_end_ms) is None and self._still_ms(run.heard_ms) <= deadline_ms:
            self.waiting.append(f"{name} has not sealed the window")

    def _last_known(self, run: Run) -> str:
        """Return, in words, how many records of the window were under way when the run last said so."""
        hold = run.hold_of(self.window.window_start_ms, self.window.window_end_ms)
        return f"; {hold.under_way} records were under way when it was last heard" if hold is not None and hold.under_way else ""

    def _concerns(self, run: Run) -> bool:
        """Return whether the window waits for the run: a replay announces the times of its events."""
        return run.may_touch(self.window.window_start_ms, self.window.window_end_ms) or self._is_touched_by(run)

    def _is_touched_by(self, run: Run) -> bool:
        return run.key in self.window.producers or any(owner.key == run.key for owner in self.window.owners.values())

    def _lacks_a_word_of(self, run: Run) -> bool:
        """Return whether a run that will say nothing more may have had more to say about this window."""
        if run.holds is not None and not run.gaps:
            return _holds(run, self.window) or run.was_cut_off(self.window.window_start_ms, self.window.window_end_ms)
        if not run.gaps and run.sealed_ms(self.window.window_end_ms) is not None:
            return False
        ended_ms = self.topic.superseded_at.get(run.key, run.heard_ms)
        return self._is_touched_by(run) or self.window.window_start_ms <= ended_ms
