"""A replica's log as it will be: a `PartitionLog` on a recorded disk, from which the power can be cut.

Each broker has a disk of its own. Values become batches of one record, the same bytes for the same value.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest

from headrace.broker.log import FlushJob, LogConfig, PartitionLog
from headrace.broker.log.segment import boot_id
from headrace.broker.partitions.replica_log import without_lost_pages
from headrace.broker.replication.facts import NO_CRC, LogFacts
from headrace.broker.replication.state import Epochs, EpochStart
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, iter_batches, iter_records, place, read_header
from tests.crash.fates import AnyKept
from tests.crash.recorded_disk import RecordedDisk

from .logs import FlushRun, Record

NOW_MS = 1_800_000_000_000
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=200, flush_on_roll=False, flush_at_open=True)


def bytes_of(value: int) -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"%d" % value)
    return bytearray(builder.build())


class RealDisks:
    """Gives logs on disks below `folder`, while it is entered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()
        self.count = 0
        self.boots = 0

    def new_disk(self) -> RecordedDisk:
        self.count += 1
        root = self.folder / f"disk-{self.count}"
        root.mkdir(parents=True)
        return self.stack.enter_context(RecordedDisk(root))

    def make_log(self, broker_id: int) -> "RealLog":
        return RealLog(self)


@contextmanager
def real_disks(folder: Path) -> Iterator[RealDisks]:
    disks = RealDisks(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boot_id, "current", lambda: b"boot %011d" % disks.boots)
        try:
            yield disks
        finally:
            disks.stack.close()
            shutil.rmtree(folder, ignore_errors=True)


class RealLog:
    """See the module. `damaged` is what the simulation was asked to damage, until it is cut away."""

    def __init__(self, disks: RealDisks) -> None:
        self._disks = disks
        self._disk = disks.new_disk()
        self.incarnation = 0
        self.has_lost_trust = False
        self.damaged: set[int] = set()
        self._cuts = 0
        self._open()

    def _open(self) -> None:
        folder = self._disk.root / "events-0"
        self.log = PartitionLog.open(folder, topic="events", partition=0, config=CONFIG, now_ms=NOW_MS)
        self.incarnation += 1

    def facts(self) -> LogFacts:
        log = self.log
        last = self.ending_at(log.log_end_offset)
        return LogFacts(
            log_start_offset=log.log_start_offset,
            end_offset=log.log_end_offset,
            flushed_offset=log.flushed_offset,
            epochs=self.listed_epochs(),
            last_crc=NO_CRC if last is None else last.crc,
            is_damaged=bool(self.damaged or log.bad_ranges),
            incarnation=self.incarnation,
        )

    def listed_epochs(self) -> Epochs:
        return tuple(EpochStart(leader_epoch=one.leader_epoch, start_offset=one.start_offset) for one in self.log.leader_epochs)

    def append(self, value: int, leader_epoch: int) -> Record:
        data = bytes_of(value)
        self.log.append(data, NOW_MS, leader_epoch=leader_epoch)
        found = self.ending_at(self.log.log_end_offset)
        assert found is not None
        return found

    def append_copied(self, record: Record, leader_epoch: int) -> None:
        data = bytes_of(record.value)
        place(data, record.position, leader_epoch)
        appended = self.log.append_at(data, self.log.log_start_offset, NOW_MS, leader_epoch=leader_epoch)
        assert type(appended).__name__ == "Appended", appended

    def records(self, from_offset: int = 0) -> list[Record]:
        found: list[Record] = []
        offset = max(from_offset, self.log.log_start_offset)
        while offset < self.log.log_end_offset and (region := self.log.read(offset, 4_096)) is not None:
            for header, data in iter_batches(region.read()):
                if header.position in self.damaged:
                    return found
                found.append(_record(header, data))
                offset = header.next_offset
        return found

    def ending_at(self, offset: int) -> Record | None:
        if self.log.log_start_offset >= offset or offset > self.log.log_end_offset:
            return None
        region = self.log.read(offset - 1, 1)
        if region is None:
            return None
        for header, data in iter_batches(region.read()):
            if header.next_offset == offset:
                return _record(header, data)
        return None

    def end_of(self, value: int) -> int | None:
        damaged, self.damaged = self.damaged, set()
        try:
            return next((each.next_offset for each in self.records() if each.value == value), None)
        finally:
            self.damaged = damaged

    def gaps(self) -> tuple[tuple[int, int], ...]:
        return tuple(self.log.gaps)

    def crc_of(self, value: int) -> int:
        return read_header(bytes_of(value)).crc

    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        self.log.begin_epoch(leader_epoch, start_offset)

    def cut(self, to_offset: int) -> None:
        self._cuts += 1
        aside = self._disk.root / f"events-0.cut.{self._cuts}"
        self.log = self.log.cut_end(to_offset, aside=aside, now_ms=NOW_MS)
        self.incarnation += 1
        self.damaged = {each for each in self.damaged if each < to_offset}

    def begin_empty(self, at_offset: int) -> None:
        self.log.close()
        self._cuts += 1
        (self._disk.root / "events-0").rename(self._disk.root / f"events-0.cut.{self._cuts}")
        self._open()
        self.damaged = set()
        self.log.jump_to(at_offset, NOW_MS)
        self.log.flush()

    def jump(self, to_offset: int) -> None:
        self.log.jump_to(to_offset, NOW_MS)

    def advance_start(self, to_offset: int) -> None:
        self.log.advance_start(min(to_offset, self.log.log_end_offset), NOW_MS)
        self.damaged = {each for each in self.damaged if each >= self.log.log_start_offset}

    def begin_flush(self) -> FlushRun:
        return FlushRun(self.incarnation, self.log.log_end_offset, self.log.flush_job())

    def end_flush(self, run: FlushRun) -> None:
        if run.work is not None:
            job = cast(FlushJob, run.work)
            job.run()
            job.done()

    def physically_flushed(self) -> int:
        return self.log.flushed_offset

    def kill(self) -> None:
        self._open()

    def stop(self) -> None:
        self.log.close()
        self._open()

    def cut_power(self, chance: random.Random) -> None:
        fate = AnyKept(chance.random(), in_any_order=False)
        left = self._disk.after(len(self._disk.operations))
        self._disks.boots += 1
        self._disks.count += 1
        root = self._disks.folder / f"disk-{self._disks.count}"
        root.mkdir(parents=True)
        left.write_out(root, fate)
        self._disk = self._disks.stack.enter_context(RecordedDisk(root))
        self._open()
        cut = without_lost_pages(self.log, NOW_MS + self._disks.count)
        self.has_lost_trust = cut is not None
        if cut is not None:
            self.log = cut

    def damage(self, which: int) -> bool:
        there = self.records()
        if not there:
            return False
        self.damaged.add(there[which % len(there)].position)
        return True

    def flip_epoch_bits(self, which: int) -> bool:
        return False


def _record(header: BatchHeader, data: memoryview | bytes) -> Record:
    (record,) = iter_records(data)
    assert record.value is not None
    return Record(header.position, header.next_offset, header.leader_epoch, int(record.value), header.crc)
