"""Defines the settings of a topic: names, defaults, accepted values, descriptions. Pure.

One table serves all: CreateTopics validates against it, DescribeConfigs shows it, the partition and its log get typed values from
it. A name outside the table is refused, so no setting is accepted without an effect.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

UNLIMITED = -1
LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1
FLUSH_INTERVAL_MS = 1_000
"""The flush interval where `flush.ms` is not set: under `flush.ack=interval`, and for the last few messages under
`flush.messages`, which consumers could not see otherwise.
"""


class ConfigType(IntEnum):
    """The type of a value, as DescribeConfigs numbers it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """The source of a value, as DescribeConfigs numbers it."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


MIN_INSYNC_REPLICAS = "min.insync.replicas"
REPLICATED = 3
"""With so many replicas, two must have a message: with one, a power cut of the last member would lose what it acknowledged."""


Check = Callable[[str], str | None]
"""Returns the fault of a value, or None."""


_LONGEST_NUMBER = 20
"""Characters of a 64-bit integer. Python refuses to parse thousands of digits."""


def _whole(lowest: int, highest: int) -> Check:
    def check(value: str) -> str | None:
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(value) > _LONGEST_NUMBER:
            return f"{value[:40]!r} is not a whole number of at most 64 bits"
        return None if lowest <= int(value) <= highest else f"{value} is not from {lowest} to {highest}"

    return check


def _one_of(*values: str, why: str = "") -> Check:
    def check(value: str) -> str | None:
        return None if value in values else f"{value!r} is not one of {', '.join(values)}{why}"

    return check


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """One row of the table."""

    name: str
    type: ConfigType
    default: str
    check: Check
    doc: str
    broker_name: str | None = None
    """The broker setting that changes the default, or None."""

    def plain(self, value: str) -> str:
        """Return a value in its stored form. As Kafka, ignore blanks, a plus sign, capitals in booleans, duplicates in lists."""
        match self.type:
            case ConfigType.STRING:
                return value
            case ConfigType.BOOLEAN:
                return value.strip().lower()
            case ConfigType.LIST:
                return ",".join(dict.fromkeys(one.strip() for one in value.split(",")))
        number = value.strip()
        return number[1:] if number[:1] == "+" and number[1:].isdigit() else number


_NO_COMPACTION = ": removing batches would break byte offsets, so compaction is not offered"

TABLE: Mapping[str, TopicSetting] = {
    setting.name: setting
    for setting in (
        TopicSetting(
            name="cleanup.policy",
            type=ConfigType.LIST,
            default="delete",
            check=_one_of("delete", why=_NO_COMPACTION),
            doc="Only delete: whole old segments are deleted, by age or size. Compaction would break byte offsets.",
        ),
        TopicSetting(
            name="retention.ms",
            type=ConfigType.LONG,
            default=str(7 * 24 * 3_600_000),
            check=_whole(UNLIMITED, LARGEST_INT64),
            broker_name="log.retention.ms",
            doc="A segment is deleted this long after its last append at this broker. Event time has no effect. -1: never.",
        ),
        TopicSetting(
            name="retention.bytes",
            type=ConfigType.LONG,
            default=str(UNLIMITED),
            check=_whole(UNLIMITED, LARGEST_INT64),
            broker_name="log.retention.bytes",
            doc="The oldest segments of a partition are deleted while the others hold at least this many bytes. -1: never.",
        ),
        TopicSetting(
            name="segment.bytes",
            type=ConfigType.INT,
            default=str(1 << 30),
            check=_whole(14, LARGEST_INT32),
            broker_name="log.segment.bytes",
            doc="At this size, the active segment is closed and a new one is started.",
        ),
        TopicSetting(
            name="segment.ms",
            type=ConfigType.LONG,
            default=str(7 * 24 * 3_600_000),
            check=_whole(1, LARGEST_INT64),
            broker_name="log.roll.ms",
            doc="At this age, counted from its first append, the active segment is closed and a new one is started.",
        ),
        TopicSetting(
            name="flush.messages",
            type=ConfigType.LONG,
            default=str(LARGEST_INT64),
            check=_whole(1, LARGEST_INT64),
            broker_name="log.flush.interval.messages",
            doc="The log is flushed after this many messages; fewer are flushed after flush.ms, by default one second. Consumers "
            "see only flushed messages. 1 is the same as flush.ack=always.",
        ),
        TopicSetting(
            name="flush.ms",
            type=ConfigType.LONG,
            default=str(LARGEST_INT64),
            check=_whole(0, LARGEST_INT64),
            broker_name="log.flush.interval.ms",
            doc="The log is flushed this long after an append. Consumers see only flushed messages.",
        ),
        TopicSetting(
            name="flush.ack",
            type=ConfigType.STRING,
            default="none",
            check=_one_of("none", "interval", "always"),
            broker_name="log.flush.ack",
            doc="When a message is acknowledged. none: after the write; it survives a killed broker, but a power cut can lose "
            "about the last 30 seconds. interval: after the write; the log is flushed every flush.ms (1000 if not set), and a "
            "power cut can lose that much. always: after the flush; it survives a power cut, and one flush serves all waiting "
            "requests. With interval and always, consumers see only flushed messages.",
        ),
        TopicSetting(
            name="max.message.bytes",
            type=ConfigType.INT,
            default=str(1_048_588),
            check=_whole(61, LARGEST_INT32),
            broker_name="message.max.bytes",
            doc="Largest record batch, with its header, as compressed.",
        ),
        TopicSetting(
            name="message.timestamp.type",
            type=ConfigType.STRING,
            default="CreateTime",
            check=_one_of("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
            doc="CreateTime: the producer sets the timestamp of a record. LogAppendTime: the broker sets it to the time of the "
            "append and the event time is lost, so do not use it on audited topics: the audit counts by timestamp. A mirrored "
            "topic keeps the timestamps of its source.",
        ),
        TopicSetting(
            name="compression.type",
            type=ConfigType.STRING,
            default="producer",
            check=_one_of("producer", why=": the broker never decodes or re-encodes records"),
            doc="Only producer: batches stay as their producer compressed them.",
        ),
        TopicSetting(
            name=MIN_INSYNC_REPLICAS,
            type=ConfigType.INT,
            default="1",
            check=_whole(1, LARGEST_INT32),
            broker_name=MIN_INSYNC_REPLICAS,
            doc="How many replicas must have a message before acks=all is acknowledged; while fewer are in sync, it is not "
            "acknowledged. The default is 2 for topics with three or more replicas, else 1. A value above the "
            "topic's number of replicas counts as that number.",
        ),
        TopicSetting(
            name="unclean.leader.election.enable",
            type=ConfigType.BOOLEAN,
            default="false",
            check=_one_of("false", why=": a replica that lacks acknowledged messages never leads"),
            doc="Only false: a replica that lacks acknowledged messages never becomes leader.",
        ),
        TopicSetting(
            name="preallocate",
            type=ConfigType.BOOLEAN,
            default="false",
            check=_one_of("false", why=": a segment's length says where it ends"),
            doc="Only false: a segment file grows as it is written.",
        ),
        TopicSetting(
            name="remote.storage.enable",
            type=ConfigType.BOOLEAN,
            default="false",
            check=_one_of("false", why=": all segments are on the broker's own disk"),
            doc="Only false: all segments are on the broker's own disk.",
        ),
        TopicSetting(
            name="headrace.mirror",
            type=ConfigType.BOOLEAN,
            default="false",
            check=_one_of("true", "false"),
            doc="The topic is a copy written by a mirror: other producers are refused, batches keep the offsets of their source.",
        ),
    )
}


_ONLY_COMPACTION = "it steers compaction, which is not offered: removing batches would break byte offsets"
_NO_THROTTLES = "replication is not throttled"
_OLD_FORMAT = "it is about message formats before 2, which no client of today sends and this broker does not take"
_OWN_INDEX = "it is about Kafka's index files, and there are none: an offset is a position in the file"
_ONLY_TIERS = "it steers tiered storage, and all segments are on the broker's own disk"
_ANY_TIME = "a record's time is its event's own, and events of any age are taken: old ones are replayed every day"

REFUSED: Mapping[str, str] = {
    "min.cleanable.dirty.ratio": _ONLY_COMPACTION,
    "min.compaction.lag.ms": _ONLY_COMPACTION,
    "max.compaction.lag.ms": _ONLY_COMPACTION,
    "delete.retention.ms": _ONLY_COMPACTION,
    "leader.replication.throttled.replicas": _NO_THROTTLES,
    "follower.replication.throttled.replicas": _NO_THROTTLES,
    "message.format.version": _OLD_FORMAT,
    "message.downconversion.enable": _OLD_FORMAT,
    "segment.index.bytes": _OWN_INDEX,
    "index.interval.bytes": _OWN_INDEX,
    "local.retention.ms": _ONLY_TIERS,
    "local.retention.bytes": _ONLY_TIERS,
    "remote.log.copy.disable": _ONLY_TIERS,
    "remote.log.delete.on.disable": _ONLY_TIERS,
    "message.timestamp.difference.max.ms": _ANY_TIME,
    "message.timestamp.before.max.ms": _ANY_TIME,
    "message.timestamp.after.max.ms": _ANY_TIME,
    "segment.jitter.ms": "segments roll when their own age or size says so, without chance",
    "file.delete.delay.ms": "segment files are unlinked immediately; open readers finish reading",
    "compression.gzip.level": "the broker never encodes records, their producer does",
    "compression.lz4.level": "the broker never encodes records, their producer does",
    "compression.zstd.level": "the broker never encodes records, their producer does",
}
"""Kafka's topic settings that are refused with any value, and the reason."""


def faults_of(config: Mapping[str, str | None]) -> list[str]:
    """Return every fault of a topic's own settings, conflicts between them included. Each fault names its setting."""
    faults = []
    for name, value in config.items():
        setting = TABLE.get(name)
        if name in REFUSED:
            faults.append(f"{name}: not taken here: {REFUSED[name]}")
        elif setting is None:
            faults.append(f"{name[:100]}: there is no such topic setting here (known: {', '.join(sorted(TABLE))})")
        elif value is None:
            faults.append(f"{name}: has no value")
        elif (fault := setting.check(setting.plain(value))) is not None:
            faults.append(f"{name}: {fault}")
    return faults + conflicts_of(kept(config))


def kept(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return a topic's own settings in their stored form. `faults_of` has found no fault in them."""
    return {name: TABLE[name].plain(value) if name in TABLE else value for name, value in config.items() if value is not None}


def conflicts_of(config: Mapping[str, str | None]) -> list[str]:
    """Return the conflicts between a topic's own settings."""
    if config.get("headrace.mirror") == "true" and config.get("message.timestamp.type") == "LogAppendTime":
        return [
            "message.timestamp.type: LogAppendTime with headrace.mirror=true: a mirrored topic is a copy byte for byte, times "
            "included. Set LogAppendTime on the topic it is copied from, or leave headrace.mirror away"
        ]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The effective settings of a topic, typed."""

    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    flush_messages: int | None
    """None: no flush by message count."""
    flush_ms: int | None
    """None: no flush by time."""
    acks_on_disk: bool
    """Acknowledge after the flush."""
    max_message_bytes: int
    is_mirror: bool
    stamps_append_time: bool
    """Records get the time of the append."""
    min_insync_replicas: int | None = None
    """None: neither topic nor broker set it. `min_insync` returns the number that counts."""

    @property
    def shows_only_what_is_flushed(self) -> bool:
        return self.acks_on_disk or self.flush_messages is not None or self.flush_ms is not None


def values_in_force(
    own: Mapping[str, str], defaults: Mapping[str, str], replication_factor: int = 1
) -> dict[str, tuple[str, ConfigSource]]:
    """Return each setting's effective value and its source: the topic, else the broker's settings, else the table.

    `defaults` holds the defaults that the broker's settings change, by topic setting. If the table refuses a topic's own value
    (written by a later release, or by hand), the default applies. A mirrored topic always has `CreateTime`."""
    answer = {}
    for name, setting in TABLE.items():
        if (value := own.get(name)) is not None and setting.check(value) is None:
            answer[name] = (value, ConfigSource.TOPIC)
        elif (value := defaults.get(name)) is not None:
            answer[name] = (value, ConfigSource.STATIC_BROKER)
        else:
            answer[name] = (setting.default, ConfigSource.DEFAULT)
    if replication_factor >= REPLICATED and answer[MIN_INSYNC_REPLICAS][1] is ConfigSource.DEFAULT:
        answer[MIN_INSYNC_REPLICAS] = (str(min_insync(None, replication_factor)), ConfigSource.DEFAULT)
    if answer["headrace.mirror"][0] == "true":
        answer["message.timestamp.type"] = (TABLE["message.timestamp.type"].default, ConfigSource.DEFAULT)
    return answer


def min_insync(given: int | None, replica_count: int) -> int:
    """Return how many of a partition's replicas must have a message. `given`: `TopicSettings.min_insync_replicas`."""
    wanted = (2 if replica_count >= REPLICATED else 1) if given is None else given
    return min(wanted, max(1, replica_count))


def settings_of(own: Mapping[str, str], defaults: Mapping[str, str]) -> TopicSettings:
    """Return the effective settings of a topic, typed. `own` are the topic's, `defaults` the broker's."""
    in_force = values_in_force(own, defaults)
    values = {name: value for name, (value, _) in in_force.items()}

    def unless_largest(name: str) -> int | None:
        number = int(values[name])
        return None if number == LARGEST_INT64 else number

    flush_messages, flush_ms = unless_largest("flush.messages"), unless_largest("flush.ms")
    if values["flush.ack"] == "interval" and flush_messages is None and flush_ms is None:
        flush_ms = FLUSH_INTERVAL_MS
    return TopicSettings(
        retention_ms=int(values["retention.ms"]),
        retention_bytes=int(values["retention.bytes"]),
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=int(values["segment.ms"]),
        flush_messages=flush_messages,
        flush_ms=flush_ms,
        acks_on_disk=values["flush.ack"] == "always" or flush_messages == 1,
        max_message_bytes=int(values["max.message.bytes"]),
        is_mirror=values["headrace.mirror"] == "true",
        stamps_append_time=values["message.timestamp.type"] == "LogAppendTime",
        min_insync_replicas=(
            None if in_force[MIN_INSYNC_REPLICAS][1] is ConfigSource.DEFAULT else int(values[MIN_INSYNC_REPLICAS])
        ),
    )
