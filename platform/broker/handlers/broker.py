"""What handlers may use of the broker: built once by `assembly`, the same for every request.

A handler is a function (broker, request). It returns the response's body, whole or in chunks; a `DeferredResponse`; or None when
the protocol has no response. It runs on the loop thread and never blocks. The handler of a request that may name very many things
is a generator: it pauses wherever the loop may serve others (`response_generators`). At each pause the broker's state may change,
and after the first one the request's body is no longer valid."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from ...runtime.layout import is_internal
from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ...wire.errors import ErrorCode, MalformedFrame
from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..event_loop.loop import Loop
from ..event_loop.response_generators import ResponseGenerators
from ..event_loop.worker import Worker
from ..groups.group_service import GroupService
from ..groups.offset_commits import OffsetCommits
from ..groups.stored_groups import StoredGroups
from ..logins.users import Users
from ..metrics import BrokerMetrics
from ..partitions.catalog import Catalog, ReplicaAssignment
from ..partitions.cold_reads import ColdReads
from ..partitions.other_brokers import OtherBrokers
from ..partitions.partition import Partition, PartitionTable
from ..partitions.producer_id_allocator import ProducerIdAllocator
from ..quotas.quotas import Quotas
from ..replicas.asking import Peers
from ..replicas.damage import ReplicaDamage
from ..replicas.moves import Moves
from ..replicas.replicas import Replicas
from ..settings.broker_settings import BrokerSettings
from .access.control import AccessControl
from .fetch_request_cache import FetchRequestCache
from .fetch_sessions import LARGEST_EPOCH, FetchSessions
from .metadata_answers import MetadataAnswers
from .topics_by_id import TopicsById

log = get_logger(__name__)

PLATFORM_REPLICAS = 3

Answer = bytes | Chunks | DeferredResponse | None
Done = Callable[[bool | Exception], None]


class Topics(Protocol):
    """Creates, changes and deletes topics. It asks ZooKeeper, so each call ends later, with `done` on the loop."""

    @property
    def catalog(self) -> Catalog:
        """The cluster as this broker knows it."""
        ...

    def create(
        self,
        topic: str,
        partition_count: int,
        config: Mapping[str, str],
        done: Done,
        replicas: ReplicaAssignment | None = None,
        replication_factor: int = 1,
    ) -> None:
        """Create a topic. `done` gets True when it is created, False when it existed before, or the error. `replicas` has the
        brokers of each partition; without it so many replicas of each are spread over the brokers.
        """
        ...

    def extend(self, topic: str, partition_count: int, replicas: Sequence[tuple[int, ...]] | None, done: Done) -> None:
        """Add partitions until there are `partition_count`. `done` gets True, False when there is no such topic, or the error.
        `replicas` has the brokers of each new partition.
        """
        ...

    def configure(self, topic: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], done: Done) -> None:
        """Replace the topic's own settings by what `change` returns for them. `done` gets True when they are in force, False when
        there is no such topic, or the error.
        """
        ...

    def delete(self, topic: str, done: Done, topic_id: UUID | None = None) -> None:
        """Delete a topic and its data. `done` gets True when it is gone, False when there was none, or the error. With `topic_id`
        only a topic that has this id is deleted.
        """
        ...


@dataclass(slots=True, kw_only=True)
class Broker:
    """The broker as handlers see it."""

    settings: BrokerSettings
    loop: Loop
    now_ms: Callable[[], int]
    """Wall clock."""
    partitions: PartitionTable
    topics: Topics
    offsets: OffsetCommits
    groups: GroupService
    """Groups of Kafka clients that have members."""
    stored_groups: StoredGroups
    """Groups as ZooKeeper has them."""
    users: Users
    """Who may log in."""
    producer_ids: ProducerIdAllocator
    disk: Worker
    """Runs jobs that wait for the disk, except flushes."""
    advertised: Mapping[str, tuple[str, int]]
    """Host and port for clients by the listener's name; known once the sockets listen."""
    supported: Mapping[int, tuple[int, int]]
    """By API key the lowest and highest version that ApiVersions answers, from `api_table`."""
    metadata_answers: MetadataAnswers = field(default_factory=MetadataAnswers)
    metrics: BrokerMetrics = field(default_factory=BrokerMetrics)
    fetch_request_cache: FetchRequestCache = field(default_factory=FetchRequestCache)
    topics_by_id: TopicsById = field(default_factory=TopicsById)
    access: AccessControl | None = None
    """Holds requests to the access rules. None: every client may do everything."""
    quotas: Quotas | None = None
    """How much each client may use. None: as much as it likes."""
    replicas: Replicas | None = None
    """None: only topics of one replica are served."""
    moves: Moves | None = None
    """Moves replicas to other brokers. None: only topics of one replica are served."""
    others: OtherBrokers | None = None
    """None: this broker is alone."""
    peers: Peers | None = None
    """Asks other brokers in this broker's own messages. None: this broker is alone."""
    damage: ReplicaDamage | None = None
    """None: only topics of one replica are served."""
    cold_reads: ColdReads | None = None
    """None: records that are not in the page cache are read on the loop."""
    random_below: Callable[[int], int] = secrets.randbelow
    generators: ResponseGenerators = field(init=False)
    """Runs the generators of long responses."""
    fetch_sessions: FetchSessions = field(init=False)
    notices: RateLimitedLog = field(init=False)
    """For what clients ask in vain, at most one line a second."""

    def __post_init__(self) -> None:
        self.notices = RateLimitedLog(log, lambda: self.loop.now_ms)
        self.fetch_sessions = FetchSessions(
            slots=self.settings.fetch_session_slots,
            most_partitions=self.settings.parked_partitions_max,
            metrics=self.metrics,
            new_id=lambda: 1 + self.random_below(LARGEST_EPOCH),
        )
        self.generators = ResponseGenerators(self.loop)

    def topic_id(self, topic: str) -> UUID | None:
        """Return a topic's id, None when there is no such topic."""
        entry = self.topics.catalog.topics.get(topic)
        return None if entry is None else entry.topic_id

    def entry_config(self, topic: str) -> Mapping[str, str]:
        """Return a topic's own settings, empty when there is no such topic."""
        entry = self.topics.catalog.topics.get(topic)
        return {} if entry is None else entry.config

    def partition_to_read(self, topic: str | bytes, index: int) -> Partition | None:
        """Return the partition of the topic with this name, else with this id; None when it is not kept here. Hot for ids."""
        if isinstance(topic, str):
            partition = self.partitions.get(topic, index)
            if partition is not None:
                return partition
        name = self.topics_by_id.name_of(topic, self.topics.catalog)
        return None if name is None else self.partitions.get(name, index)

    def topic_to_read(self, topic: str | bytes) -> str | None:
        """Return the name of the topic that `partition_to_read` finds: the topic's own, where it is named by its id. A name that
        no topic has is returned as it is. None: no topic has this id.
        """
        if isinstance(topic, str) and topic in self.topics.catalog.topics:
            return topic
        name = self.topics_by_id.name_of(topic, self.topics.catalog)
        return topic if name is None and isinstance(topic, str) else name

    def not_readable_here(self, topic: str | bytes, index: int) -> ErrorCode:
        """Return the error code for a partition that `partition_to_read` does not find."""
        name = self.topic_to_read(topic)
        return ErrorCode.UNKNOWN_TOPIC_ID if name is None else self.not_here(name, index)

    def not_here(self, topic: str, index: int) -> ErrorCode:
        """Return the error code for a partition that is not kept here."""
        if self.topics.catalog.has(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def brokers(self, listener: str) -> dict[int, tuple[str, int]]:
        """Return host and port, by id, of every broker that has a listener of this name. This one is always among them."""
        others = self.topics.catalog.brokers.values()
        known = {one.broker_id: one.endpoints[listener] for one in others if listener in one.endpoints}
        return known | {self.settings.broker_id: self.advertised[listener]}

    @property
    def broker_ids(self) -> set[int]:
        return {self.settings.broker_id, *self.topics.catalog.brokers}

    def default_replication_factor(self, topic: str) -> int:
        """Return how many replicas a topic gets for which nobody gives a number. The platform's own topics get three where three
        brokers are there: nothing can be audited or decoded without them.
        """
        factor = self.settings.default_replication_factor
        return max(factor, min(PLATFORM_REPLICAS, len(self.broker_ids))) if is_internal(topic) else factor


def respond(body: bytes) -> tuple[bytes]:
    """Return one body as the chunks that a DeferredResponse is completed with."""
    return (body,)


def required(array: Sequence[Any] | None) -> Sequence[Any]:
    """Return an array that may not be null. Raises: MalformedFrame; kio reads a null there without complaint."""
    if array is None:
        raise MalformedFrame("null instead of an array")
    return array
