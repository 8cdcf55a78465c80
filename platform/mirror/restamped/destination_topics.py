"""The topics of a restamped copy: made with settings under which a copy stays a copy; those of Apache Kafka are checked."""

from collections.abc import Collection, Mapping, Sequence

from ...client.admin import await_leaders, create_topic, create_topics
from ...client.connection.cluster import Cluster
from ...client.errors import ClientError, UnknownTopic
from ...client.topic_admin import TopicSettingInForce, add_partitions, settings_of_topics
from ...errors import HeadraceError
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ..destination import MIRROR_CONFIG, TOPICS_LANE
from ..engine import Engine
from ..errors import UnfitTopic
from ..topics.naming import Naming
from .plan import SourceRules

log = get_logger(__name__)

CREATE_TIMEOUT_MS = 10_000
CHECK_EVERY_MS = 60_000
LONGEST_MS = "9223372036854775807"
MARGIN_BYTES = 64 * 1024
"""A batch that has to be created again may grow by this."""
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
    "compression.type": ("producer", "the destination would repack every batch, and no batch could be compared any more"),
    "message.timestamp.type": ("CreateTime", "the destination would replace every event's time by its own"),
    "cleanup.policy": ("delete", "compaction would delete copied events"),
}


class DestinationTopics:
    """Makes and checks topics. The discovery's thread calls `prepare`, the forwarder's thread the rest."""

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

    def prepare(self, wanted: Mapping[str, int], present: Mapping[str, Collection[int]]) -> Mapping[str, HeadraceError | None]:
        """Ensure that these copies exist, have so many partitions at least, and fit settings; return for each None, or why not.

        `wanted`: topic → partitions; `present`: the partitions of the destination's topics. Called by the discovery's thread.
        Raises ClientError.
        """
        found: dict[str, HeadraceError | None] = dict.fromkeys(wanted)
        there = {topic: self._naming.destination_name(topic) for topic in wanted}
        for topic, settings in settings_of_topics(self._source, wanted, lane=TOPICS_LANE).items():
            if isinstance(settings, ClientError):
                found[topic] = settings
            else:
                self._source_settings[topic] = _values(settings)
        sound = [topic for topic in wanted if found[topic] is None]
        missing = {there[topic]: topic for topic in sound if there[topic] not in present}
        if missing:
            to_make = {name: (wanted[topic], self._settings_of(topic)) for name, topic in missing.items()}
            found |= {missing[name]: error for name, error in self._create(to_make).items()}
        for topic in sound:
            held = len(present.get(there[topic], ()))
            if 0 < held < wanted[topic]:
                try:
                    add_partitions(self.cluster, there[topic], wanted[topic], timeout_ms=CREATE_TIMEOUT_MS)
                    log.info("partitions_added", topic=there[topic], from_count=held, to_count=wanted[topic])
                except ClientError as error:
                    found[topic] = error
        if self._engine is Engine.KAFKA:
            found |= self._check({there[topic]: topic for topic in sound if there[topic] in present and found[topic] is None})
        return found

    def _settings_of(self, topic: str) -> dict[str, str]:
        """Return with which settings a topic's copy is made."""
        largest = min(LARGEST_INT, int(self._source_settings[topic].get("max.message.bytes", "1048588")) + MARGIN_BYTES)
        needed = COPY_SETTINGS if self._engine is Engine.KAFKA else MIRROR_CONFIG
        return {**needed, **self._config, "max.message.bytes": str(largest)}

    def prepare_ledger(self, topic: str) -> None:
        """Ensure that the ledger's topic exists. Raises HeadraceError."""
        try:
            self.cluster.partitions(topic)
        except UnknownTopic:
            create_topic(
                self.cluster, topic, 1, LEDGER_SETTINGS, replication_factor=self._replication_factor, timeout_ms=CREATE_TIMEOUT_MS
            )

    def rules(self, topic: str, *, is_dense: bool) -> SourceRules:
        """Return what the source's topic may look like, by its settings when it was last prepared."""
        policy = self._source_settings.get(topic, {}).get("cleanup.policy", "")
        return SourceRules(is_dense=is_dense, is_compacted="compact" in policy)

    def _create(self, to_make: Mapping[str, tuple[int, Mapping[str, str]]]) -> dict[str, ClientError]:
        """Make topics of the destination; return why some are not there."""
        made = create_topics(
            self.cluster,
            to_make,
            replication_factor=self._replication_factor,
            timeout_ms=CREATE_TIMEOUT_MS,
            lane=TOPICS_LANE,
        )
        refused = {name: error for name, error in made.items() if error is not None}
        refused |= await_leaders(self.cluster, made.keys() - refused.keys(), timeout_ms=CREATE_TIMEOUT_MS)
        log.info("topics_created", topics=len(made) - len(refused), one_of_them=next(iter(made)))
        return refused

    def _check(self, topics: Mapping[str, str]) -> dict[str, HeadraceError]:
        """Return which topics of the destination do not fit a copy, by the source's names, and why; `topics`: name → source's."""
        now_ms = self._clock.monotonic_ms()
        due = [name for name in topics if now_ms - self._checked_ms.get(name, -CHECK_EVERY_MS) >= CHECK_EVERY_MS]
        refused: dict[str, HeadraceError] = {}
        for name, settings in settings_of_topics(self.cluster, due, lane=TOPICS_LANE).items():
            if isinstance(settings, ClientError):
                refused[topics[name]] = settings
                continue
            values = _values(settings)
            if found := faults(values, allows_retention=self._allows_retention):
                refused[topics[name]] = UnfitTopic(name, self.cluster.bootstrap, found)
                continue
            largest, source_largest = (
                int(one.get("max.message.bytes", LARGEST_INT)) for one in (values, self._source_settings[topics[name]])
            )
            if largest < source_largest:
                log.warning("destination_takes_smaller_batches", topic=name, bytes=largest, source_bytes=source_largest)
            self._checked_ms[name] = now_ms
        return refused


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


def _values(settings: Sequence[TopicSettingInForce]) -> dict[str, str]:
    return {one.name: one.value for one in settings if one.value is not None}
