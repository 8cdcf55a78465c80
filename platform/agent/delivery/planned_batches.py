"""The planned batches in memory and in the state: planned, built again after a restart, split, numbered again, removed. For one
thread.

Sends nothing and decides nothing about answers. What it writes is on disk with the store's next commit.
"""

from collections.abc import Callable, Mapping, Sequence

from ...client.producer.delivery import BatchNumbers
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...wire.batch.compression import Codec
from ...wire.quarantine_record import quarantine_topic
from ..audit_reports.audit_reports import AuditReports
from ..plan.batches import PlannedBatch, build, plan_batches, renumbered
from ..plan.entries import EVENT, NOTHING, QUARANTINE, Entries, Kind
from ..plan.events import BatchHead
from ..plan.picks import split_picks
from ..plan.settling import Cause
from ..state.rows import QUARANTINE_OWNER, BatchRow, ChunkRow
from ..state.store import Store
from .batch_queue import Batch, BatchQueue, QueueKey
from .producer_ids import Ids

log = get_logger(__name__)

NOT_BUILT = -1
"""The CRC of a batch that was given other records: it is made when the batch is built."""


class PlannedBatches:
    """Every planned batch of the agent, in the queue of its producer and partition."""

    def __init__(
        self,
        store: Store,
        audit_reports: AuditReports,
        clock: Clock,
        *,
        codec: Codec,
        batch_bytes: int,
        on_settled: Callable[[ChunkRow], None],
    ) -> None:
        """`on_settled`: all records of a chunk have their end."""
        self._store = store
        self._audit_reports = audit_reports
        self._clock = clock
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._on_settled = on_settled
        self._queues: dict[QueueKey, BatchQueue] = {}
        self._busy: dict[QueueKey, BatchQueue] = {}
        """Those of `_queues` with batches, or to be numbered; the longest waiting first."""
        self._chunks: dict[int, ChunkRow] = {}
        self._numbers = store.sequences()
        self._spread = 0
        self.held_bytes = 0
        """The size of all batches in memory."""

    @property
    def busy(self) -> list[BatchQueue]:
        """Return the queues in which something waits."""
        return list(self._busy.values())

    @property
    def count(self) -> int:
        return sum(len(queue.batches) for queue in self._busy.values())

    def chunk_of(self, row: BatchRow) -> ChunkRow:
        return self._chunks[row.chunk_id]

    def queue_of(self, row: BatchRow) -> BatchQueue:
        return self._queues[QueueKey(row.owner, row.topic, row.partition)]

    def put_last(self, queue: BatchQueue) -> None:
        """Have the other queues go before this one: each source has its turn."""
        if queue.key in self._busy:
            self._busy[queue.key] = self._busy.pop(queue.key)

    def forget(self, run_id: int) -> None:
        """Drop what is remembered of a run that is closed: it has no batches."""
        for key in [key for key in self._queues if key.owner == run_id]:
            del self._queues[key]

    # -- planning, and building again ------------------------------------------------------------------------------------

    def plan(
        self,
        chunk: ChunkRow,
        entries: Mapping[Kind, Entries],
        *,
        partitions: Mapping[str, Sequence[int]],
        ids: Mapping[int, Ids],
        log_ends: Mapping[tuple[str, int], int],
    ) -> None:
        """Write the chunk's batches into the state, each under the next numbers of its partition.

        `partitions`: of each topic; `ids`: of each owner, for partitions that it has not written to; `log_ends`: where the log of
        each partition ended at least, when it was last asked.
        """
        self._store.put_chunk(chunk)
        self._chunks[chunk.id] = chunk
        for kind, some in entries.items():
            if not len(some):
                continue
            topic = topic_of(kind, chunk.plan.topic)
            owner = owner_of(kind, chunk.run_id)
            self._spread += 1
            for planned in plan_batches(some, partitions[topic], batch_bytes=self._batch_bytes, spread=self._spread):
                queue = self._queue(QueueKey(owner, topic, planned.partition))
                if queue.next_numbers is None:
                    queue.next_numbers = (*ids[owner], 0)
                search_from = log_ends.get((topic, planned.partition), 0)
                self._plan(chunk, kind, queue, planned, search_from, some)
        if not chunk.batches:
            self._settled(chunk)

    def restore(self, chunk: ChunkRow) -> None:
        """Take in a chunk of an earlier agent; its batches are to be built again."""
        self._chunks[chunk.id] = chunk
        for row in chunk.batches:
            queue = self._queue(QueueKey(row.owner, row.topic, row.partition))
            # Only the first of a queue was ever sent.
            batch = Batch(row, None, None if queue.batches else row.planned_ms)
            self._append(queue, batch)
        if not chunk.batches:
            self._settled(chunk)

    def unbuilt(self) -> list[ChunkRow]:
        """Return the chunks with batches that are to be built from their source, oldest first."""
        ids = {one.row.chunk_id for queue in self._busy.values() for one in queue if one.content is None and one.rest is None}
        return [self._chunks[one] for one in sorted(ids)]

    def build(self, chunk: ChunkRow, entries: Mapping[Kind, Entries]) -> None:
        """Build the chunk's batches again. One that does not come out as it was planned is looked for in the log."""
        for queue in list(self._busy.values()):
            for batch in queue:
                if batch.row.chunk_id == chunk.id and batch.content is None and batch.rest is None:
                    self._build(batch, entries[batch.row.kind])

    def _plan(
        self, chunk: ChunkRow, kind: Kind, queue: BatchQueue, planned: PlannedBatch, search_from: int, entries: Entries
    ) -> None:
        numbers = queue.take_numbers(planned.record_count)
        content, crc, _ = build(entries, planned.picks, BatchHead(self._codec, *numbers))
        row = BatchRow(
            id=self._store.next_id("batches"),
            chunk_id=chunk.id,
            owner=queue.key.owner,
            topic=queue.key.topic,
            partition=queue.key.partition,
            kind=kind,
            window_start_ms=planned.window_start_ms,
            numbers=BatchNumbers(*numbers, crc),
            record_count=planned.record_count,
            picks=planned.picks,
            search_from=search_from,
            planned_ms=self._clock.now_ms(),
        )
        chunk.batches.append(row)
        self._store.put_batch(row)
        assert queue.next_numbers is not None
        self._store.put_sequence(*queue.key, queue.next_numbers)
        self._append(queue, Batch(row, content))

    def _build(self, batch: Batch, entries: Entries) -> None:
        row = batch.row
        content, crc, count = build(entries, row.picks, BatchHead(self._codec, *row.numbers[:3]))
        if count == row.record_count and row.numbers.crc in (crc, NOT_BUILT):
            self._hold(batch, content, crc)
            return
        log.warning("source_changed", topic=row.topic, planned=row.record_count, readable=count, chunk=row.chunk_id)
        batch.rest = entries
        batch.look = Cause.CHANGED

    # -- what becomes of them --------------------------------------------------------------------------------------------

    def keep_rest(self, batch: Batch) -> int:
        """Give a batch what its changed source still holds; nothing of it may be in the log. Return how many records are gone.

        Its numbers are for another one to be taken back: it needs new ones. Without any record it is to be removed.
        """
        row, rest = batch.row, batch.rest or NOTHING
        batch.rest = None
        content, crc, count = build(rest, row.picks, BatchHead(self._codec, *row.numbers[:3]))
        gone = row.record_count - count
        if count:
            # Places rise: what is still there are the first of them.
            row.record_count, row.picks, row.earlier = count, split_picks(row.picks, count)[0], ()
            self._hold(batch, content, crc)
        return gone

    def split(self, queue: BatchQueue, batch: Batch) -> None:
        """Make two batches of one that the broker has not stored; both are built from the source."""
        row = batch.row
        half = row.record_count // 2
        first = row.numbers
        picks, other_picks = split_picks(row.picks, half)
        others = BatchRow(
            id=self._store.next_id("batches"),
            chunk_id=row.chunk_id,
            owner=row.owner,
            topic=row.topic,
            partition=row.partition,
            kind=row.kind,
            window_start_ms=row.window_start_ms,
            numbers=BatchNumbers(first.producer_id, first.producer_epoch, first.first_sequence + half, NOT_BUILT),
            record_count=row.record_count - half,
            picks=other_picks,
            search_from=row.search_from,
            planned_ms=row.planned_ms,
        )
        row.picks, row.record_count, row.numbers = picks, half, first._replace(crc=NOT_BUILT)
        self.held_bytes -= len(batch.content or b"")
        batch.content, batch.may_be_sent_since_ms = None, None
        queue.batches.insert(1, Batch(others, None))
        chunk = self._chunks[row.chunk_id]
        chunk.batches.insert(chunk.batches.index(row) + 1, others)
        if row.kind == EVENT:
            self._audit_reports.planned(chunk.run_id, row.window_start_ms)
        queue.begins_at = first[:3]

    def can_be_numbered(self, queue: BatchQueue) -> bool:
        """Return whether a queue's batches can get new numbers: they are built, and none of them is in flight."""
        return not queue.is_in_flight and all(one.content is not None or one.row.numbers.crc == NOT_BUILT for one in queue)

    def number(self, queue: BatchQueue, start: tuple[int, int, int]) -> None:
        """Number a queue's batches from here on: producer id, epoch, sequence."""
        for batch, _ in queue.renumber(*start):
            producer_id, epoch, sequence, crc = batch.row.numbers
            if batch.content is not None:
                batch.content, crc = renumbered(
                    batch.content, producer_id=producer_id, producer_epoch=epoch, first_sequence=sequence
                )
            batch.row.numbers = BatchNumbers(producer_id, epoch, sequence, crc)
            batch.may_be_sent_since_ms = None
            self._store.put_batch(batch.row)
        assert queue.next_numbers is not None
        self._store.put_sequence(*queue.key, queue.next_numbers)
        self._tidy(queue)

    def remove(self, queue: BatchQueue, batch: Batch) -> None:
        """Take a batch out: it has its end."""
        row = batch.row
        queue.batches.remove(batch)
        self.held_bytes -= len(batch.content or b"")
        self._store.delete_batch(row.id)
        chunk = self._chunks[row.chunk_id]
        chunk.batches.remove(row)
        if row.kind == EVENT:
            self._audit_reports.settled(chunk.run_id, row.window_start_ms)
        self._tidy(queue)
        if not chunk.batches:
            self._settled(chunk)

    def _settled(self, chunk: ChunkRow) -> None:
        del self._chunks[chunk.id]
        self._store.delete_chunk(chunk.id)
        self._on_settled(chunk)

    # -- inside ----------------------------------------------------------------------------------------------------------

    def _queue(self, key: QueueKey) -> BatchQueue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = BatchQueue(key, self._numbers.pop(key, None))
        return queue

    def _append(self, queue: BatchQueue, batch: Batch) -> None:
        queue.batches.append(batch)
        self._busy[queue.key] = queue
        self.held_bytes += len(batch.content or b"")
        if batch.row.kind == EVENT:
            self._audit_reports.planned(self._chunks[batch.row.chunk_id].run_id, batch.row.window_start_ms)

    def _hold(self, batch: Batch, content: bytes, crc: int) -> None:
        batch.content = content
        self.held_bytes += len(content)
        if crc != batch.row.numbers.crc:
            batch.row.numbers = batch.row.numbers._replace(crc=crc)
        self._store.put_batch(batch.row)

    def _tidy(self, queue: BatchQueue) -> None:
        if not queue.batches and not queue.is_to_be_numbered:
            self._busy.pop(queue.key, None)


def owner_of(kind: Kind, run_id: int) -> int:
    """Return whose producer ids the batches of a run have."""
    return QUARANTINE_OWNER if kind == QUARANTINE else run_id


def topic_of(kind: Kind, topic: str) -> str:
    """Return where the batches of a source of this topic go."""
    return quarantine_topic(topic) if kind == QUARANTINE else topic
