"""What a tier that reads a log reports to the audit: per partition, ranges of offsets and which records of each window lie there.

Each range begins where the tier's last reported one ended; `PositionBook` remembers that across restarts. A report is on the
audit topic before its end is written as reported, so a crash between the two repeats a range and never leaves one out.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...runtime.clock import Clock, SystemClock
from ...wire.batch.record_batch import BatchHeader
from ..counter import WindowCounter
from ..model.errors import AuditError
from ..model.messages import RangeReport, RangeWindow, Skipped, Stretch
from .range_split import FoundWindow, range_reports
from .sending import ReportSender, send_and_flush

DEFAULT_TIMEOUT_MS = 30_000

Stretches = Mapping[int, Sequence[Stretch]]
"""Window start (ms) → records."""


class PositionBook(Protocol):
    """How far each tier has reported; `coordination.AuditPositions` is one."""

    def read(self, tier: str, topic: str, partition: int, /) -> int | None: ...

    def write_many(self, tier: str, offsets: Mapping[tuple[str, int], int], /) -> object: ...


class UnreportedBacklog(AuditError):
    """Too much waits to be reported. Publish before reading on."""

    retriable = True


@dataclass(slots=True)
class _OpenRange:
    from_offset: int
    to_offset: int
    is_announced: bool = False
    counter: WindowCounter = field(default_factory=WindowCounter)
    windows: dict[int, FoundWindow] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    added_count: int = 0
    """Stretches in `windows`, about."""

    @property
    def stretch_count(self) -> int:
        return self.counter.entry_count + self.added_count + len(self.skipped)

    def window(self, start: int) -> FoundWindow:
        found = self.windows.get(start)
        if found is None:
            found = self.windows[start] = FoundWindow()
            self.added_count += 1
        return found

    def take(self) -> "_OpenRange":
        """Return what was found so far, as a range of its own, and begin the next one behind it."""
        for start, entries in self.counter.take().items():
            self.window(start).held += [entry.stretch for entry in entries]
        taken = _OpenRange(
            self.from_offset, self.to_offset, windows=self.windows, skipped=self.skipped, added_count=self.added_count
        )
        self.from_offset, self.windows, self.skipped, self.added_count = self.to_offset, {}, [], 0
        return taken

    def put_back(self, taken: "_OpenRange") -> None:
        """Join what was taken and could not be reported with what was found since."""
        for start, later in self.windows.items():
            found = taken.window(start)
            found.held += later.held
            found.quarantined += later.quarantined
            found.altered += later.altered
            found.redelivered += later.redelivered
        self.from_offset, self.windows = taken.from_offset, taken.windows
        self.skipped = taken.skipped + self.skipped
        kinds = (len(one.held) + len(one.quarantined) + 1 for one in self.windows.values())
        self.added_count = sum(kinds)


class RangeReporter:
    """Notes and reports what one tier read. Every method may be called from any thread.

    The way of one partition: `reported` says where the last range ended (None: never reported, so begin where reading begins);
    `begin` there; `add_batch` or `add_records` for everything read from there on, and `skip` for what cannot be read, without
    leaving anything out; `publish` every second or so; `end` when the partition is taken away.
    """

    def __init__(
        self,
        *,
        tier: str,
        instance: str,
        sender: ReportSender,
        positions: PositionBook,
        clock: Clock | None = None,
        most_stretches: int = 100_000,
    ) -> None:
        """With `most_stretches` unreported ones in a partition, adding to it raises UnreportedBacklog."""
        self.tier = tier
        self.instance = instance
        self._sender = sender
        self._positions = positions
        self._clock = clock or SystemClock()
        self._most_stretches = most_stretches
        # Lock order: _publishing, then _noting; notes are never held while sending.
        self._publishing = threading.Lock()
        self._noting = threading.Lock()
        self._ranges: dict[tuple[str, int], _OpenRange] = {}

    def reported(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which this tier has reported, or None when it never has.

        Read again from there after a restart.
        """
        return self._positions.read(self.tier, topic, partition)

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Begin the partition's next range at `offset`.

        The next `publish` announces the tier there even when nothing was read.
        """
        with self._noting:
            self._ranges[topic, partition] = _OpenRange(offset, offset)

    def end(self, topic: str, partition: int) -> None:
        """Forget the partition; publish first what is noted of it. What is not published is read again by its next reader."""
        with self._noting:
            self._ranges.pop((topic, partition), None)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which this partition is noted (reported or not), or None before `begin`."""
        with self._noting:
            open_range = self._ranges.get((topic, partition))
            return None if open_range is None else open_range.to_offset

    def add_batch(self, topic: str, partition: int, header: BatchHeader, batch: memoryview) -> int:
        """Note a whole batch as held; return how many of its records were not noted before.

        Records below the position are left out.
        """
        with self._noting:
            open_range = self._open(topic, partition)
            added = open_range.counter.add(header, batch, from_offset=open_range.to_offset)
            open_range.to_offset = max(open_range.to_offset, header.next_offset)
            return added

    def add_batches(self, topic: str, partition: int, batches: Sequence[tuple[BatchHeader, memoryview]]) -> int:
        """Note whole batches as `add_batch` does, in order; return how many batches were noted: fewer where too much waits to be
        reported, and none where it did so before.
        """
        with self._noting:
            open_range = self._begun(topic, partition)
            counter, position, noted = open_range.counter, open_range.to_offset, 0
            room = self._most_stretches - open_range.stretch_count + counter.entry_count
            for header, batch in batches:
                if counter.entry_count >= room:
                    break
                counter.add(header, batch, from_offset=position)
                position = max(position, header.next_offset)
                noted += 1
            open_range.to_offset = position
            return noted

    def add_records(
        self,
        topic: str,
        partition: int,
        to_offset: int,
        held: Stretches,
        *,
        quarantined: Stretches | None = None,
        redelivered: Mapping[int, int] | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        """Move the partition's position to `to_offset` (never back) and note what was found on the way.

        `held` are records that came through, `quarantined` those that did not; a record is in one of them, at an offset between
        the position and `to_offset`. `redelivered`: window start → records met again and not kept.
        """
        with self._noting:
            open_range = self._open(topic, partition)
            open_range.to_offset = max(open_range.to_offset, to_offset)
            for start, stretches in held.items():
                open_range.window(start).held += stretches
                open_range.added_count += len(stretches)
            for start, stretches in (quarantined or {}).items():
                open_range.window(start).quarantined += stretches
                open_range.added_count += len(stretches)
            for start, count in (redelivered or {}).items():
                open_range.window(start).redelivered += count
            open_range.skipped += skipped

    def skip(self, topic: str, partition: int, to_offset: int, reason: str) -> None:
        """Move the partition's position to `to_offset`: what lies between cannot be read (`reason` as in `Skipped`)."""
        with self._noting:
            open_range = self._open(topic, partition)
            if to_offset > open_range.to_offset:
                open_range.skipped.append(Skipped(open_range.to_offset, to_offset, reason))
                open_range.to_offset = to_offset

    def _begun(self, topic: str, partition: int) -> _OpenRange:
        open_range = self._ranges.get((topic, partition))
        if open_range is None:
            raise AuditError(f"{self.tier} notes records of {topic}-{partition} before `begin`: the range has no start")
        return open_range

    def _open(self, topic: str, partition: int) -> _OpenRange:
        open_range = self._begun(topic, partition)
        if open_range.stretch_count >= self._most_stretches:
            raise UnreportedBacklog(
                f"{self.tier} has {self._most_stretches} batches of {topic}-{partition} to report: publish before reading on"
            )
        return open_range

    def publish(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Report every range with something new and write its end as reported; return how many. Raises ReportNotSent, keeping
        what it could not report.

        Errors of the position book pass through; what was sent is then sent again, which changes nothing in the audit.
        """
        with self._publishing:
            with self._noting:
                ready = {key: one for key, one in self._ranges.items() if one.to_offset > one.from_offset or not one.is_announced}
                taken = {key: one.take() for key, one in ready.items()}
            if not taken:
                return 0
            try:
                self._send({key: self._reports(*key, one) for key, one in taken.items()}, timeout_ms)
            except BaseException:
                with self._noting:
                    for key, one in taken.items():
                        ready[key].put_back(one)
                raise
            for one in ready.values():
                one.is_announced = True
            return len(taken)

    def report(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        to_offset: int,
        windows: Mapping[int, RangeWindow],
        *,
        skipped: Sequence[Skipped] = (),
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Report one range that was read elsewhere (a load job's commit) and write its end as reported. Raises ReportNotSent."""
        with self._publishing:
            reports = self._split(topic, partition, from_offset, to_offset, windows, skipped)
            self._send({(topic, partition): reports}, timeout_ms)

    def note(self, topic: str, partition: int, words: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Say why nothing more comes of a partition for now (an operator has paused it); empty words take it back. The
        partition's next report does, too. Raises ReportNotSent. Says nothing of a partition that was never reported.
        """
        with self._publishing:
            with self._noting:
                one = self._ranges.get((topic, partition))
                offset = one.from_offset if one is not None and one.is_announced else None
            if offset is None:
                return
            (empty,) = self._split(topic, partition, offset, offset, {}, ())
            send_and_flush(self._sender, self._clock, [replace(empty, note=words)], timeout_ms)

    def _send(self, reports: Mapping[tuple[str, int], Sequence[RangeReport]], timeout_ms: int) -> None:
        send_and_flush(self._sender, self._clock, [one for some in reports.values() for one in some], timeout_ms)
        self._positions.write_many(self.tier, {name: some[-1].to_offset for name, some in reports.items()})

    def _reports(self, topic: str, partition: int, one: _OpenRange) -> list[RangeReport]:
        return self._split(topic, partition, one.from_offset, one.to_offset, one.windows, one.skipped)

    def _split(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        to_offset: int,
        windows: Mapping[int, RangeWindow | FoundWindow],
        skipped: Sequence[Skipped],
    ) -> list[RangeReport]:
        return range_reports(
            tier=self.tier,
            instance=self.instance,
            at_ms=self._clock.now_ms(),
            topic=topic,
            partition=partition,
            from_offset=from_offset,
            to_offset=to_offset,
            windows=windows,
            skipped=skipped,
        )
