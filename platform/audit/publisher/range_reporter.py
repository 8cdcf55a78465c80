"""What a tier that reads a log tells the audit: per partition, ranges of offsets and the counts of each window between them.

Each range begins where the tier's last reported one ended; `PositionBook` remembers that across restarts. A report is
on the audit topic before its end is written as reported, so a crash between the two repeats a range and never leaves
one out.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ...runtime.clock import Clock, SystemClock
from ...wire.batch.record_batch import BatchHeader
from ..counter import WindowCounter
from ..model.errors import AuditError
from ..model.messages import MAX_WINDOWS, RangeReport, RangeWindow
from ..model.windows import WINDOW_MS
from .sending import ReportSender, send_and_flush

DEFAULT_TIMEOUT_MS = 30_000


class PositionBook(Protocol):
    """How far each tier has reported; `coordination.AuditPositions` is one."""

    def read(self, tier: str, topic: str, partition: int, /) -> int | None: ...

    def write(self, tier: str, topic: str, partition: int, offset: int, /) -> object: ...


class UnreportedBacklog(AuditError):
    """Too many windows wait to be reported. Publish before reading on."""

    retriable = True


@dataclass(slots=True)
class _OpenRange:
    from_offset: int
    to_offset: int
    is_announced: bool
    counter: WindowCounter
    counts: dict[int, int] = field(default_factory=dict)
    quarantined: dict[int, int] = field(default_factory=dict)
    redelivered: dict[int, int] = field(default_factory=dict)

    def settle(self) -> None:
        for start, count in self.counter.take().items():
            self.counts[start] = self.counts.get(start, 0) + count

    def window_starts(self) -> list[int]:
        return sorted(self.counts.keys() | self.quarantined.keys() | self.redelivered.keys())


class RangeReporter:
    """Counts and reports what one tier read. Every method may be called from any thread.

    The way of one partition: `reported` says where the last range ended (None: never reported, so begin where reading
    begins); `begin` there; `add_batch` or `add_counts` for everything read from there on, without leaving anything out;
    `publish` every second or so; `end` when the partition is taken away.
    """

    def __init__(
        self,
        *,
        tier: str,
        instance: str,
        sender: ReportSender,
        positions: PositionBook,
        clock: Clock | None = None,
        window_ms: int = WINDOW_MS,
        most_windows: int = 50_000,
    ) -> None:
        self.tier = tier
        self.instance = instance
        self._sender = sender
        self._positions = positions
        self._clock = clock or SystemClock()
        self._window_ms = window_ms
        self._most_windows = most_windows
        # Lock order: _publishing, then _counting; counting is never held while sending.
        self._publishing = threading.Lock()
        self._counting = threading.Lock()
        self._ranges: dict[tuple[str, int], _OpenRange] = {}

    def reported(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which this tier has reported, or None when it never has.

        Count again from there after a restart.
        """
        return self._positions.read(self.tier, topic, partition)

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Begin the partition's next range at `offset`.

        The next `publish` announces the tier there even when nothing was read.
        """
        with self._counting:
            self._ranges[topic, partition] = _OpenRange(
                from_offset=offset, to_offset=offset, is_announced=False, counter=WindowCounter(self._window_ms)
            )

    def end(self, topic: str, partition: int) -> None:
        """Forget the partition; publish first what it holds. What is not published is counted again by who comes next."""
        with self._counting:
            self._ranges.pop((topic, partition), None)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which this partition is counted (reported or not), or None before `begin`."""
        with self._counting:
            open_range = self._ranges.get((topic, partition))
            return None if open_range is None else open_range.to_offset

    def add_batch(self, topic: str, partition: int, header: BatchHeader, batch: memoryview) -> int:
        """Count a whole batch as read; return how many of its records were not counted before.

        Records below the position are left out.
        """
        with self._counting:
            open_range = self._open(topic, partition)
            counted = open_range.counter.add(header, batch, from_offset=open_range.to_offset)
            open_range.to_offset = max(open_range.to_offset, header.next_offset)
            return counted

    def add_counts(
        self,
        topic: str,
        partition: int,
        to_offset: int,
        counts: Mapping[int, int],
        *,
        quarantined: Mapping[int, int] | None = None,
        redelivered: Mapping[int, int] | None = None,
    ) -> None:
        """Move the partition's position to `to_offset` (never back) and add window start → records found on the way.

        `counts` are those that came through, `quarantined` those that did not; a record is in one of them. Offsets
        that hold nothing readable are passed with empty counts.
        """
        with self._counting:
            open_range = self._open(topic, partition)
            open_range.to_offset = max(open_range.to_offset, to_offset)
            for mine, given in (
                (open_range.counts, counts),
                (open_range.quarantined, quarantined or {}),
                (open_range.redelivered, redelivered or {}),
            ):
                for start, count in given.items():
                    mine[start] = mine.get(start, 0) + count

    def _open(self, topic: str, partition: int) -> _OpenRange:
        open_range = self._ranges.get((topic, partition))
        if open_range is None:
            raise AuditError(f"{self.tier} counts {topic}-{partition} before `begin`: the range has no start")
        if len(open_range.counts) + len(open_range.quarantined) + open_range.counter.window_count >= self._most_windows:
            raise UnreportedBacklog(
                f"{self.tier} has {self._most_windows} windows of {topic}-{partition} to report: publish before reading on"
            )
        return open_range

    def publish(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Report every range with something new and note its end as reported; return how many. Raises ReportNotSent,
        keeping the counts.

        Errors of the position book pass through; the counts that were sent are then sent again, which the audit shows
        as redelivered.
        """
        with self._publishing:
            with self._counting:
                ready = {key: one for key, one in self._ranges.items() if one.to_offset > one.from_offset or not one.is_announced}
                taken = {key: self._take(*key, one) for key, one in ready.items()}
            if not taken:
                return 0
            self._send([report for reports in taken.values() for report in reports], timeout_ms)
            with self._counting:
                for key, reports in taken.items():
                    if self._ranges.get(key) is ready[key]:
                        _subtract(ready[key], reports)
            return len(taken)

    def report(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        to_offset: int,
        windows: Mapping[int, RangeWindow],
        *,
        redelivered: int = 0,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Report one range that was counted elsewhere (a load job's commit) and note its end as reported.

        Raises ReportNotSent.
        """
        with self._publishing:
            self._send(self._parts(topic, partition, from_offset, to_offset, windows, redelivered), timeout_ms)

    def _send(self, reports: list[RangeReport], timeout_ms: int) -> None:
        send_and_flush(self._sender, self._clock, reports, timeout_ms)
        for report in reports:
            if report.part == report.parts - 1:
                self._positions.write(self.tier, report.topic, report.partition, report.to_offset)

    def _take(self, topic: str, partition: int, open_range: _OpenRange) -> list[RangeReport]:
        open_range.settle()
        windows = {
            start: RangeWindow(
                count=open_range.counts.get(start, 0),
                quarantined=open_range.quarantined.get(start, 0),
                redelivered=open_range.redelivered.get(start, 0),
            )
            for start in open_range.window_starts()
        }
        return self._parts(topic, partition, open_range.from_offset, open_range.to_offset, windows, 0)

    def _parts(
        self, topic: str, partition: int, from_offset: int, to_offset: int, windows: Mapping[int, RangeWindow], redelivered: int
    ) -> list[RangeReport]:
        starts = sorted(windows)
        slices = [starts[at : at + MAX_WINDOWS] for at in range(0, max(1, len(starts)), MAX_WINDOWS)]
        return [
            RangeReport(
                tier=self.tier,
                instance=self.instance,
                at_ms=self._clock.now_ms(),
                topic=topic,
                partition=partition,
                from_offset=from_offset,
                to_offset=to_offset,
                windows={start: windows[start] for start in slice_},
                redelivered=redelivered if number == 0 else 0,
                part=number,
                parts=len(slices),
            )
            for number, slice_ in enumerate(slices)
        ]


def _subtract(open_range: _OpenRange, reports: list[RangeReport]) -> None:
    """Take out of the range what `reports` have told: it now begins where they end."""
    open_range.is_announced = True
    open_range.from_offset = reports[-1].to_offset
    for report in reports:
        for start, told in report.windows.items():
            for mine, count in (
                (open_range.counts, told.count),
                (open_range.quarantined, told.quarantined),
                (open_range.redelivered, told.redelivered),
            ):
                left = mine.get(start, 0) - count
                if left:
                    mine[start] = left
                else:
                    mine.pop(start, None)
