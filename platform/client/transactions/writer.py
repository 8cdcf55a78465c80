"""Writes whole batches of others to any partitions in one transaction after another, under a transactional id of its own.

The batches are restamped with this writer's producer id, epoch and the partition's next sequence number. Kafka takes one batch
of a partition in a request, so the next one waits for the answer; each broker gets one request at a time, with a batch of each
partition that it leads. Several at once are refused: a broker asks the coordinator whether the partitions are part of the
transaction, and while it waits for that answer it turns away other requests of the same transactional id (KIP-890).
After any error the transaction is lost and `open` begins again: whether a commit whose answer was lost took effect is in
what was committed, not in this process.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...runtime.backoff import Backoff
from ...wire.batch.record_batch import BatchHeader
from ...wire.batch.restamp import Restamped, Stamp, restamped
from ...wire.errors import ErrorCode, WireError
from ...wire.messages import produce
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..errors import BadAnswer, BrokerError, ClientError, broker_error
from ..fetch.fetched import TopicPartition
from . import requests
from .errors import PartitionFailed, ProducerFenced, TransactionLost
from .requests import ProducerSession

LANE = "transaction"
ALL_REPLICAS = -1
_SEQUENCES = 1 << 31
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_BACKOFF = Backoff(first_ms=10, longest_ms=200)
"""Between attempts while the coordinator is still ending the transaction before: usually a few milliseconds."""

Batch = tuple[BatchHeader, memoryview]


class Written(NamedTuple):
    """One batch that the destination has appended; it counts once the transaction is committed."""

    base_offset: int
    crc: int


class TransactionalWriter:
    """One transactional id. Not for two threads at once.

    The way: `open`; then for each transaction `begin`, `write` as often as wanted, `commit`. After an error only `open` helps.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, transaction_timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._session: ProducerSession | None = None
        self._coordinator: Connection | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self.is_open = False
        """Whether transactions may begin."""

    @property
    def session(self) -> ProducerSession | None:
        """The current producer id and epoch; None before the first `open`."""
        return self._session

    def open(self) -> None:
        """Begin a session: nothing of an earlier one, in this process or another, will be committed from now on.

        The first call takes over from any other process with this id. Later calls raise ProducerFenced if another took over.
        Raises ClientError; retriable: call again later.
        """
        self.is_open = False
        self._coordinator = self.cluster.transaction_coordinator(self.transactional_id)
        try:
            self._session = requests.init_producer(self._coordinator, self.transactional_id, self._timeout_ms, self._session)
        except BrokerError as error:
            if self._session is not None and ErrorCode.of(error.code) in _FENCED:
                raise ProducerFenced(self.transactional_id, str(error)) from error
            raise
        self._sequences.clear()
        self.is_open = True

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Open a transaction over these partitions, or add them to the open one. Raises ClientError."""
        wanted = list(partitions)
        coordinator, session = self._opened()
        deadline = time.monotonic() + self._timeout_ms / 1000
        attempt = 0
        while True:
            try:
                requests.add_partitions(coordinator, self.transactional_id, session, wanted)
                return
            except ClientError as error:
                if not _is_concurrent(error) or time.monotonic() > deadline:
                    self.is_open = False
                    raise
            time.sleep(_BACKOFF.wait_ms(attempt) / 1000)
            attempt += 1

    def commit(self) -> None:
        """Commit the transaction. Raises ClientError; then it may or may not be committed."""
        coordinator, session = self._opened()
        try:
            requests.end_transaction(coordinator, self.transactional_id, session, commit=True)
        except BaseException:
            self.is_open = False
            raise

    def write(self, work: Mapping[TopicPartition, Sequence[Batch]]) -> dict[TopicPartition, list[Written]]:
        """Append the batches, each partition's in order, to partitions of the open transaction; return where they stand.

        Batches must be dense and of create time (`needs_rebuilding`). Raises PartitionFailed, with the batch if one is to blame;
        other ClientErrors.
        """
        written: dict[TopicPartition, list[Written]] = {name: [] for name in work}
        try:
            while waiting := [name for name, batches in work.items() if len(written[name]) < len(batches)]:
                self._round({name: work[name][len(written[name])] for name in waiting}, written)
        except BaseException:
            self.is_open = False
            raise
        return written

    def _round(self, batches: Mapping[TopicPartition, Batch], written: Mapping[TopicPartition, list[Written]]) -> None:
        """Send one batch of each partition and wait for all answers."""
        _, session = self._opened()
        by_connection: dict[Connection, dict[TopicPartition, Restamped]] = {}
        for name, (header, batch) in batches.items():
            stamp = Stamp(session.producer_id, session.producer_epoch, self._sequences.get(name, 0), True)
            try:
                leader = self.cluster.leader(*name, lane=LANE)
            except ClientError as error:
                raise self._failed(name, header, error) from error
            by_connection.setdefault(leader, {})[name] = restamped(header, batch, stamp)
        sent: list[tuple[Connection, dict[TopicPartition, Restamped]]] = []
        failures: list[PartitionFailed] = []
        for leader, mine in by_connection.items():
            try:
                leader.drop_unanswered()
                leader.negotiated(produce.API_KEY, produce.MIN_VERSION, produce.MAX_VERSION)
                leader.begin(produce.API_KEY, produce.MAX_VERSION, self._request(mine, leader.timeout_ms))
                sent.append((leader, mine))
            except ClientError as error:
                failures += [self._failed(name, batches[name][0], error) for name in mine]
        for leader, mine in sent:
            try:
                answers = _answers(leader)
            except ClientError as error:
                leader.close_socket()
                failures += [self._failed(name, batches[name][0], error) for name in mine]
                continue
            for name, one in mine.items():
                failure = self._take(name, batches[name][0], one, answers.get(name), written[name])
                if failure is not None:
                    failures.append(failure)
        if failures:
            # A batch that is to blame comes first: without it the next transaction goes through.
            raise min(failures, key=lambda failure: not failure.is_batch_refused)

    def _request(self, mine: Mapping[TopicPartition, Restamped], timeout_ms: int) -> list[bytes | memoryview]:
        by_topic: dict[str, list[produce.ProducePieces]] = {}
        for (topic, partition), one in mine.items():
            by_topic.setdefault(topic, []).append(produce.ProducePieces(partition, (one.front, one.records)))
        topics = list(by_topic.items())
        return produce.encode_pieces(
            produce.MAX_VERSION, ALL_REPLICAS, timeout_ms, topics, transactional_id=self.transactional_id
        )

    def _take(
        self,
        name: TopicPartition,
        header: BatchHeader,
        one: Restamped,
        answer: produce.ProduceResponsePartition | None,
        written: list[Written],
    ) -> PartitionFailed | None:
        """Note one partition's answer; return its failure."""
        if answer is not None and not answer.error_code and answer.base_offset >= 0:
            written.append(Written(answer.base_offset, one.crc))
            self._sequences[name] = (self._sequences.get(name, 0) + header.record_count) % _SEQUENCES
            return None
        what = f"Produce to {name.topic}-{name.partition} of {self.cluster.bootstrap}, {one.size_bytes} bytes"
        if answer is None or not answer.error_code:
            reason = "the answer leaves it out" if answer is None else "the answer has no offset"
            return self._failed(name, header, broker_error(what, ErrorCode.UNKNOWN_SERVER_ERROR, reason))
        return self._failed(name, header, broker_error(what, answer.error_code, answer.error_message))

    def _failed(self, name: TopicPartition, header: BatchHeader, error: ClientError) -> PartitionFailed:
        self.cluster.forget(name.topic)
        return PartitionFailed(name, header.base_offset, error)

    def _opened(self) -> tuple[Connection, ProducerSession]:
        if not self.is_open or self._coordinator is None or self._session is None:
            raise TransactionLost(self.transactional_id)
        return self._coordinator, self._session


def _answers(leader: Connection) -> dict[TopicPartition, produce.ProduceResponsePartition]:
    body = leader.finish()
    try:
        answer = produce.decode_response(produce.MAX_VERSION, body)
    except WireError as error:
        raise BadAnswer(leader.address, "Produce", str(error)) from error
    return {TopicPartition(topic.name, one.index): one for topic in answer.topics for one in topic.partitions}


def _is_concurrent(error: ClientError) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS
