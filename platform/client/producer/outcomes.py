"""What happens to batches that were sent: acknowledged, queued to be sent again, or given up.

Order and sequences hold through every retry. A batch returns to the head of its partition's queue. A batch that may be in the log
already is only sent again under the same producer id and sequence. Source: KIP-98.
"""

import threading
from collections.abc import Callable, Iterable

from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.logs import get_library_logger
from ...wire.messages import produce
from ..connection.cluster import Cluster
from ..errors import BadAnswer, BrokerUnreachable, ClientError, broker_error
from .accumulator import Accumulator
from .delivery import DeliveryOutcome, outcome_of
from .event_throttle import EventThrottle
from .pending import PartitionQueue, PendingBatch

log = get_library_logger(__name__)

OnDone = Callable[[PendingBatch, int, ClientError | None], None]
"""Called once per batch with its base offset, or with -1 and the error. Called without the lock, on the sender's thread."""
InFlight = tuple[PartitionQueue, PendingBatch]


class Outcomes:
    """Settles one producer's batches; used by its sender's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        lock: threading.Condition,
        *,
        is_numbered: bool,
        clock: Clock,
        on_done: OnDone,
    ) -> None:
        """`is_numbered`: batches carry a producer id and sequences."""
        self._cluster = cluster
        self._accumulator = accumulator
        self._lock = lock
        self._is_numbered = is_numbered
        self._clock = clock
        self._on_done = on_done
        self._backoff = Backoff()
        self._throttle = EventThrottle()
        self.last_error: ClientError | None = None
        """Why the last batch that must be sent again was not stored; None once a batch is acknowledged after it."""

    def answered(self, address: str, in_flight: Iterable[InFlight], answer: produce.ProduceResponse) -> None:
        """Settle each batch of the request by the broker's response."""
        answers = {(topic.name, partition.index): partition for topic in answer.topics for partition in topic.partitions}
        for queue, batch in in_flight:
            batch.awaits_response, batch.was_sent = False, True
            found = answers.get((batch.topic, batch.partition))
            if found is None:
                missing = BadAnswer(address, "Produce", f"it leaves out {batch.topic}-{batch.partition}")
                batch.is_uncertain = True
                self._again(queue, batch, missing)
            else:
                self._judge(address, queue, batch, found)

    def request_failed(self, address: str, in_flight: list[InFlight], error: ClientError) -> None:
        """Settle the batches of a request that failed: the broker may or may not have received it."""
        was_sent = error.was_sent if isinstance(error, BrokerUnreachable) else isinstance(error, BadAnswer)
        kind = ("produce_failed", address, type(error))
        if self._throttle.is_due(kind, self._clock.monotonic_ms()):
            more = self._throttle.left_out(kind)
            # A retried request is an info event. The caller who waits sees the error in full, and `batch_given_up` reports it if
            # it comes to that.
            tell = log.info if error.retriable else log.warning
            tell("produce_failed", broker=address, batches=len(in_flight), reason=str(error), **more)
        for queue, batch in in_flight:
            batch.awaits_response, batch.was_sent = False, batch.was_sent or was_sent
            batch.is_uncertain = batch.is_uncertain or was_sent
            self._again_or_never(queue, batch, error)

    def not_sent(self, queue: PartitionQueue, error: ClientError) -> None:
        """Settle the partition's first batch, which was due and could not be sent."""
        with self._lock:
            batch = self._accumulator.take(queue)
        self._again_or_never(queue, batch, error)

    def give_up(self, queue: PartitionQueue, batch: PendingBatch, error: ClientError) -> None:
        """Give the batch up: it will never be sent (again)."""
        with self._lock:
            queue.give_up(batch)
            self._accumulator.settle()
        self._on_done(batch, -1, error)

    def _judge(self, address: str, queue: PartitionQueue, batch: PendingBatch, found: produce.ProduceResponsePartition) -> None:
        what = f"Produce of {batch.record_count} records to {batch.topic}-{batch.partition} on {address}"
        outcome = outcome_of(found.error_code)
        if outcome is DeliveryOutcome.ACKNOWLEDGED:
            self.last_error = None
            with self._lock:
                queue.done(batch)
                self._accumulator.settle()
            self._on_done(batch, found.base_offset, None)
            return
        error = broker_error(what, found.error_code, found.error_message)
        match outcome:
            case DeliveryOutcome.NOT_NOW:
                self._again(queue, batch, error)
            case DeliveryOutcome.PERHAPS:
                batch.is_uncertain = True
                self._again(queue, batch, error)
            case DeliveryOutcome.NUMBERS_UNKNOWN if self._is_numbered:
                log.warning(
                    "producer_begins_again",
                    topic=batch.topic,
                    partition=batch.partition,
                    spent_producer_id=batch.producer_id,
                    base_sequence=batch.base_sequence,
                    reason=f"{error}: the broker lost records it had acknowledged, or forgot this producer",
                )
                with self._lock:
                    queue.renumber(batch)
                self._again(queue, batch, error)
            case _:
                self.give_up(queue, batch, error)

    def _again_or_never(self, queue: PartitionQueue, batch: PendingBatch, error: ClientError) -> None:
        if error.retriable:
            self._again(queue, batch, error)
        else:
            self.give_up(queue, batch, error)

    def _again(self, queue: PartitionQueue, batch: PendingBatch, error: ClientError) -> None:
        self._cluster.forget(batch.topic)
        self.last_error = error
        with self._lock:
            batch.last_error = error
            queue.again(batch, self._clock.monotonic_ms() + self._backoff.wait_ms(batch.attempts))
