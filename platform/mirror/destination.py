"""The destination cluster: creates topics like the source's, appends batches unchanged at their own offsets.

Knows how to request a conditional append and what the responses mean. Decides nothing about positions. One request is sent to
each leader and finished later, so the next fetch runs beside it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..client.admin import CLUSTERS_OWN, await_leaders, create_topics
from ..client.connection.cluster import Cluster
from ..client.connection.connection import Connection
from ..client.errors import ClientError, broker_error
from ..client.fetch.fetched import TopicPartition
from ..client.topic_admin import add_partitions
from ..errors import HeadraceError
from ..runtime.logs import get_logger
from ..wire.batch.record_batch import BatchHeader
from ..wire.errors import ErrorCode, WireError
from ..wire.messages import produce
from .errors import FewerPartitions
from .topics.naming import Naming

log = get_logger(__name__)

LANE = "mirror-append"
TOPICS_LANE = "mirror-topics"
"""Whatever is asked of topics waits on a connection of its own: no append waits behind the making of topics."""
ALL_REPLICAS = -1
VERSION = produce.FIRST_FLEXIBLE
"""The first version with tagged fields, which carry the condition."""
CREATE_TIMEOUT_MS = 5_000
MIRROR_CONFIG = {"headrace.mirror": "true"}
"""The whole configuration of a copy: it is a mirror. Retention and flushing are the destination's own."""

_PASSING = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR})
"""Refusals, besides Kafka's retriable ones, that may end when both logs' ends are read again."""

Batch = tuple[BatchHeader, memoryview]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Consecutive batches of one partition, to be appended."""

    name: TopicPartition
    batches: Sequence[Batch]
    conditional_start: int

    @property
    def to_offset(self) -> int:
        return self.batches[-1][0].next_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of an append: no error, or one. `is_passing`: trying again may help."""

    append: Append
    error: HeadraceError | None = None
    is_passing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    leader: Connection
    appends: Mapping[TopicPartition, Append]


class Destination:
    """One destination cluster; used by the forwarder's thread, but for `prepare`."""

    def __init__(
        self,
        cluster: Cluster,
        naming: Naming | None = None,
        *,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """`naming`: what topics of the source are called here. Callers speak of the source's names alone. `config`: settings of
        topics that are made, besides what makes them mirrors.
        """
        self._config = {**MIRROR_CONFIG, **(config or {})}
        self.cluster = cluster
        self._naming = naming or Naming()
        self._in_flight: list[_InFlight] = []
        self._failed: list[Appended] = []

    @property
    def is_busy(self) -> bool:
        """Return whether a request is in flight; `finish` returns its result."""
        return bool(self._in_flight or self._failed)

    def prepare(self, wanted: Mapping[str, int], present: Mapping[str, Collection[int]]) -> Mapping[str, HeadraceError | None]:
        """Ensure that these copies exist, are mirrors, and have at least so many partitions; return for each None, or why not.

        `wanted`: topic → partitions; `present`: the partitions of the destination's topics. Called by the discovery's thread.
        Raises ClientError.
        """
        found: dict[str, HeadraceError | None] = dict.fromkeys(wanted)
        there = {topic: self._naming.destination_name(topic) for topic in wanted}
        missing = {there[topic]: topic for topic in wanted if there[topic] not in present}
        if missing:
            made = create_topics(
                self.cluster,
                {name: (wanted[topic], self._config) for name, topic in missing.items()},
                replication_factor=CLUSTERS_OWN,
                timeout_ms=CREATE_TIMEOUT_MS,
                lane=TOPICS_LANE,
            )
            refused = {name: error for name, error in made.items() if error is not None}
            refused |= await_leaders(self.cluster, made.keys() - refused.keys(), timeout_ms=CREATE_TIMEOUT_MS)
            found |= {missing[name]: error for name, error in refused.items()}
            log.info("topics_created", topics=len(made) - len(refused), one_of_them=next(iter(made)))
        for topic, count in wanted.items():
            held = len(present.get(there[topic], ()))
            if 0 < held < count:
                try:
                    self._extend(there[topic], held, count)
                except HeadraceError as error:
                    found[topic] = error
        return found

    def _extend(self, topic: str, present: int, wanted: int) -> None:
        try:
            add_partitions(self.cluster, topic, wanted, timeout_ms=CREATE_TIMEOUT_MS)
        except ClientError as error:
            raise FewerPartitions(topic, wanted, present, str(error)) from error
        log.info("partitions_added", topic=topic, from_count=present, to_count=wanted)

    def begin(self, appends: Sequence[Append]) -> None:
        """Send the appends, one request to each leader, while none is in flight. `finish` reports those that cannot be sent."""
        by_leader: dict[Connection, dict[TopicPartition, Append]] = {}
        for append in appends:
            try:
                by_leader.setdefault(self.cluster.leader(*self._there(append), lane=LANE), {})[self._there(append)] = append
            except ClientError as error:
                self._failed.append(self._not_now(append, error))
        for leader, mine in by_leader.items():
            try:
                leader.drop_unanswered()
                leader.negotiated(produce.API_KEY, VERSION, VERSION)
                leader.begin(produce.API_KEY, VERSION, _request(mine, leader.timeout_ms))
            except ClientError as error:
                self._failed += [self._not_now(append, error) for append in mine.values()]
            else:
                self._in_flight.append(_InFlight(leader=leader, appends=mine))

    def finish(self) -> list[Appended]:
        """Wait for the requests in flight and return the result of each append."""
        ended, self._failed = self._failed, []
        in_flight, self._in_flight = self._in_flight, []
        for one in in_flight:
            try:
                answer = produce.decode_response(VERSION, one.leader.finish())
            except (ClientError, WireError) as error:
                one.leader.close_socket()
                ended += [self._not_now(append, error) for append in one.appends.values()]
                continue
            answers = {
                TopicPartition(topic.name, partition.index): partition
                for topic in answer.topics
                for partition in topic.partitions
            }
            ended += [self._result(append, answers.get(name)) for name, append in one.appends.items()]
        return ended

    def _result(self, append: Append, answer: produce.ProduceResponsePartition | None) -> Appended:
        if answer is not None and not answer.error_code:
            return Appended(append=append)
        topic, partition = self._there(append)
        what = f"append of {topic}-{partition} at {append.batches[0][0].position} to {self.cluster.bootstrap}"
        if answer is None:
            return self._not_now(append, broker_error(what, ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves it out"))
        error = broker_error(what, answer.error_code, answer.error_message)
        if error.retriable or ErrorCode.of(answer.error_code) in _PASSING:
            return self._not_now(append, error)
        return Appended(append=append, error=error, is_passing=False)

    def _there(self, append: Append) -> TopicPartition:
        return TopicPartition(self._naming.destination_name(append.name.topic), append.name.partition)

    def _not_now(self, append: Append, error: HeadraceError) -> Appended:
        self.cluster.forget(self._there(append).topic)
        return Appended(append=append, error=error)


def _request(appends: Mapping[TopicPartition, Append], timeout_ms: int) -> list[bytes | memoryview]:
    by_topic: dict[str, list[produce.ProducePieces]] = {}
    for (topic, partition), append in appends.items():
        pieces = produce.ProducePieces(partition, [batch for _, batch in append.batches], append.conditional_start)
        by_topic.setdefault(topic, []).append(pieces)
    return produce.encode_pieces(VERSION, ALL_REPLICAS, timeout_ms, list(by_topic.items()))
