"""Planned batches from their plan to their end. For one thread; what it writes is on disk with the store's next commit.

`settle` (answers in, ends written) comes before a commit, `send` after it: whatever is sent is in the state as it is sent,
and a batch goes out only when the end of the one before it is on disk. So after a crash only the first batch of a queue may be in
the log.
"""

from collections.abc import Callable, Iterable, Mapping

from ...audit.model.messages import GONE_FROM_SOURCE, QUARANTINED, REFUSED
from ...client.connection.cluster import Cluster
from ...client.errors import ClientError, broker_error
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...client.producer.delivery import BatchNumbers
from ...client.producer.event_throttle import EventThrottle
from ...client.producer.topic_creation import partitions_of
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...wire.batch.compression import Codec
from ..audit_reports.audit_reports import AuditReports
from ..plan.entries import QUARANTINE, Entries, Kind
from ..plan.settling import Cause, Look, Step, after_answer, after_look, before_sending
from ..state.rows import BatchRow, ChunkRow
from ..state.store import Store
from .batch_queue import Batch, BatchQueue
from .look_ups import LookUps
from .planned_batches import PlannedBatches, owner_of
from .producer_ids import ProducerIds
from .sender import Answer, Sender

log = get_logger(__name__)

UNDELIVERED = "refused_by_schema"
"""The loss that counts a record whose quarantine record was not delivered."""
TOO_LARGE = "dropped_too_large"


class Delivery:
    """Every planned batch of the agent."""

    def __init__(
        self,
        store: Store,
        audit_reports: AuditReports,
        cluster: Cluster,
        clock: Clock,
        *,
        codec: Codec,
        batch_bytes: int,
        wake: Callable[[], None],
        on_settled: Callable[[ChunkRow], None],
    ) -> None:
        """`on_settled`: all records of a chunk have their end."""
        self._store = store
        self._audit_reports = audit_reports
        self._cluster = cluster
        self._clock = clock
        self.planned = PlannedBatches(store, audit_reports, clock, codec=codec, batch_bytes=batch_bytes, on_settled=on_settled)
        self._ids = ProducerIds(store, cluster, clock, audit_reports.add_producer_id)
        self._sender = Sender(cluster, clock)
        self._look_ups = LookUps(cluster, wake)
        self._partitions: dict[str, list[int]] = {}
        self._log_ends: dict[tuple[str, int], int] = {}
        """Where a partition's log ended at least, as far as answers have shown."""
        self._backoff = Backoff()
        self._throttle = EventThrottle()
        self.last_error: ClientError | None = None
        """Why the last batch that must be sent again was not stored; None once one is acknowledged after it."""
        self._retry_at_ms = 0
        self._attempts = 0

    def start(self) -> None:
        self._look_ups.start()

    def stop(self) -> None:
        self._sender.close()
        self._cluster.close()
        self._look_ups.stop()

    @property
    def is_idle(self) -> bool:
        """Return whether no answer is awaited."""
        return self._sender.is_idle

    # -- planning --------------------------------------------------------------------------------------------------------

    def is_ready(self, run_id: int, topics: Mapping[Kind, str]) -> bool:
        """Return whether batches to these topics can be planned; ask the cluster for what is missing (or not yet again)."""
        if self._clock.monotonic_ms() < self._retry_at_ms:
            return False
        try:
            for kind, topic in topics.items():
                if self._ids.get(owner_of(kind, run_id)) is None:
                    self.last_error = self._ids.last_error
                    return False
                partitions = self._partitions[topic] = partitions_of(self._cluster, topic)
                unknown = [TopicPartition(topic, one) for one in partitions if (topic, one) not in self._log_ends]
                if unknown:
                    for partition, offset in log_offsets(self._cluster, dict.fromkeys(unknown, LATEST)).items():
                        self._log_ends[partition] = offset
        except ClientError as error:
            self._wait(error)
            return False
        self._attempts = 0
        return True

    def plan(self, chunk: ChunkRow, entries: Mapping[Kind, Entries]) -> None:
        """Plan the chunk's batches. Call `is_ready` first."""
        ids = {owner: self._ids.get(owner) for owner in {owner_of(kind, chunk.run_id) for kind, some in entries.items() if some}}
        self.planned.plan(
            chunk,
            entries,
            partitions=self._partitions,
            ids={owner: found for owner, found in ids.items() if found is not None},
            log_ends=self._log_ends,
        )

    def forget(self, run_id: int) -> None:
        """Drop what is remembered of a run that is closed: it has no batches."""
        self._ids.forget(run_id)
        self.planned.forget(run_id)

    # -- settling --------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Take in the answers that are there, and what reading back has found; number what needs other numbers."""
        for answer in self._sender.receive():
            self._answered(answer)
        for batches, found in self._look_ups.answers():
            if isinstance(found, ClientError):
                self._wait(found)
                continue
            assert isinstance(found, list)
            for batch, (look, numbers) in zip(batches, found, strict=True):
                self._looked(batch, look, numbers)
        for queue in self.planned.busy:
            if queue.is_to_be_numbered and self.planned.can_be_numbered(queue):
                self._number(queue)

    def _answered(self, answer: Answer) -> None:
        batch, row = answer.batch, answer.batch.row
        if answer.error is not None:
            self._again(batch, answer.error)
            return
        step = after_answer(answer.error_code, row.record_count)
        if step is Step.ACKNOWLEDGED:
            self.last_error = None
            if answer.base_offset >= 0:
                partition = (row.topic, row.partition)
                self._log_ends[partition] = max(answer.base_offset, self._log_ends.get(partition, 0))
            self._ended(answer.queue, batch, (*row.earlier, row.numbers), is_acknowledged=True)
            return
        error = broker_error(f"Produce of {row.record_count} records to {row.topic}-{row.partition}", answer.error_code)
        if self._throttle.is_due((row.topic, answer.error_code), self._clock.monotonic_ms()):
            more = self._throttle.left_out((row.topic, answer.error_code))
            log.warning("batch_not_taken", topic=row.topic, partition=row.partition, then=step.name, reason=str(error), **more)
        match step:
            case Step.LOOK:
                batch.look = Cause.NUMBERS_UNKNOWN
            case Step.SPLIT:
                self.planned.split(answer.queue, batch)
            case Step.REFUSED:
                is_too_large = row.record_count == 1 and after_answer(answer.error_code, 2) is Step.SPLIT
                self._lost(row, TOO_LARGE if is_too_large else REFUSED, row.record_count)
                answer.queue.begins_at = row.numbers[:3]
                self.planned.remove(answer.queue, batch)
            case _:
                self._again(batch, error)

    def _looked(self, batch: Batch, look: Look, numbers: BatchNumbers | None) -> None:
        row = batch.row
        queue = self.planned.queue_of(row)
        assert batch.look is not None
        cause, batch.look = batch.look, None
        log.info("log_read_back", topic=row.topic, partition=row.partition, cause=cause.name, found=look.name)
        match after_look(look, cause):
            case Step.ACKNOWLEDGED:
                every = (*row.earlier, row.numbers)
                assert numbers is not None
                self._ended(queue, batch, every[: every.index(numbers) + 1], is_acknowledged=True)
            case Step.AMBIGUOUS:
                self._store.add_total("ambiguous", row.record_count)
                queue.needs_other_id = True
                self._ended(queue, batch, (*row.earlier, row.numbers), is_acknowledged=False)
            case Step.SEND_ANEW if cause is Cause.CHANGED:
                self._send_rest(queue, batch)
            case Step.SEND_ANEW:
                # The broker may have it anyway, from a request that it reads only now: reported as one batch of two names.
                row.earlier = (*row.earlier, row.numbers)
                queue.needs_other_id = True
            case _:
                batch.is_looked_for = True

    def _send_rest(self, queue: BatchQueue, batch: Batch) -> None:
        """Send what a changed source still holds of a batch; the log does not hold it."""
        gone = self.planned.keep_rest(batch)
        self._lost(batch.row, GONE_FROM_SOURCE, gone)
        if batch.content is None:
            queue.begins_at = batch.row.numbers[:3]
            self.planned.remove(queue, batch)
        else:
            queue.needs_other_id = True

    def _number(self, queue: BatchQueue) -> None:
        """Give a queue's batches their new numbers, once another id is there where one is needed."""
        if not queue.needs_other_id:
            assert queue.begins_at is not None
            self.planned.number(queue, queue.begins_at)
            return
        head = queue.head
        spent = head.row.numbers[:2] if head is not None else (queue.next_numbers or (-1, -1, 0))[:2]
        ids = self._ids.get(queue.key.owner, but=spent)
        if ids is not None:
            self.planned.number(queue, (*ids, 0))

    def _ended(self, queue: BatchQueue, batch: Batch, numbers: tuple[BatchNumbers, ...], *, is_acknowledged: bool) -> None:
        row = batch.row
        chunk = self.planned.chunk_of(row)
        run_id, topic = chunk.run_id, chunk.plan.topic
        if row.kind == QUARANTINE:
            self._audit_reports.lost(
                run_id, topic, row.window_start_ms, QUARANTINED if is_acknowledged else UNDELIVERED, row.record_count
            )
        else:
            self._audit_reports.ended(
                run_id, topic, row.window_start_ms, row.partition, numbers, row.record_count, is_acknowledged=is_acknowledged
            )
            if is_acknowledged:
                self._store.add_total("acknowledged", row.record_count)
        self.planned.remove(queue, batch)

    def _lost(self, row: BatchRow, name: str, count: int) -> None:
        chunk = self.planned.chunk_of(row)
        if count:
            name = UNDELIVERED if row.kind == QUARANTINE else name
            self._audit_reports.lost(chunk.run_id, chunk.plan.topic, row.window_start_ms, name, count)

    # -- sending ---------------------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send what may be sent now, the longest waiting first. Call it after the commit."""
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        if monotonic_ms < self._retry_at_ms:
            return
        due: list[BatchQueue] = []
        looks: dict[tuple[str, int], list[Batch]] = {}
        for queue in self.planned.busy:
            batch = queue.head
            if batch is None or queue.is_in_flight or queue.is_to_be_numbered or batch.retry_at_ms > monotonic_ms:
                continue
            if batch.look is None and batch.content is not None:
                since_ms = None if batch.is_looked_for else batch.may_be_sent_since_ms
                if before_sending(may_be_sent_since_ms=since_ms, now_ms=now_ms) is Step.LOOK:
                    batch.look = Cause.OLD
            if batch.look is not None:
                looks.setdefault((queue.key.topic, queue.key.partition), []).append(batch)
            elif batch.content is not None and self._audit_reports.may_send(queue.key.owner, *batch.row.numbers[:2]):
                due.append(queue)
        for partition, batches in looks.items():
            self._look_ups.ask(partition, batches)
        if not due:
            return
        trouble = self._sender.send(due)
        if trouble is not None:
            self._wait(trouble)
        for queue in due:
            if queue.is_in_flight and queue.head is not None:
                if queue.head.is_looked_for:
                    queue.head.is_looked_for, queue.head.may_be_sent_since_ms = False, now_ms
                self.planned.put_last(queue)

    def wait(self, descriptors: Iterable[int], timeout_ms: int) -> None:
        """Return when there is an answer, one of the descriptors can be read, or the time is over."""
        self._sender.wait(descriptors, timeout_ms)

    def next_retry_ms(self) -> int | None:
        """Return when something waits no longer (monotonic ms); None: nothing waits for a time."""
        moments = [one.head.retry_at_ms for one in self.planned.busy if one.head is not None and not one.is_in_flight]
        moments.append(self._retry_at_ms)
        now_ms = self._clock.monotonic_ms()
        return min((at for at in moments if at > now_ms), default=None)

    # -- inside ----------------------------------------------------------------------------------------------------------

    def _again(self, batch: Batch, error: ClientError) -> None:
        self._cluster.forget(batch.row.topic)
        self.last_error = error
        batch.retry_at_ms = self._clock.monotonic_ms() + self._backoff.wait_ms(batch.attempts)
        batch.attempts += 1

    def _wait(self, error: ClientError) -> None:
        """Ask the cluster nothing for a while."""
        self.last_error = error
        self._retry_at_ms = self._clock.monotonic_ms() + self._backoff.wait_ms(self._attempts)
        self._attempts += 1
