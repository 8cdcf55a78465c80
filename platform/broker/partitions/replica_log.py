"""The log of one replica: what the replication machine must know of it, and the changes that take time.

`log` is used on the loop thread. `note`, `begin_epoch`, `cut` and `begin_empty` run on a worker's thread, one at a time.
While the log is being cut, nothing else uses it. `close` may come from any thread.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from ...wire.batch.record_batch import read_header
from ..log import FolderFault, LogError, PartitionLog, topic_note
from ..log import leader_epochs as epoch_file
from ..replication.facts import NO_CRC, LogFacts
from ..replication.state import Epochs, EpochStart, Member, end_epoch
from . import replica_note
from .replica_note import ReplicaNote


class ReplicaLog:
    """Made by `open_replica`."""

    def __init__(self, log: PartitionLog, noted: ReplicaNote, topic_id: UUID, now_ms: Callable[[], int]) -> None:
        log.skips_damage = False
        self.log = log
        self.noted = noted
        self.incarnation = 0
        """Raised by each cut."""
        self.is_damaged = False
        self.must_open = False
        """Whether a cut failed after it had closed the log."""
        self._topic_id = topic_id
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._is_closed = False
        self._listed: tuple[epoch_file.LeaderEpochs, Epochs] = ((), ())
        self._last: tuple[int, int] = (-1, NO_CRC)
        """An offset at which a batch ends, and its CRC."""
        self.look_for_damage()

    # -- on the loop thread ------------------------------------------------------------------------

    def look_for_damage(self) -> bool:
        """Return whether something is newly known to be damaged, or nothing more can be written."""
        was = self.is_damaged
        self.is_damaged = bool(self.log.bad_ranges) or self.log.failure is not None
        return self.is_damaged and not was

    def facts(self, *, with_crc: bool) -> LogFacts:
        """Return the log as it is now. `with_crc` False: `last_crc` is left out, which a leader does not need."""
        log = self.log
        end = log.log_end_offset
        crc = self.crc_before(end) if with_crc else None
        return LogFacts(
            log_start_offset=log.log_start_offset,
            end_offset=end,
            flushed_offset=min(log.flushed_offset, end),
            epochs=self.epochs,
            last_crc=NO_CRC if crc is None else crc,
            is_damaged=self.is_damaged,
            incarnation=self.incarnation,
        )

    @property
    def epochs(self) -> Epochs:
        known = self.log.leader_epochs
        if self._listed[0] is not known:
            self._listed = known, tuple(EpochStart(leader_epoch=one.leader_epoch, start_offset=one.start_offset) for one in known)
        return self._listed[1]

    def batch_before(self, offset: int) -> tuple[int | None, int | None]:
        """Return epoch and CRC of the batch that ends at `offset`, (None, None) when none does."""
        crc = self.crc_before(offset)
        if crc is None and any(begin < offset <= end for begin, end in self.log.gaps):
            crc = NO_CRC
        return (None, None) if crc is None else (end_epoch(self.epochs, offset), crc)

    def crc_before(self, offset: int) -> int | None:
        """Return the CRC of the batch that ends at `offset`, None when none does or it cannot be read."""
        if self._last[0] == offset:
            return self._last[1]
        log = self.log
        if not log.log_start_offset < offset <= log.log_end_offset:
            return None
        try:
            region = log.read(offset - 1, 1)
            data = b"" if region is None else region.read()
        except (LogError, OSError):
            return None
        at = 0
        while at < len(data):
            header = read_header(memoryview(data)[at:])
            if header.next_offset == offset:
                self._last = offset, header.crc
                return header.crc
            at += header.size_bytes
        return None

    def ends_with(self, end_offset: int, crc: int) -> None:
        """Know the CRC of the batch that was just appended and ends there."""
        self._last = end_offset, crc

    # -- on a worker's thread ----------------------------------------------------------------------

    def note(self, version: int, leader_epoch: int, *, went_back: bool, members: tuple[Member, ...] = ()) -> None:
        """Note durably that a state was obeyed. Raises OSError."""
        with self._lock:
            wanted = replace(
                self.noted,
                version=version,
                leader_epoch=leader_epoch,
                members=members,
                went_back=went_back,
                count=self.noted.count + 1,
            )
            replica_note.write(self.log.folder, wanted)
            self.noted = wanted

    def begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Add an epoch to the list beside the log, durably. Raises LogError."""
        with self._lock:
            self.log.begin_epoch(leader_epoch, start_offset)

    def cut(self, to_offset: int) -> None:
        """Cut the end back to `to_offset`, durably. The tail goes to `<folder>.cut.<ms>`. Raises LogError, OSError."""
        with self._lock:
            self._check_open()
            now_ms = self._now_ms()
            aside = self._aside(now_ms)
            self.must_open = True
            self.log = self.log.cut_end(to_offset, aside=aside, now_ms=now_ms)
            self._is_new()

    def begin_empty(self, at_offset: int, epochs: Epochs) -> None:
        """Put the whole folder aside as `<folder>.cut.<ms>`, and begin an empty log at `at_offset`, durably. Raises LogError,
        OSError.
        """
        with self._lock:
            self._check_open()
            old, now_ms = self.log, self._now_ms()
            folder = old.folder
            old.close()
            folder.rename(self._aside(now_ms))
            config = replace(old.config, flush_at_open=True)
            log = PartitionLog.open(folder, topic=old.topic, partition=old.partition, config=config, now_ms=now_ms)
            topic_note.write(folder, self._topic_id, is_durable=True)
            if at_offset:
                log.jump_to(at_offset, now_ms)
                log.flush()
            for each in epochs:
                log.begin_epoch(each.leader_epoch, each.start_offset)
            log.config = old.config
            self.noted = replace(self.noted, count=self.noted.count + 1)
            replica_note.write(folder, self.noted)
            self.log = log
            self._is_new()

    def open_again(self) -> None:
        """Open the log after a cut that failed: it ends at the old end, at the new one, or between. Raises LogError, OSError."""
        with self._lock:
            self._check_open()
            old = self.log
            old.close()
            self.log = PartitionLog.open(
                old.folder, topic=old.topic, partition=old.partition, config=old.config, now_ms=self._now_ms()
            )
            self._is_new()

    def _aside(self, now_ms: int) -> Path:
        """Return a name that no folder has: two cuts may come in one millisecond, and the wall clock may go back."""
        folder = self.log.folder
        while (aside := folder.with_name(f"{folder.name}.cut.{now_ms}")).exists():
            now_ms += 1
        return aside

    def _is_new(self) -> None:
        self.must_open = False
        self.incarnation += 1
        self.log.skips_damage = False
        self._last = -1, NO_CRC
        self.is_damaged = bool(self.log.bad_ranges)

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(f"the replica's folder {self.log.folder} is closed: the topic was removed, or the broker stops")

    def close(self) -> None:
        """Flush and close the log; nothing is cut any more. Raises LogError."""
        with self._lock:
            self._is_closed = True
            self.log.close()


def without_lost_pages(log: PartitionLog, now_ms: int) -> PartitionLog | None:
    """Return the log cut where a power cut may have lost pages, None when there is no such place: a hole between two segments, or
    damage, behind what is known to have been flushed.

    A log of one replica keeps what is behind it. In a replica's log, a hole would count as a gap that the leader had made, so
    that the replica would be taken for one with everything. And damage that no replica can repair, because all have lost their
    power, would keep all of them out of the set. Raises LogError, OSError.
    """
    flushed_to = log.recovery.flushed_to
    lost = [begin for begin, end in log.gaps if end > flushed_to]
    lost += [bad.from_offset for bad in log.bad_ranges if bad.from_offset >= flushed_to]
    if not lost:
        return None
    return log.cut_end(min(lost), aside=log.folder.with_name(f"{log.folder.name}.cut.{now_ms}"), now_ms=now_ms)


def open_replica(
    log: PartitionLog,
    topic_id: UUID,
    now_ms: Callable[[], int],
    *,
    has_lost_memory: bool = False,
    new_token: Callable[[], str] = replica_note.new_token,
) -> ReplicaLog:
    """Return the replica of an open log. A folder without a note gets one. Raises FolderFault, OSError.

    `has_lost_memory`: the power was cut, or the system ended without a clean stop. If pages were lost before the end, the folder
    gets a new token, so that it is no member until it has caught up.
    """
    folder: Path = log.folder
    try:
        cut = without_lost_pages(log, now_ms()) if has_lost_memory else None
        if cut is not None:
            log = cut
            before = replica_note.read(folder) or ReplicaNote(token="")
            replica_note.write(folder, replace(before, token=new_token(), count=before.count + 1))
        noted = replica_note.read(folder)
        if noted is None:
            noted = ReplicaNote(token=new_token())
            replica_note.write(folder, noted)
    except ValueError as error:
        fault = OSError(
            f"{error}. Move the folder away: this replica then copies the log from its leader. Do not do this on more replicas "
            "than may fail"
        )
        raise FolderFault(topic=log.topic, partition=log.partition, path=folder, cause=fault) from error
    return ReplicaLog(log, noted, topic_id, now_ms)
