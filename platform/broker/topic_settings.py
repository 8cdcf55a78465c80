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


def _whole(lowest: int, highest: int) -> Check:
    def check(value: str) -> str | None:
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            return f"{value!r} is not a whole number"
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


_NO_COMPACTION = ": removing batches would break byte offsets, so compaction is not offered"

TABLE: Mapping[str, TopicSetting] = {
    setting.name: setting
    for setting in (
        TopicSetting(
            name="cleanup.policy",
            type=ConfigType.LIST,
            default="delete",
            check=_one_of("delete", why=_NO_COMPACTION),
            doc="Old segments are deleted whole, by time or size.",
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
            doc="The log is forced to disk after so many messages, or a second; consumers see what is on disk. Default: never.",
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
            check=_one_of("CreateTime", why=": a record's time is its event's, the broker never rewrites it"),
            doc="A record's timestamp is the one its producer gave.",
        ),
        TopicSetting(
            name="compression.type",
            type=ConfigType.STRING,
            default="producer",
            check=_one_of("producer", why=": the broker never decodes or re-encodes records"),
            doc="Batches stay compressed as their producer sent them.",
        ),
        TopicSetting(
            name="min.insync.replicas",
            type=ConfigType.INT,
            default="1",
            check=_one_of("1", why=": partitions have one replica"),
            doc="How many replicas must have a message before it is acknowledged.",
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


def faults_of(config: Mapping[str, str | None]) -> list[str]:
    """Return everything that is wrong with a topic's own settings, each fault naming its setting."""
    faults = []
    for name, value in config.items():
        setting = TABLE.get(name)
        if setting is None:
            faults.append(f"{name}: there is no such topic setting here (known: {', '.join(sorted(TABLE))})")
        elif value is None:
            faults.append(f"{name}: has no value")
        elif (fault := setting.check(value)) is not None:
            faults.append(f"{name}: {fault}")
    return faults


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
    max_message_bytes: int
    is_mirror: bool

    @property
    def shows_only_what_is_flushed(self) -> bool:
        return self.flush_messages is not None or self.flush_ms is not None


def values_in_force(own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, tuple[str, ConfigSource]]:
    """Return each setting's value and where it comes from: the topic, else the broker's settings, else the table.

    `defaults` holds what the broker's own settings change, by topic setting. Own values that the table refuses (written by a
    later release, or by hand) give way to the default."""
    answer = {}
    for name, setting in TABLE.items():
        if (value := own.get(name)) is not None and setting.check(value) is None:
            answer[name] = (value, ConfigSource.TOPIC)
        elif (value := defaults.get(name)) is not None:
            answer[name] = (value, ConfigSource.STATIC_BROKER)
        else:
            answer[name] = (setting.default, ConfigSource.DEFAULT)
    return answer


def settings_of(own: Mapping[str, str], defaults: Mapping[str, str]) -> TopicSettings:
    """Return the typed settings in force for a topic with these settings of its own."""
    values = {name: value for name, (value, _) in values_in_force(own, defaults).items()}

    def unless_largest(name: str) -> int | None:
        number = int(values[name])
        return None if number == LARGEST_INT64 else number

    return TopicSettings(
        retention_ms=int(values["retention.ms"]),
        retention_bytes=int(values["retention.bytes"]),
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=int(values["segment.ms"]),
        flush_messages=unless_largest("flush.messages"),
        flush_ms=unless_largest("flush.ms"),
        max_message_bytes=int(values["max.message.bytes"]),
        is_mirror=values["headrace.mirror"] == "true",
    )
