"""What handlers may use of the broker: built once by `app`, the same for every request.

A handler is a function (broker, request). It returns the response's body, whole or in chunks; a `Later`; or None where the
protocol has no response. It runs on the loop thread and never blocks. A handler of a request that may name very many things is a
generator: it pauses wherever the loop may serve others (`slices`). At each pause the broker's state may change, and after the
first one the request's body is no longer valid.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from ...wire.errors import ErrorCode, MalformedFrame
from ..catalog import Catalog, Places
from ..cold_reads import ColdReads
from ..group_desk import GroupDesk
from ..group_traces import GroupTraces
from ..known_fetches import KnownFetches
from ..later import Chunks, Later
from ..loop import Loop
from ..metrics import BrokerMetrics
from ..offset_desk import OffsetDesk
from ..partitions import Partition, PartitionTable
from ..producer_id_desk import ProducerIdDesk
from ..settings import BrokerSettings
from ..slices import Slices
from ..topics_by_id import TopicsById
from ..worker import Worker
from .metadata_answers import MetadataAnswers

Answer = bytes | Chunks | Later | None
Done = Callable[[bool | Exception], None]


class TopicKeeper(Protocol):
    """Makes and removes topics (through ZooKeeper, so the answer comes later)."""

    @property
    def catalog(self) -> Catalog:
        """The cluster as this broker knows it."""
        ...

    def create(
        self, topic: str, partition_count: int, config: Mapping[str, str], done: Done, places: Places | None = None
    ) -> None:
        """Make a topic, then call `done` on the loop: True it is there now, False it was there before, or why it could not be
        made. `places` says which brokers keep which partition.
        """
        ...

    def extend(self, topic: str, partition_count: int, places: Sequence[tuple[int, ...]] | None, done: Done) -> None:
        """Add partitions until there are so many, then call `done`: True, False there is no such topic, or why not. `places` has
        the brokers of each new one.
        """
        ...

    def configure(self, topic: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], done: Done) -> None:
        """Put what `change` makes of the topic's own settings in their place, then call `done`: True they are in force, False
        there is no such topic, or why not.
        """
        ...

    def delete(self, topic: str, done: Done, topic_id: UUID | None = None) -> None:
        """Remove a topic and its data, then call `done` on the loop: True it is gone, False there was none, or why it could
        not be. With `topic_id` a topic that has another id is not it.
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
    topics: TopicKeeper
    offsets: OffsetDesk
    groups: GroupDesk
    """Groups with members, of Kafka clients."""
    group_traces: GroupTraces
    """What ZooKeeper knows of groups."""
    producer_ids: ProducerIdDesk
    disk: Worker
    """Does what waits for the disk and is not a flush."""
    host: str
    port: int
    """Where clients are told to come: known once the socket listens."""
    supported: Mapping[int, tuple[int, int]]
    """API key to the lowest and highest version served: what ApiVersions answers, from the router's table."""
    metadata_answers: MetadataAnswers = field(default_factory=MetadataAnswers)
    metrics: BrokerMetrics = field(default_factory=BrokerMetrics)
    known_fetches: KnownFetches = field(default_factory=KnownFetches)
    topics_by_id: TopicsById = field(default_factory=TopicsById)
    cold_reads: ColdReads | None = None
    """None: what is not in the page cache is read on the loop."""
    slices: Slices = field(init=False)
    """Long answers on their way."""

    def __post_init__(self) -> None:
        self.slices = Slices(self.loop)

    def topic_id(self, topic: str) -> UUID | None:
        """Return a topic's id, None when there is no such topic."""
        entry = self.topics.catalog.topics.get(topic)
        return None if entry is None else entry.topic_id

    def entry_config(self, topic: str) -> Mapping[str, str]:
        """Return a topic's own settings, empty when there is no such topic."""
        entry = self.topics.catalog.topics.get(topic)
        return {} if entry is None else entry.config

    def partition_to_read(self, topic: str, index: int) -> Partition | None:
        """Return the partition of the topic that has this name, else this id; None where none is kept here."""
        partition = self.partitions.get(topic, index)
        if partition is None and (name := self.topics_by_id.name_of(topic, self.topics.catalog)) is not None:
            return self.partitions.get(name, index)
        return partition

    def not_here(self, topic: str, index: int) -> ErrorCode:
        """Return what the protocol calls it that a partition is not among this broker's own."""
        if self.topics.catalog.has(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """Return host and port of every broker by id, this one among them whatever ZooKeeper says."""
        known = {broker.broker_id: (broker.host, broker.port) for broker in self.topics.catalog.brokers.values()}
        return known | {self.settings.broker_id: (self.host, self.port)}

    @property
    def broker_ids(self) -> set[int]:
        return {self.settings.broker_id, *self.topics.catalog.brokers}


def respond(body: bytes) -> tuple[bytes]:
    """Return one body as the chunks that a Later is completed with."""
    return (body,)


def required(array: Sequence[Any] | None) -> Sequence[Any]:
    """Return an array that may not be null. Raises: MalformedFrame; kio reads a null there without complaint."""
    if array is None:
        raise MalformedFrame("a null where an array must stand")
    return array
