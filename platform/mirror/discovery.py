"""Finds the partitions to copy: asks the source at intervals, creates new topics at the destination."""

from typing import Protocol

from ..client.connection.cluster import Cluster
from ..client.fetch.fetched import TopicPartition
from ..errors import HeadraceError
from ..runtime.backoff import Backoff
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from .errors import NameTaken
from .topics.naming import Naming, collisions

log = get_logger(__name__)

EVERY_MS = 1_000
BACKOFF = Backoff(first_ms=100, longest_ms=EVERY_MS)


class PreparesTopics(Protocol):
    """What discovery needs of a destination."""

    @property
    def cluster(self) -> Cluster: ...

    def prepare(self, topic: str, partition_count: int, /) -> None: ...


class Discovery:
    """The known topics of the source. Belongs to the forwarder's thread; any thread may read the attributes."""

    def __init__(self, source: Cluster, destination: PreparesTopics, clock: Clock, naming: Naming | None = None) -> None:
        self._source = source
        self._destination = destination
        self._clock = clock
        self._naming = naming or Naming()
        self._due_ms = 0
        self._attempt = 0
        self.has_answers = False
        """Both clusters have answered since the start."""
        self.source_ids: dict[str, str] = {}
        """Each topic's id in the source, as of the last look; empty if its broker has none."""
        self.trouble: str | None = None
        """Why topics cannot be discovered now."""

    def look(self) -> dict[str, set[TopicPartition]] | None:
        """Return every topic to copy, with its partitions. None if the next request is not due yet, or a cluster does not
        answer.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._due_ms:
            return None
        try:
            wanted = [topic for topic in self._source.topics() if self._naming.is_wanted(topic)]
            taken = collisions(wanted, self._naming.destination_name)
            topics = {topic: self._source.partitions(topic) for topic in wanted if topic not in taken}
            self._destination.cluster.topics()
            self.source_ids = self._source.topic_ids()
        except HeadraceError as error:
            self._failed(error)
            return None
        self._due_ms, self._attempt = now_ms + EVERY_MS, 0
        self.has_answers = True
        self.trouble = str(NameTaken(taken, self._naming.destination_name)) if taken else None
        return {topic: {TopicPartition(topic, one) for one in partitions} for topic, partitions in topics.items()}

    def prepare(self, topic: str, partition_count: int) -> bool:
        """Return whether the destination has the topic with this many partitions; if not, the next look tries again."""
        try:
            self._destination.prepare(topic, partition_count)
        except HeadraceError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: HeadraceError) -> None:
        if self.trouble is None:
            log.warning("discovery_failed", error=str(error))
        self.trouble = str(error)
        self._due_ms = self._clock.monotonic_ms() + BACKOFF.wait_ms(self._attempt)
        self._attempt += 1
