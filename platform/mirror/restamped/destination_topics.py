"""The topics of a restamped copy: made with settings under which a copy stays a copy; those of Apache Kafka are checked."""

from collections.abc import Mapping

from ...client.admin import create_topic
from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.topic_admin import add_partitions, topic_settings
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ..destination import MIRROR_CONFIG
from ..engine import Engine
from ..errors import UnfitTopic
from ..topics.naming import Naming
from .plan import SourceRules

log = get_logger(__name__)

CREATE_TIMEOUT_MS = 10_000
CHECK_EVERY_MS = 60_000
LONGEST_MS = "9223372036854775807"
MARGIN_BYTES = 64 * 1024
"""A batch that has to be made anew may grow by this."""
LARGEST_INT = 2_147_483_647
LEDGER_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
COPY_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": LONGEST_MS,
    "message.timestamp.after.max.ms": LONGEST_MS,
}
"""Kafka's retention goes by event time: any other than -1 deletes old events as soon as they are copied."""
_NEEDED = {
    "compression.type": ("producer", "the destination would pack every batch anew, and no batch could be compared any more"),
    "message.timestamp.type": ("CreateTime", "the destination would replace every event's time by its own"),
    "cleanup.policy": ("delete", "compaction would delete copied events"),
}


class DestinationTopics:
    """Makes and checks topics; used by the forwarder's thread alone. Serves where the mirror expects a `Destination`, too."""

    is_busy = False
    """No append outlives a turn here."""

    def __init__(
        self,
        cluster: Cluster,
        source: Cluster,
        clock: Clock,
        *,
        engine: Engine = Engine.KAFKA,
        replication_factor: int = -1,
        allows_retention: bool = False,
        naming: Naming | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """`allows_retention`: an operator wants retention by event time in the destination (`--allow-retention`)."""
        self.cluster = cluster
        self._source = source
        self._clock = clock
        self._engine = engine
        self._replication_factor = replication_factor
        self._allows_retention = allows_retention
        self._naming = naming or Naming()
        self._config = dict(config or {})
        self._checked_ms: dict[str, int] = {}
        self._source_settings: dict[str, Mapping[str, str]] = {}

    def prepare(self, topic: str, partition_count: int) -> None:
        """Ensure that the copy of the source's topic exists, has at least this many partitions, and settings that fit a copy.

        Raises HeadraceError.
        """
        settings = self._source_settings[topic] = _values(self._source, topic)
        topic = self._naming.destination_name(topic)
        try:
            present = len(self.cluster.partitions(topic))
        except UnknownTopic:
            largest = min(LARGEST_INT, int(settings.get("max.message.bytes", "1048588")) + MARGIN_BYTES)
            wanted = COPY_SETTINGS if self._engine is Engine.KAFKA else MIRROR_CONFIG
            self._create(topic, partition_count, {**wanted, **self._config, "max.message.bytes": str(largest)})
            return
        if present < partition_count:
            add_partitions(self.cluster, topic, partition_count, timeout_ms=CREATE_TIMEOUT_MS)
            log.info("partitions_added", topic=topic, from_count=present, to_count=partition_count)
        if self._engine is Engine.KAFKA:
            self._check(topic, settings)

    def prepare_ledger(self, topic: str) -> None:
        """Ensure that the ledger's topic exists. Raises HeadraceError."""
        try:
            self.cluster.partitions(topic)
        except UnknownTopic:
            self._create(topic, 1, LEDGER_SETTINGS)

    def rules(self, topic: str, *, is_dense: bool) -> SourceRules:
        """Return what the source's topic may look like, by its settings when it was last prepared."""
        policy = self._source_settings.get(topic, {}).get("cleanup.policy", "")
        return SourceRules(is_dense=is_dense, is_compacted="compact" in policy)

    def _create(self, topic: str, partition_count: int, settings: Mapping[str, str]) -> None:
        create_topic(
            self.cluster,
            topic,
            partition_count,
            settings,
            replication_factor=self._replication_factor,
            timeout_ms=CREATE_TIMEOUT_MS,
        )
        log.info("topic_created", topic=topic, partitions=partition_count)

    def _check(self, topic: str, source_settings: Mapping[str, str]) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._checked_ms.get(topic, -CHECK_EVERY_MS) < CHECK_EVERY_MS:
            return
        found = faults(_values(self.cluster, topic), allows_retention=self._allows_retention)
        if found:
            raise UnfitTopic(topic, self.cluster.bootstrap, found)
        largest, source_largest = (
            int(settings.get("max.message.bytes", LARGEST_INT)) for settings in (_values(self.cluster, topic), source_settings)
        )
        if largest < source_largest:
            log.warning("destination_takes_smaller_batches", topic=topic, bytes=largest, source_bytes=source_largest)
        self._checked_ms[topic] = now_ms


def faults(settings: Mapping[str, str], *, allows_retention: bool) -> list[str]:
    """Return why copies cannot live under these settings of a destination's topic, one sentence each."""
    found = [
        f"{name}={settings[name]}: {why}; set it to {value}"
        for name, (value, why) in _NEEDED.items()
        if name in settings and settings[name] != value
    ]
    retention = settings.get("retention.ms", "-1")
    if retention != "-1" and not allows_retention:
        found.append(
            f"retention.ms={retention}: Kafka deletes by event time, old events at once; set it to -1 (and retention.bytes to "
            f"bound the topic), or start the mirror with --allow-retention"
        )
    before = settings.get("message.timestamp.before.max.ms", LONGEST_MS)
    if before != LONGEST_MS:
        found.append(f"message.timestamp.before.max.ms={before}: older events would be refused; set it to {LONGEST_MS}")
    return found


def _values(cluster: Cluster, topic: str) -> dict[str, str]:
    return {one.name: one.value for one in topic_settings(cluster, topic) if one.value is not None}
