"""What handlers may use of the broker: built once by `app`, the same for every request.

A handler is a function (context, version, body, peer) that returns the answer's body, whole or in chunks; a `Later`; or None
where the protocol has no answer. It runs on the loop thread, never blocks, and keeps no view of `body` after it has returned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...wire.errors import MalformedFrame
from ..catalog import Catalog
from ..later import Chunks, Later
from ..loop import Loop
from ..offset_desk import OffsetDesk
from ..partitions import PartitionTable
from ..producer_id_desk import ProducerIdDesk
from ..settings import BrokerSettings

Answer = bytes | Chunks | Later | None


class TopicKeeper(Protocol):
    """Makes and removes topics (through ZooKeeper, so the answer comes later)."""

    @property
    def catalog(self) -> Catalog:
        """The cluster as this broker knows it."""
        ...

    def create(
        self, topic: str, partition_count: int, config: Mapping[str, str], done: Callable[[bool | Exception], None]
    ) -> None:
        """Make a topic, then call `done` on the loop: True it is there now, False it was there before, or why it could not be
        made.
        """
        ...

    def delete(self, topic: str, done: Callable[[bool | Exception], None]) -> None:
        """Remove a topic and its data, then call `done` on the loop: True it is gone, False there was none, or why it could
        not be.
        """
        ...


class MetadataAnswers:
    """Answers that hold as long as the catalog is the same object. Bounded."""

    CAPACITY = 500

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._answers: dict[object, bytes] = {}

    def get(self, key: object, catalog: Catalog) -> bytes | None:
        return self._answers.get(key) if catalog is self._catalog else None

    def put(self, key: object, catalog: Catalog, answer: bytes) -> None:
        if catalog is not self._catalog or len(self._answers) >= self.CAPACITY:
            self._catalog = catalog
            self._answers.clear()
        self._answers[key] = answer


@dataclass(slots=True, kw_only=True)
class Context:
    """The broker as handlers see it."""

    settings: BrokerSettings
    loop: Loop
    now_ms: Callable[[], int]
    """Wall clock."""
    partitions: PartitionTable
    topics: TopicKeeper
    offsets: OffsetDesk
    producer_ids: ProducerIdDesk
    host: str
    port: int
    """Where clients are told to come: known once the socket listens."""
    supported: Mapping[int, tuple[int, int]]
    """API key to the lowest and highest version served: what ApiVersions answers, from the router's table."""
    metadata_answers: MetadataAnswers = field(default_factory=MetadataAnswers)

    def entry_config(self, topic: str) -> Mapping[str, str]:
        """Return a topic's own settings, empty when there is no such topic."""
        entry = self.topics.catalog.topics.get(topic)
        return {} if entry is None else entry.config


def respond(body: bytes) -> tuple[bytes]:
    """Return one body as the chunks that a Later is completed with."""
    return (body,)


def required(array: Sequence[Any] | None) -> Sequence[Any]:
    """Return an array that may not be null. Raises: MalformedFrame; kio reads a null there without complaint."""
    if array is None:
        raise MalformedFrame("a null where an array must stand")
    return array
