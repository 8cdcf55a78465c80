"""One run of a producer as the audit knows it: heard when, sealed what, and whether a report of its was lost. Pure.

A run is (instance, epoch). Its counts per window are in `tier_reports.py`; what its silence means is decided in `verdict.py`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from .messages import ProducerReport, Retirement

MOST_GAPS = 100
"""Stretches of lost sequence numbers remembered one by one.

The oldest are joined beyond it, which only says 'lost' about more.
"""


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

    @property
    def has_said_all(self) -> bool:
        """True when the run closed and all of its reports are here."""
        return self.is_closed and not self.gaps

    def take(self, report: ProducerReport, now_ms: int) -> None:
        """Take in what `report` says about the run. Any order and any repetition of reports ends in the same state.

        A run that was retired and speaks was not dead: the word about it is void.
        """
        self.retired = None
        self.heard_ms = max(self.heard_ms, now_ms)
        self.producer_ids.update(report.producer_ids)
        self.topics.update(report.topics)
        self.topics.update(window.topic for window in report.windows)
        if report.sequence >= self.next_sequence:
            if report.sequence > self.next_sequence:
                self.gaps.append((self.next_sequence, report.sequence))
            self.next_sequence = report.sequence + 1
            self.is_closed = report.state == "closed"
            self.closed_ms = now_ms if self.is_closed else None
        else:
            self._fill(report.sequence, report.sequence + 1)
        if report.restates_from is not None:
            self._fill(0, report.restates_from)
        while len(self.gaps) > MOST_GAPS:
            self.gaps[0:2] = [(self.gaps[0][0], self.gaps[1][1])]
        past = report.moved_past_ms
        if past is not None and (not self.seals or past > self.seals[-1][0]):
            self.seals.append((past, now_ms))

    def retire(self, retirement: Retirement, now_ms: int) -> None:
        """Take in that nothing more will come of the run; one that has said all needs nobody's word."""
        if not self.has_said_all:
            self.retired = Retired(heard_ms=now_ms, by=retirement.by, reason=retirement.reason)

    def _fill(self, from_sequence: int, to_sequence: int) -> None:
        left: list[tuple[int, int]] = []
        for start, end in self.gaps:
            if start < from_sequence:
                left.append((start, min(end, from_sequence)))
            if to_sequence < end:
                left.append((max(start, to_sequence), end))
        self.gaps = [gap for gap in left if gap[0] < gap[1]]

    def sealed_ms(self, window_end_ms: int) -> int | None:
        """Return when the audit heard that no more is to come for a window that ends there, or None when it has not."""
        at = [heard for past, heard in self.seals if past >= window_end_ms][:1]
        if self.closed_ms is not None:
            at.append(self.closed_ms)
        return min(at, default=None)
