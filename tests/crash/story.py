"""A log's history on a recorded disk, and what must hold after a power cut at any point of it.

The history is recorded as `Mark`s between the disk's operations: what was about to be appended, what was reported as flushed, the
requested start of the log. A cut uses only the marks before it.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.broker.log import Appended, FlushJob, LogConfig, LogUnusable, PartitionLog
from headrace.broker.log.producer_state import Duplicate
from headrace.broker.log.retention import expired
from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.problem import ProblemKind
from headrace.wire.batch.record_batch import place, read_header
from tests.crash.disk_operations import Mark
from tests.crash.fates import AllKept, AnyKept, Fate, LastKept, RemovalsKept
from tests.crash.possible_disk import reopened
from tests.crash.recorded_disk import RecordedDisk
from tests.support.small_logs import NOW_MS, batch, fetched

TOLERATED = {ProblemKind.BAD_RANGE, ProblemKind.SEQUENCE, *(kind for kind in ProblemKind if kind.is_harmless)}
"""Problems that a log may have after a power cut, a start and a stop: later data survived and earlier data did not."""


@dataclass(frozen=True)
class Tried:
    """A batch is appended at `offset` with these bytes; other marks say whether it arrived."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Flushed:
    """Everything before `offset` was reported to be on disk."""

    offset: int


@dataclass(frozen=True)
class StartAsked:
    """The log may start at `offset` from here on."""

    offset: int


@dataclass(frozen=True)
class Started:
    """The log was reported to start at `offset`, durably."""

    offset: int


@dataclass(frozen=True)
class Found:
    """After a cut only these batches were left, whatever is flushed later."""

    offsets: frozenset[int]


class Story:
    """One log on one disk. Every change goes through here."""

    def __init__(self, disk: RecordedDisk, **config: int | bool) -> None:
        self.disk = disk
        self.config = LogConfig(**{"index_interval_bytes": 200, **config})  # type: ignore[arg-type]
        self.folder = disk.root / "events-0"
        self._number = 0
        self._sequence = 0
        self.open()

    def open(self) -> None:
        self.log = PartitionLog.open(self.folder, topic="events", partition=0, config=self.config, now_ms=NOW_MS)
        self._note()

    def close(self) -> None:
        self.log.close()
        self.disk.mark(Flushed(self.log.log_end_offset))

    def die_and_open(self) -> None:
        """Kill the process and start it again; the system keeps running, with its unwritten pages."""
        self.open()

    def die_and_open_on_what_is_left(self) -> None:
        """As `die_and_open`, after the system has dropped something that was never promised."""
        self.open()
        self.disk.mark(Found(frozenset(header.position for header, _ in fetched(self.log))))

    def wait_for_the_disk_from_now_on(self) -> None:
        """Change the topic's setting; it applies from the next opening on."""
        self.config = replace(self.config, flush_at_open=True)

    def append(self, size: int = 40, *, idempotent: bool = False) -> Appended:
        """Append a batch of one record with about this many bytes."""
        self._number += 1
        value = b"%08d" % self._number + b"." * max(0, size - 8)
        data = batch(value, producer_id=7, epoch=0, sequence=self._sequence) if idempotent else batch(value)
        self._sequence += idempotent
        return self._tried(data)

    def _tried(self, data: bytearray) -> Appended:
        log, mark = self.log, self.disk.mark
        offset = log.log_end_offset
        placed = _placed(data, offset)
        mark(Tried(offset, placed))
        appended = log.append(data, NOW_MS)
        assert bytes(data) == placed
        assert appended.next_offset == offset + len(data)
        self._note()
        return appended

    def append_at(self, offset: int, source_start: int, size: int = 40) -> None:
        """Append a mirrored batch."""
        self._number += 1
        placed = _placed(batch(b"%08d" % self._number + b"." * size), offset)
        self.disk.mark(StartAsked(offset))
        self.disk.mark(Tried(offset, placed))
        assert isinstance(self.log.append_at(placed, source_start, NOW_MS), Appended)
        self._note()

    def flush(self) -> None:
        self.log.flush()
        self._note()

    def begin_flush(self) -> FlushJob | None:
        """Return a flush job, as a broker's loop makes it: appends continue while it runs, and until it is reported."""
        return self.log.flush_job(more_follow=True)

    def end_flush(self, job: FlushJob | None) -> None:
        """Report a job that has run."""
        if job is not None:
            job.done()
        self._note()

    def flush_in_vain(self, *, takes_last: bool = False) -> None:
        """Let the disk refuse one flush. From then on nothing is promised, whatever later flushes report."""
        self.disk.failing_syncs, self.disk.failing_syncs_take_last = 1, takes_last
        try:
            self.log.flush()
        except LogUnusable:
            pass
        else:
            assert not self.disk.failing_syncs, "nothing was to be flushed"
        self._note()

    def checkpoint(self) -> None:
        """Write the sidecars that are due."""
        job = self.log.checkpoint_job()
        if job is not None:
            job.run()
            job.done()

    def advance_start(self, offset: int) -> None:
        """Advance the log start, as DeleteRecords does."""
        self.disk.mark(StartAsked(offset))
        self.log.advance_start(offset, NOW_MS)
        self._note()
        self.disk.mark(Started(self.log.log_start_offset))

    def expire(self, now_ms: int = NOW_MS) -> None:
        """A pass of retention."""
        gone = expired(
            self.log.segments,
            now_ms=now_ms,
            retention_ms=self.config.retention_ms,
            retention_bytes=self.config.retention_bytes,
        )
        if gone:
            self.disk.mark(StartAsked(gone[-1].end_offset))
            self.log.expire(now_ms)
            self.disk.mark(Started(self.log.log_start_offset))
        self._note()

    def _note(self) -> None:
        self.disk.mark(Flushed(self.log.flushed_offset))


def _placed(data: bytearray | bytes, offset: int) -> bytes:
    copy = bytearray(data)
    place(copy, offset, 0)
    return bytes(copy)


@dataclass
class Expected:
    """What the marks up to a cut promise."""

    tried: dict[int, set[bytes]] = field(default_factory=dict)
    flushed: int = 0
    start_lowest: int = 0
    start_highest: int = 0
    lost: set[int] = field(default_factory=set)

    def take(self, fact: object) -> None:
        match fact:
            case Tried(offset, data):
                self.tried.setdefault(offset, set()).add(data)
            case Flushed(offset):
                self.flushed = max(self.flushed, offset)
            case StartAsked(offset):
                self.start_highest = max(self.start_highest, offset)
            case Started(offset):
                self.start_lowest = max(self.start_lowest, offset)
            case Found(offsets):
                self.lost |= self.tried.keys() - offsets


def fates(seed: object, count: int, some: int) -> Iterator[Fate]:
    """Yield the possible fates of the changes that were not synced, after this many operations."""
    yield Fate()
    yield AllKept()
    yield RemovalsKept()
    yield LastKept()
    for number in range(some):
        yield AnyKept(f"{seed}/{count}/{number}", in_any_order=(count + number) % 3 == 2)


def cut_everywhere(story: Story, scratch: Path, *, seed: object, some: int = 2, every: int = 1) -> int:
    """Cut the power after each of the story's operations, with each fate; return how many logs were opened.

    A failure names the number of the operation and the fate; both reproduce the same log.
    """
    disk = story.disk
    assert disk.is_complete(scratch / "whole"), "something changed the folder past the recording"
    expected, opened = Expected(), 0
    for count in range(len(disk.operations) + 1):
        if count and isinstance(mark := disk.operations[count - 1], Mark):
            expected.take(mark.fact)
        last = count == len(disk.operations)
        if not last and (isinstance(disk.operations[count], Mark) or count % every):
            continue  # nothing happens on the disk until the next one
        for fate in fates(seed, count, some):
            folder = scratch / "cut"
            folder.mkdir(parents=True)
            numbers = disk.after(count).write_out(folder, fate)
            try:
                with reopened(numbers, after_power_cut=not isinstance(fate, AllKept)):
                    config = replace(story.config, flush_at_open=True)
                    _opens_with_all_that_was_promised(folder / "events-0", config, expected)
            except BaseException as error:
                error.add_note(f"power cut after operation {count} of {len(disk.operations)}, {fate}; {expected.flushed=}")
                error.add_note("; ".join(str(each)[:150] for each in disk.operations[max(0, count - 8) : count + 2]))
                raise
            shutil.rmtree(folder)
            opened += 1
    return opened


def _opens_with_all_that_was_promised(folder: Path, config: LogConfig, expected: Expected) -> None:
    log = PartitionLog.open(folder, topic="events", partition=0, config=config, now_ms=NOW_MS)
    start, end = log.log_start_offset, log.log_end_offset
    assert expected.start_lowest <= start <= max(expected.start_lowest, expected.start_highest), "the log start"
    assert end >= expected.flushed, "the log end"
    assert log.flushed_offset == end, "what was recovered is on disk"
    there = fetched(log, max_bytes=300)
    by_offset = {header.position: data for header, data in there}
    for offset, data in by_offset.items():
        assert data in expected.tried.get(offset, ()), f"at offset {offset} something is served that nobody appended"
    # If names may arrive in any order, a part of what is being deleted may be there.
    for offset, tries in expected.tried.items():
        if max(start, expected.start_highest) <= offset < expected.flushed and offset not in expected.lost:
            assert by_offset.get(offset) in tries, f"the flushed batch at offset {offset} is lost"
    for bad in log.bad_ranges:
        is_promised = bad.from_offset < expected.flushed and bad.from_offset not in expected.lost
        assert not is_promised or bad.to_offset <= start, f"{bad} is taken for damage"
    while (scrub := log.scrub_job()) is not None:
        scrub.run()
        assert scrub.done() == [], "what was taken over unread is sound"
    assert fetched(log, max_bytes=300) == there
    _still_knows_its_producers(log, by_offset)
    _knows_no_batch_that_is_lost(log, by_offset, expected, max(start, expected.start_highest))
    more = batch(b"after the cut")
    assert log.append(more, NOW_MS).next_offset == end + len(more)
    log.flush()
    log.close()
    problems = [str(problem) for problem in check(folder) if problem.kind not in TOLERATED]
    assert not problems, problems
    again = PartitionLog.open(folder, topic="events", partition=0, config=config, now_ms=NOW_MS)
    assert (again.log_start_offset, again.recovery.cut_bytes) == (start, 0)
    assert [data for _, data in fetched(again)] == [data for _, data in there] + [bytes(more)]
    again.close()


def _still_knows_its_producers(log: PartitionLog, by_offset: dict[int, bytes]) -> None:
    last = [read_header(data) for _, data in sorted(by_offset.items()) if read_header(data).producer_id >= 0][-1:]
    for header in last:
        assert log.producers.classify(header) == Duplicate(header.base_offset)


def _knows_no_batch_that_is_lost(log: PartitionLog, by_offset: dict[int, bytes], expected: Expected, start: int) -> None:
    """Assert that the log knows no lost batch: its producer sends it again, and would be answered that it is there."""
    for offset in expected.tried.keys() - by_offset.keys():
        for data in expected.tried[offset] if offset >= start else ():
            header = read_header(data)
            if header.producer_id >= 0:
                assert log.producers.classify(header) != Duplicate(header.base_offset), (
                    f"the batch at offset {offset} is lost, and taken for there"
                )
