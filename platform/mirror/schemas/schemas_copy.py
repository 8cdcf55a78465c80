"""The copy of the schemas topic: a forwarder of its own for this one topic, driven by the gate, and counted by nobody."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...runtime.layout import SCHEMAS_TOPIC
from ..forwarder import Forwarder
from ..partition_copy import Phase
from ..topics.naming import Naming

PAUSE_S = 0.005
SCHEMAS_CONFIG: Mapping[str, str] = {"retention.ms": "-1"}
"""Of the copy, besides what makes it one: an id is needed as long as there is data with it."""
UNCOUNTED = 1 << 62
"""'Everything was counted': the audit does not count schemas, so nothing is fetched again to be counted."""


class OnlySchemas(Naming):
    """Copies the schemas topic, under its own name, and nothing else."""

    def __init__(self, topic: str = SCHEMAS_TOPIC) -> None:
        super().__init__()
        self._topic = topic
        self.only = (topic,)

    def is_wanted(self, topic: str) -> bool:
        return topic == self._topic

    def destination_name(self, topic: str) -> str:
        return topic


class Uncounted:
    """In place of the audit's reporter: the platform's own topics are not audited."""

    def position(self, topic: str, partition: int) -> int | None:
        return None

    def read_many(self, tier: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(names, UNCOUNTED)

    def add_batches(self, topic: str, partition: int, batches: Any) -> int:
        return len(batches)

    def add_records(self, *words: Any, **more: Any) -> None:
        return

    def begin(self, topic: str, partition: int, offset: int) -> None:
        return

    def skip(self, topic: str, partition: int, to_offset: int, reason: str) -> None:
        return

    def publish(self, timeout_ms: int) -> None:
        return


class SchemasCopy:
    """Drives the forwarder of the schemas topic. Belongs to the thread of the data's forwarder."""

    def __init__(self, source: Cluster, forwarder: Forwarder, topic: str = SCHEMAS_TOPIC) -> None:
        self._source = source
        self._forwarder = forwarder
        self._name = TopicPartition(topic, 0)
        self._pause = threading.Event()
        forwarder.wait_ms = 0

    def live_end(self) -> int | None:
        """Return where the topic ends in the source now; None if the source has none. Raises HeadraceError."""
        try:
            return log_offsets(self._source, {self._name: LATEST})[self._name]
        except UnknownTopic:
            return None

    def copied_to(self) -> int:
        """Return what the destination has confirmed, in the source's offsets; -1 while that is not known."""
        copy = self._forwarder.copies().get(self._name)
        return copy.copied_to if copy is not None and copy.phase is Phase.COPYING else -1

    def advance(self) -> None:
        """Copy what there is; pause a little if there is nothing."""
        has_moved = self._forwarder.turn()
        self._forwarder.finish()
        if not has_moved:
            self._pause.wait(PAUSE_S)

    def trouble(self) -> str | None:
        copy = self._forwarder.copies().get(self._name)
        return (None if copy is None else copy.trouble) or self._forwarder.discovery.trouble

    def facts(self) -> dict[str, Any]:
        """Return the copy's state for the status file."""
        copy = self._forwarder.copies().get(self._name)
        if copy is None:
            return {"topic": self._name.topic, "state": "absent", "error": self.trouble()}
        facts = {"topic": self._name.topic, "state": copy.phase.value, "copied_to": copy.copied_to}
        return {**facts, "source_end": copy.source_end, "error": self.trouble()}

    def close(self) -> None:
        self._forwarder.close()
