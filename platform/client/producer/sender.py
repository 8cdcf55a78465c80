"""The producer's one thread: takes due batches, sends one request at a time to each broker, and has `outcomes` settle each
response.

A request carries at most one batch of a partition, and a partition has at most one batch in flight, so order and sequences hold
through every retry. A batch without a response is sent again with the same producer id and sequence until the broker acknowledges
it (or answers 'duplicate', which means the same) or its delivery timeout is over. Kafka itself allows only one batch per
partition in a request.
"""

import select
import threading
from dataclasses import dataclass

from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.logs import get_library_logger
from ...wire.batch.compression import Codec
from ...wire.errors import WireError
from ...wire.messages import produce
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..connection.wake import Wake
from ..errors import BadAnswer, BrokerUnreachable, ClientError, DeliveryTimedOut, RequestTimedOut
from .accumulator import Accumulator
from .identity import ProducerIdentity
from .outcomes import InFlight, OnDone, Outcomes
from .pending import PartitionQueue
from .topic_creation import partitions_of

log = get_library_logger(__name__)

MAX_REQUEST_BYTES = 8 << 20
"""Batches are added to a request until it reaches this size; well below any broker's limit for a frame."""
BUSY_WAIT_MS = 100
IDLE_WAIT_MS = 1_000
"""The longest sleeps, with records held and without. An expiry, which only the clock brings, is noticed that late at most."""


@dataclass(frozen=True, slots=True)
class _Flight:
    """One request in flight."""

    version: int
    deadline_ms: int
    batches: list[InFlight]


class Sender:
    """`run` is the thread's body. It ends after `stop` once nothing is held, or after `abandon`."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        lock: threading.Condition,
        *,
        lane: str,
        codec: Codec,
        identity: ProducerIdentity | None,
        delivery_timeout_ms: int,
        clock: Clock,
        on_done: OnDone,
        acks: int = -1,
    ) -> None:
        self._acks = acks
        self._cluster = cluster
        self._accumulator = accumulator
        self._lock = lock
        self._lane = lane
        self._codec = codec
        self._identity = identity
        self._delivery_timeout_ms = delivery_timeout_ms
        self._clock = clock
        self._on_done = on_done
        self._outcomes = Outcomes(cluster, accumulator, lock, is_numbered=identity is not None, clock=clock, on_done=on_done)
        self._backoff = Backoff()
        self._flights: dict[Connection, _Flight] = {}
        self._topics_retry_at_ms = 0
        self._topics_attempts = 0
        self._topics_error: ClientError | None = None
        self._is_stopping = False
        self._is_abandoned = False
        self._sleeps_until_ms = 0
        """When it next looks for work without a wake-up (monotonic ms). Set under the lock, before it sleeps."""
        self._was_busy = False
        self.is_held = False
        """While true nothing is sent; timeouts continue to run."""
        self.wake = Wake()

    @property
    def last_error(self) -> ClientError | None:
        """Return why the held records were not sent yet, as far as an attempt has shown; None if none has failed."""
        return self._topics_error or self._outcomes.last_error or (self._identity.last_error if self._identity else None)

    def must_wake(self, opened_ms: int) -> bool:
        """Return whether a batch opened then needs `wake`: it becomes due before the sender looks without it. Under the lock."""
        return self._accumulator.has_full or self._sleeps_until_ms > opened_ms + self._accumulator.linger_ms

    def stop(self) -> None:
        """End the thread when every held record is acknowledged or given up."""
        self._is_stopping = True
        self.wake.set()

    def abandon(self) -> None:
        """End the thread; it begins no request any more. The caller keeps the held records."""
        self._is_abandoned = True
        for lane in (self._lane, "control"):  # it may wait for an answer on either
            self._cluster.close_lane(lane)
        self.wake.set()

    def run(self) -> None:
        attempts = 0
        try:
            while not self._is_abandoned:
                self.wake.clear()
                with self._lock:
                    if self._is_stopping and self._accumulator.is_empty:
                        return
                try:
                    self._turn()
                    attempts = 0
                except Exception as error:
                    # A fault of ours must not end the thread: batches in flight are sent again, until their delivery timeout.
                    log.error("sender_turn_failed", exc_info=True)
                    for leader in list(self._flights):
                        leader.close_socket()
                        self._failed(
                            leader, BrokerUnreachable(leader.address, "Produce", f"our own fault: {error}", was_sent=True)
                        )
                    self._sleep(self._backoff.wait_ms(attempts))
                    attempts += 1
        finally:
            self._cluster.close_lane(self._lane)

    def _turn(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        self._resolve_topics(now_ms)
        self._dispatch(now_ms)
        self._await(now_ms)

    def _expire(self, now_ms: int) -> None:
        with self._lock:
            expired = self._accumulator.expire(now_ms - self._delivery_timeout_ms + 1)
        for batch in expired:
            last = batch.last_error or self._topics_error or (self._identity.last_error if self._identity else None)
            words = str(last) if last else "none, it was never sent"
            waited_ms = now_ms - batch.opened_ms
            error = DeliveryTimedOut(batch.topic, batch.partition, batch.record_count, waited_ms, words)
            self._on_done(batch, -1, error)

    def _resolve_topics(self, now_ms: int) -> None:
        with self._lock:
            topics = self._accumulator.topics_waited_for()
        if not topics or now_ms < self._topics_retry_at_ms:
            return
        for topic in topics:
            try:
                partitions = partitions_of(self._cluster, topic)
            except ClientError as error:
                self._topics_error = error
                if error.retriable:
                    self._topics_retry_at_ms = now_ms + self._backoff.wait_ms(self._topics_attempts)
                    self._topics_attempts += 1
                    return
                with self._lock:
                    given_up = self._accumulator.give_up_waiting(topic)
                for batch in given_up:
                    self._on_done(batch, -1, error)
                continue
            with self._lock:
                self._accumulator.learn(topic, partitions)
        self._topics_attempts = 0
        self._topics_error = None

    def _dispatch(self, now_ms: int) -> None:
        with self._lock:
            due = self._accumulator.due(now_ms)
        if not due or self.is_held or not self._has_identity(due, now_ms):
            return
        by_leader: dict[Connection, list[PartitionQueue]] = {}
        away: ClientError | None = None
        for queue in due:
            try:
                if away is not None:
                    raise away
                with_topic = partitions_of(self._cluster, queue.topic)
                leader = self._cluster.leader(queue.topic, queue.partition, lane=self._lane)
            except ClientError as error:
                if isinstance(error, BrokerUnreachable):
                    # No broker answers. Asking again for each partition would cost one timeout each.
                    away = error
                self._outcomes.not_sent(queue, error)
                continue
            with self._lock:
                self._accumulator.learn(queue.topic, with_topic)
            if leader not in self._flights:
                by_leader.setdefault(leader, []).append(queue)
        for leader, queues in by_leader.items():
            self._send(leader, queues, now_ms)

    def _has_identity(self, due: list[PartitionQueue], now_ms: int) -> bool:
        """Return whether the due batches can be numbered; request a (new) producer id if they cannot."""
        if self._identity is None:
            return True
        present = self._identity.present
        try:
            if present is None:
                return self._identity.ensure(now_ms)
            if any(queue.needs_producer_id(present[0]) for queue in due):
                return self._identity.renew(present[0], now_ms)
        except ClientError as error:
            for queue in due:
                self._outcomes.not_sent(queue, error)
            return False
        return True

    def _send(self, leader: Connection, queues: list[PartitionQueue], now_ms: int) -> None:
        in_flight: list[InFlight] = []
        size_bytes = 0
        with self._lock:
            if self._is_abandoned:
                return
            for queue in queues:
                if size_bytes >= MAX_REQUEST_BYTES:
                    break
                batch = self._accumulator.take(queue)
                if self._identity is not None and self._identity.present is not None:
                    queue.number(batch, *self._identity.present)
                in_flight.append((queue, batch))
                size_bytes += batch.size_bytes
        topics: dict[str, list[produce.ProducePartition]] = {}
        built: list[InFlight] = []
        for queue, batch in in_flight:
            try:
                records = batch.build(self._codec)
            except Exception as error:
                unbuilt = ClientError(f"batch for {batch.topic}-{batch.partition} cannot be built: {error!r}")
                self._outcomes.give_up(queue, batch, unbuilt)
                continue
            built.append((queue, batch))
            topics.setdefault(batch.topic, []).append(produce.ProducePartition(batch.partition, records))
        if not built:
            return
        timeout_ms = self._cluster.request_timeout_ms
        request = produce.ProduceRequest(
            self._acks, timeout_ms, None, [produce.ProduceTopic(topic, partitions) for topic, partitions in topics.items()]
        )
        self._flights[leader] = _Flight(produce.MAX_VERSION, now_ms + timeout_ms, built)
        for _, batch in built:
            batch.awaits_response = True
        try:
            version = leader.negotiated(produce.API_KEY, produce.MIN_VERSION, produce.MAX_VERSION)
            self._flights[leader] = _Flight(version, now_ms + timeout_ms, built)
            leader.begin(produce.API_KEY, version, produce.encode_request(version, request))
        except ClientError as error:
            self._failed(leader, error)

    def _await(self, now_ms: int) -> None:
        """Sleep until a response, a wake, or the next time at which the clock makes something due; then read the responses."""
        with self._lock:
            moments = [self._accumulator.next_due_ms(now_ms)]
            if self._accumulator.topics_waited_for():
                moments.append(self._topics_retry_at_ms)
            if self._identity is not None:
                moments.append(self._identity.retry_at_ms)
            wait_ms = self._longest_wait_ms()
            now_ms_then = self._clock.monotonic_ms()
            for moment in moments:
                if moment is not None and moment > now_ms:
                    wait_ms = max(0, min(wait_ms, moment - now_ms_then))
            self._sleeps_until_ms = now_ms_then + wait_ms
            self._accumulator.has_full = False
        ready = self._sleep(wait_ms)
        for leader in list(self._flights):
            if leader.fileno() in ready or leader.fileno() < 0:
                self._receive(leader)
            elif self._clock.monotonic_ms() >= self._flights[leader].deadline_ms:
                leader.close_socket()
                reason = f"no answer within {self._cluster.request_timeout_ms} ms"
                self._failed(leader, RequestTimedOut(leader.address, "Produce", reason, was_sent=True))

    def _longest_wait_ms(self) -> int:
        """Return how long to sleep if nothing becomes due. After the last batch it is one linger: in a steady flow the next batch
        is opened within it, and need not wake anybody.
        """
        if not self._accumulator.is_empty:
            self._was_busy = True
            return BUSY_WAIT_MS
        was_busy, self._was_busy = self._was_busy, False
        return min(IDLE_WAIT_MS, self._accumulator.linger_ms) if was_busy else IDLE_WAIT_MS

    def _sleep(self, wait_ms: int) -> set[int]:
        poll = select.poll()
        if self.wake.fileno() >= 0:  # a callback on this thread may have closed the producer
            poll.register(self.wake.fileno(), select.POLLIN)
        for leader in self._flights:
            if leader.fileno() >= 0:
                poll.register(leader.fileno(), select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(wait_ms)}

    def _receive(self, leader: Connection) -> None:
        flight = self._flights[leader]
        try:
            body = leader.finish()
            try:
                answer = produce.decode_response(flight.version, body)
            except WireError as error:
                leader.close_socket()
                raise BadAnswer(leader.address, "Produce", str(error)) from error
        except ClientError as error:
            self._failed(leader, error)
            return
        del self._flights[leader]
        self._outcomes.answered(leader.address, flight.batches, answer)

    def _failed(self, leader: Connection, error: ClientError) -> None:
        self._outcomes.request_failed(leader.address, self._flights.pop(leader).batches, error)
