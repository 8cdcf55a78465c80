"""What logs need besides appends and reads: flushes as their topics' settings demand, retention, closing of rolled segments.

The slow part of each runs on the disk workers' threads, the decision and the bookkeeping on the loop thread."""

from collections.abc import Callable

from ...runtime.logs import get_logger
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..log import DeletedSegment, ExpireJob, LogError, erase_now
from ..metrics import Durations
from ..settings.broker_settings import BrokerSettings
from .flush_scheduler import Flushable, FlushScheduler
from .flusher import Flusher, ThreadFlush
from .partition import Partition, PartitionTable

log = get_logger(__name__)

ROLLED_EVERY_MS = 5_000
"""How long a closed segment may wait for its flush (until then its file stays open), and how long a new segment's start time is
only in memory."""
PARTITIONS_A_TURN = 100
"""A skip thousands of partitions lets requests run after so many."""


class Maintenance:
    """Lives on the loop thread. Only `dispose` may be called from any thread."""

    def __init__(
        self,
        loop: Loop,
        worker: Worker,
        flusher: Flusher,
        settings: BrokerSettings,
        now_ms: Callable[[], int],
    ) -> None:
        """`worker` does what nothing waits for, `flusher` the flushes that acknowledgements and readers wait for."""
        self._loop = loop
        self._worker = worker
        self._flusher = flusher
        self._scheduler = FlushScheduler(loop, flusher, ThreadFlush(worker))
        self._settings = settings
        self._now_ms = now_ms
        self._table = PartitionTable()
        self._changed: dict[Partition, None] = {}
        """Partitions that may have something for `_after_rolls`."""

    def start(self, table: PartitionTable) -> None:
        """Begin the skips this table's partitions. Call it before the loop runs."""
        self._table = table
        self._changed = table.follow()
        self._worker.start()
        self._flusher.start()
        self._loop.call_at(self._loop.now_ms + self._settings.retention_check_interval_ms, self._retention_pass)
        self._loop.call_at(self._loop.now_ms + ROLLED_EVERY_MS, self._rolled_pass)

    def stop(self) -> None:
        self._flusher.stop()
        self._worker.stop()

    @property
    def flush_durations(self) -> Durations:
        """How long flushes took; for metrics."""
        return self._scheduler.durations

    @property
    def failed_flush_count(self) -> int:
        return self._scheduler.failed_count

    def flush(self, partition: Flushable, within_ms: int = 0) -> None:
        """Flush the partition's log, as it is when the flush begins, within about `within_ms`; 0: as soon as possible."""
        if within_ms > 0:
            self._loop.call_at(self._loop.now_ms + within_ms, lambda: self._scheduler.ask(partition))
        else:
            self._scheduler.ask(partition)

    def forget_flush(self, partition: Flushable) -> None:
        """Begin no flush that was asked for before: the log is closed now."""
        self._scheduler.forget(partition)

    def dispose(self, job: Callable[[], None]) -> None:
        """Run `job` soon, off the loop. A failure is logged."""

        def failed(error: Exception) -> None:
            log.warning("disposal_failed", why=str(error))

        if not self._worker.submit(job, lambda _: None, failed):
            log.warning("disposal_left_out", why="too much waits for the disk already")

    def _rolled_pass(self) -> None:
        self._loop.call_at(self._loop.now_ms + ROLLED_EVERY_MS, self._rolled_pass)
        self._table.tell_followers()
        self._pass(list(self._changed), self._after_rolls)

    def _retention_pass(self) -> None:
        self._loop.call_at(self._loop.now_ms + self._settings.retention_check_interval_ms, self._retention_pass)
        self._pass(list(self._table), self._expire)

    def _pass(self, partitions: list[Partition], visit: Callable[[list[Partition]], None]) -> None:
        visit(partitions[:PARTITIONS_A_TURN])
        rest = partitions[PARTITIONS_A_TURN:]
        if rest:
            self._loop.post(lambda: self._pass(rest, visit))

    def _after_rolls(self, partitions: list[Partition]) -> None:
        notes = []
        for partition in partitions:
            if partition.is_gone:
                self._changed.pop(partition, None)
                continue
            note = partition.log.note_job()
            if note is not None:
                notes.append(note)
            if partition.log.has_unflushed_segments:
                self._scheduler.ask_in_background(partition.flush_target)
            elif note is None:
                self._changed.pop(partition, None)

        def write() -> None:
            for note in notes:
                note.run()

        def written(_: None) -> None:
            for note in notes:
                note.done()

        if notes:
            # When the queue is full, the next pass writes them.
            self._worker.submit(write, written, lambda _: None)

    def _expire(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            self._expire_one(partition)

    def _expire_one(self, partition: Partition) -> None:
        def failed(error: Exception) -> None:
            log.error("retention_failed", topic=partition.topic, partition=partition.index, why=str(error))

        try:
            bound = partition.high_watermark if partition.is_replicated else None
            job = partition.log.expire_job(self._now_ms(), up_to_offset=bound, erase=self._erase)
        except (LogError, OSError) as error:
            failed(error)
            return
        if job is None:
            return
        if job.work.entries is None:
            self._expired(partition, job)
        elif not self._worker.submit(job.run, lambda _: self._expired(partition, job), failed):
            log.warning("disposal_left_out", why="too much waits for the disk already")

    def _expired(self, partition: Partition, job: ExpireJob) -> None:
        if partition.is_gone:
            return
        try:
            deleted = job.done()
        except (LogError, OSError) as error:
            log.error("retention_failed", topic=partition.topic, partition=partition.index, why=str(error))
            return
        if deleted:
            partition.start_moved()
        for segment in deleted:
            log.info(
                "segment_expired",
                topic=partition.topic,
                partition=partition.index,
                base_offset=segment.base_offset,
                end_offset=segment.end_offset,
                size_bytes=segment.size_bytes,
            )

    def _erase(self, deleted: DeletedSegment) -> None:
        self.dispose(lambda: erase_now(deleted))
