"""The sockets: one Produce request at a time to each broker, with at most one batch of each partition. For one thread.

Knows nothing of the state: it takes batches that may be sent, and gives back answers.
"""

import select
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ...client.connection.cluster import Cluster
from ...client.connection.connection import Connection
from ...client.errors import BadAnswer, BrokerUnreachable, ClientError, RequestTimedOut
from ...runtime.clock import Clock
from ...wire.errors import WireError
from ...wire.messages import produce
from .batch_queue import Batch, BatchQueue

MAX_REQUEST_BYTES = 8 << 20
LANE = "agent-produce"


class Answer(NamedTuple):
    """What became of one sent batch."""

    queue: BatchQueue
    batch: Batch
    error_code: int
    base_offset: int
    error: ClientError | None
    """There was no answer; the batch may be stored."""


@dataclass(frozen=True, slots=True)
class _Flight:
    version: int
    deadline_ms: int
    batches: list[tuple[BatchQueue, Batch]]


class Sender:
    """Sends what it is given; `receive` returns what came back."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._flights: dict[Connection, _Flight] = {}
        self._failed: list[Answer] = []

    @property
    def is_idle(self) -> bool:
        return not self._flights

    def send(self, due: Iterable[BatchQueue]) -> ClientError | None:
        """Send the first batch of each queue that fits a request now; the others stay as they are.

        Return why a queue could not be sent at all: its partition has no leader now, or no broker answers.
        """
        by_leader: dict[Connection, list[BatchQueue]] = {}
        taken: set[tuple[str, int]] = set()
        trouble: ClientError | None = None
        for queue in due:
            partition = (queue.key.topic, queue.key.partition)
            if partition in taken:
                continue
            try:
                leader = self._cluster.leader(*partition, lane=LANE)
            except ClientError as error:
                trouble = error
                batch = queue.head
                assert batch is not None
                self._failed.append(Answer(queue, batch, 0, -1, error))
                queue.is_in_flight = True
                if isinstance(error, BrokerUnreachable):
                    # No broker answers: asking again for each partition would cost a timeout each.
                    break
                continue
            if leader not in self._flights:
                taken.add(partition)
                by_leader.setdefault(leader, []).append(queue)
        for leader, queues in by_leader.items():
            self._send(leader, queues)
        return trouble

    def wait(self, descriptors: Iterable[int], timeout_ms: int) -> None:
        """Return when an answer is there, one of the descriptors can be read, or the time is over."""
        if self._failed:
            return
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        for leader, flight in self._flights.items():
            if leader.fileno() < 0:
                return
            poll.register(leader.fileno(), select.POLLIN)
            timeout_ms = min(timeout_ms, max(0, flight.deadline_ms - self._clock.monotonic_ms()))
        poll.poll(timeout_ms)

    def receive(self) -> list[Answer]:
        """Return the answers that are there; the batches' queues are no longer in flight."""
        poll = select.poll()
        for leader in self._flights:
            if leader.fileno() >= 0:
                poll.register(leader.fileno(), select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(0)}
        found, self._failed = self._failed, []
        for leader in list(self._flights):
            if leader.fileno() in ready or leader.fileno() < 0:
                found += self._received(leader)
            elif self._clock.monotonic_ms() >= self._flights[leader].deadline_ms:
                leader.close_socket()
                reason = f"no answer within {self._cluster.request_timeout_ms} ms"
                found += self._lost(leader, RequestTimedOut(leader.address, "Produce", reason, was_sent=True))
        for answer in found:
            answer.queue.is_in_flight = False
        return found

    def close(self) -> None:
        self._cluster.close_lane(LANE)
        self._flights.clear()

    def _send(self, leader: Connection, queues: list[BatchQueue]) -> None:
        topics: dict[str, list[produce.ProducePartition]] = {}
        batches: list[tuple[BatchQueue, Batch]] = []
        size_bytes = 0
        for queue in queues:
            batch = queue.head
            assert batch is not None
            assert batch.content is not None
            if batches and size_bytes + len(batch.content) > MAX_REQUEST_BYTES:
                break
            size_bytes += len(batch.content)
            batches.append((queue, batch))
            queue.is_in_flight = True
            topics.setdefault(queue.key.topic, []).append(produce.ProducePartition(queue.key.partition, batch.content))
        timeout_ms = self._cluster.request_timeout_ms
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._flights[leader] = _Flight(produce.MAX_VERSION, deadline_ms, batches)
        wanted = [produce.ProduceTopic(topic, partitions) for topic, partitions in topics.items()]
        try:
            version = leader.negotiated(produce.API_KEY, produce.MIN_VERSION, produce.MAX_VERSION)
            self._flights[leader] = _Flight(version, deadline_ms, batches)
            now_ms = self._clock.now_ms()
            for _, batch in batches:
                if batch.may_be_sent_since_ms is None:
                    batch.may_be_sent_since_ms = now_ms
            body = produce.encode_request(version, produce.ProduceRequest(-1, timeout_ms, None, wanted))
            leader.begin(produce.API_KEY, version, body)
        except ClientError as error:
            self._failed += self._lost(leader, error)

    def _received(self, leader: Connection) -> list[Answer]:
        flight = self._flights[leader]
        try:
            body = leader.finish()
            try:
                response = produce.decode_response(flight.version, body)
            except WireError as error:
                leader.close_socket()
                raise BadAnswer(leader.address, "Produce", str(error)) from error
        except ClientError as error:
            return self._lost(leader, error)
        del self._flights[leader]
        told = {(topic.name, one.index): one for topic in response.topics for one in topic.partitions}
        found: list[Answer] = []
        for queue, batch in flight.batches:
            one = told.get((queue.key.topic, queue.key.partition))
            if one is None:
                missing = BadAnswer(leader.address, "Produce", f"it leaves out {queue.key.topic}-{queue.key.partition}")
                found.append(Answer(queue, batch, 0, -1, missing))
            else:
                found.append(Answer(queue, batch, one.error_code, one.base_offset, None))
        return found

    def _lost(self, leader: Connection, error: ClientError) -> list[Answer]:
        return [Answer(queue, batch, 0, -1, error) for queue, batch in self._flights.pop(leader).batches]
