"""A topic's settings under Kafka's own names: which exist, what they mean, what values they take. Pure.

Holds one table; CreateTopics validates against it, DescribeConfigs shows it, the partition and its log get typed values from
it. Whatever is not in the table is refused by name: a setting that is taken and then ignored would be a promise nobody keeps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

UNLIMITED = -1
LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1
FLUSH_INTERVAL_MS = 1_000
"""Of flush.ack=interval where neither flush.ms nor flush.messages says another, and of the last few messages under
flush.messages alone, which would stay unseen until more come.
"""


class ConfigType(IntEnum):
    """DescribeConfigs' own numbers for the type of a value."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """DescribeConfigs' own numbers for where a value comes from."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


Check = Callable[[str], str | None]
"""Returns what is wrong with a value, or None."""


_LONGEST_NUMBER = 20
"""Characters: more do not fit 64 bits, and Python refuses to read thousands of them."""


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
    """One line of the table."""

    name: str
    type: ConfigType
    default: str
    check: Check
    doc: str
    broker_name: str | None = None
    """The broker's setting that gives the default, where there is one."""

    def plain(self, value: str) -> str:
        """Return a value as it is kept: Kafka overlooks blanks, a plus, capitals in booleans and doubles in lists."""
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
            doc="Only delete: old segments are deleted whole, by time or size. Compaction would break byte offsets.",
        ),
        TopicSetting(
            name="retention.ms",
            type=ConfigType.LONG,
            default=str(7 * 24 * 3_600_000),
            check=_whole(UNLIMITED, LARGEST_INT64),
            broker_name="log.retention.ms",
            doc="A segment is deleted this long after its last append reached this broker; event time plays no part. -1 never.",
        ),
        TopicSetting(
            name="retention.bytes",
            type=ConfigType.LONG,
            default=str(UNLIMITED),
            check=_whole(UNLIMITED, LARGEST_INT64),
            broker_name="log.retention.bytes",
            doc="The oldest segments of a partition are deleted while it is larger than this. -1 never.",
        ),
        TopicSetting(
            name="segment.bytes",
            type=ConfigType.INT,
            default=str(1 << 30),
            check=_whole(14, LARGEST_INT32),
            broker_name="log.segment.bytes",
            doc="A segment file is closed and a new one begun at this size.",
        ),
        TopicSetting(
            name="segment.ms",
            type=ConfigType.LONG,
            default=str(7 * 24 * 3_600_000),
            check=_whole(1, LARGEST_INT64),
            broker_name="log.roll.ms",
            doc="A segment file is closed and a new one begun at this age, counted from its first append.",
        ),
        TopicSetting(
            name="flush.messages",
            type=ConfigType.LONG,
            default=str(LARGEST_INT64),
            check=_whole(1, LARGEST_INT64),
            broker_name="log.flush.interval.messages",
            doc="The log is forced to disk after so many messages, or a second; consumers see what is on disk. Default: never. 1 "
            "says the same as flush.ack=always.",
        ),
        TopicSetting(
            name="flush.ms",
            type=ConfigType.LONG,
            default=str(LARGEST_INT64),
            check=_whole(0, LARGEST_INT64),
            broker_name="log.flush.interval.ms",
            doc="The log is forced to disk after this long; consumers see what is on disk. Default: not forced.",
        ),
        TopicSetting(
            name="flush.ack",
            type=ConfigType.STRING,
            default="none",
            check=_one_of("none", "interval", "always"),
            broker_name="log.flush.ack",
            doc="What an acknowledgement promises. always: the message is on disk and outlives a power cut; one flush serves all "
            "that wait. interval: it is in the log, which is on disk within flush.ms (a second where that is not set). none: it "
            "is in the log and outlives a killed broker, but the system writes it in its own time and a power cut may take the "
            "last half minute. With always and interval consumers see only what is on disk.",
        ),
        TopicSetting(
            name="max.message.bytes",
            type=ConfigType.INT,
            default=str(1_048_588),
            check=_whole(61, LARGEST_INT32),
            broker_name="message.max.bytes",
            doc="The largest record batch taken, its header and compression included.",
        ),
        TopicSetting(
            name="message.timestamp.type",
            type=ConfigType.STRING,
            default="CreateTime",
            check=_one_of("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
            doc="CreateTime: a record's timestamp is the one its producer gave. LogAppendTime: it is when the broker took its "
            "batch, and event times are lost: Headrace's audit counts by timestamp, so it does not fit audited topics. Not on "
            "mirrored topics, whose batches keep the times of their source.",
        ),
        TopicSetting(
            name="compression.type",
            type=ConfigType.STRING,
            default="producer",
            check=_one_of("producer", why=": the broker never decodes or re-encodes records"),
            doc="Only producer: batches stay compressed as their producer sent them.",
        ),
        TopicSetting(
            name="min.insync.replicas",
            type=ConfigType.INT,
            default="1",
            check=_one_of("1", why=": partitions have one replica"),
            doc="Only 1: how many replicas must have a message before it is acknowledged; partitions have one.",
        ),
        TopicSetting(
            name="unclean.leader.election.enable",
            type=ConfigType.BOOLEAN,
            default="false",
            check=_one_of("false", why=": a replica that lacks acknowledged messages never leads"),
            doc="Only false: a replica that lacks acknowledged messages never leads.",
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
            doc="The topic is a copy kept by a mirror: ordinary producers are refused, batches keep the offsets of their source.",
        ),
    )
}


_ONLY_COMPACTION = "it steers compaction, which is not offered: removing batches would break byte offsets"
_ONLY_REPLICAS = "it steers replication, and partitions have one replica"
_OLD_FORMAT = "it is about message formats before 2, which no client of today sends and this broker does not take"
_OWN_INDEX = "it is about Kafka's index files, and there are none: an offset is a position in the file"
_ONLY_TIERS = "it steers tiered storage, and all segments are on the broker's own disk"
_ANY_TIME = "a record's time is its event's own, and events of any age are taken: old ones are replayed every day"

REFUSED: Mapping[str, str] = {
    "min.cleanable.dirty.ratio": _ONLY_COMPACTION,
    "min.compaction.lag.ms": _ONLY_COMPACTION,
    "max.compaction.lag.ms": _ONLY_COMPACTION,
    "delete.retention.ms": _ONLY_COMPACTION,
    "leader.replication.throttled.replicas": _ONLY_REPLICAS,
    "follower.replication.throttled.replicas": _ONLY_REPLICAS,
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
    "file.delete.delay.ms": "a segment's file goes at once; whoever still reads it reads on",
    "compression.gzip.level": "the broker never encodes records, their producer does",
    "compression.lz4.level": "the broker never encodes records, their producer does",
    "compression.zstd.level": "the broker never encodes records, their producer does",
}
"""Kafka's topic settings that are not taken, whatever the value, and why."""


def faults_of(config: Mapping[str, str | None]) -> list[str]:
    """Return everything that is wrong with a topic's own settings, taken together, each fault naming its setting."""
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
    """Return a topic's own settings as they are kept, where `faults_of` finds nothing wrong with them."""
    return {name: TABLE[name].plain(value) if name in TABLE else value for name, value in config.items() if value is not None}


def conflicts_of(config: Mapping[str, str | None]) -> list[str]:
    """Return which of a topic's own settings, each sound by itself, cannot stand together."""
    if config.get("headrace.mirror") == "true" and config.get("message.timestamp.type") == "LogAppendTime":
        return [
            "message.timestamp.type: LogAppendTime with headrace.mirror=true: a mirrored topic is a copy byte for byte, times "
            "included. Set LogAppendTime on the topic it is copied from, or leave headrace.mirror away"
        ]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """A topic's settings in force, typed."""

    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    flush_messages: int | None
    """None: not forced by count."""
    flush_ms: int | None
    """None: not forced by time."""
    acks_on_disk: bool
    """Nothing is acknowledged before it is on disk."""
    max_message_bytes: int
    is_mirror: bool
    stamps_append_time: bool
    """Records get the time at which the broker takes their batch."""

    @property
    def shows_only_what_is_flushed(self) -> bool:
        return self.acks_on_disk or self.flush_messages is not None or self.flush_ms is not None


def values_in_force(own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, tuple[str, ConfigSource]]:
    """Return each setting's value and where it comes from: the topic, else the broker's settings, else the table.

    `defaults` holds what the broker's own settings change, by topic setting. Own values that the table refuses (written by a
    later release, or by hand) give way to the default. A mirrored topic is never stamped with a time, whatever else is said."""
    answer = {}
    for name, setting in TABLE.items():
        if (value := own.get(name)) is not None and setting.check(value) is None:
            answer[name] = (value, ConfigSource.TOPIC)
        elif (value := defaults.get(name)) is not None:
            answer[name] = (value, ConfigSource.STATIC_BROKER)
        else:
            answer[name] = (setting.default, ConfigSource.DEFAULT)
    if answer["headrace.mirror"][0] == "true":
        answer["message.timestamp.type"] = (TABLE["message.timestamp.type"].default, ConfigSource.DEFAULT)
    return answer


def settings_of(own: Mapping[str, str], defaults: Mapping[str, str]) -> TopicSettings:
    """Return the typed settings in force for a topic with these settings of its own."""
    values = {name: value for name, (value, _) in values_in_force(own, defaults).items()}

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
    )
