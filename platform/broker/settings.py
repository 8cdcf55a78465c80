"""A broker's settings: one frozen value, from flags and environment, checked at the start with every fault named at once.

Settings that Kafka has carry Kafka's names. A flag (`--set name=value`) goes before the environment (`HEADRACE_BROKER_NAME`,
dots as underscores), the environment before the default. Knows nothing of files or ZooKeeper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import topic_settings
from .errors import SettingsRefused

ENVIRONMENT_PREFIX = "HEADRACE_BROKER_"

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    default: int
    lowest: int
    highest: int
    field: str


def _number(field: str, default: int, lowest: int, highest: int = topic_settings.LARGEST_INT32) -> _Number:
    return _Number(default=default, lowest=lowest, highest=highest, field=field)


NUMBERS: Mapping[str, _Number] = {
    "num.partitions": _number("num_partitions", 3, 1, 10_000),
    "socket.request.max.bytes": _number("request_max_bytes", 100 * _MIB, 1_024),
    "queued.max.request.bytes": _number("unfinished_requests_max_bytes", 512 * _MIB, _MIB, 1 << 40),
    "max.connections": _number("max_connections", 10_000, 1),
    "connections.max.idle.ms": _number("connections_max_idle_ms", 600_000, 100),
    "request.read.timeout.ms": _number("request_read_timeout_ms", 60_000, 100),
    "connection.output.max.bytes": _number("output_max_bytes", 4 * _MIB, 1_024),
    "fetch.max.bytes": _number("fetch_max_bytes", 55 * _MIB, 1_024),
    "fetch.max.wait.ms": _number("fetch_max_wait_ms", 300_000, 0),
    "zookeeper.session.timeout.ms": _number("zookeeper_session_timeout_ms", 10_000, 1_000, 30_000),
    "zookeeper.connection.timeout.ms": _number("zookeeper_connection_timeout_ms", 20_000, 500, 300_000),
    "log.retention.check.interval.ms": _number("retention_check_interval_ms", 60_000, 50),
    "topic.creation.wait.ms": _number("topic_creation_wait_ms", 2_000, 0, 30_000),
}
"""Settings of the process that are whole numbers. Those without a Kafka name of their own have ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Everything one broker is told."""

    data: Path
    """Folder of the logs; one broker's only."""
    zookeeper: str
    """`host:port[,host:port][/chroot]`."""
    host: str = "127.0.0.1"
    """Address listened on."""
    advertised_host: str = "127.0.0.1"
    """Address told to clients and other brokers: the one listened on, unless that means 'all of them'."""
    port: int = 9092
    """0 lets the system choose; the status file tells which."""
    broker_id: int = 1
    status_file: Path | None = None
    auto_create_topics: bool = True
    """`auto.create.topics.enable`: a topic is made on first use."""
    num_partitions: int
    """Of topics made on first use, or asked for without a number."""
    request_max_bytes: int
    """Longest frame taken; a longer one closes its connection."""
    unfinished_requests_max_bytes: int
    """Of all requests still being received together; beyond it the connection that waits longest is closed."""
    max_connections: int
    connections_max_idle_ms: int
    request_read_timeout_ms: int
    """How long a request may take to arrive once begun: a slow sender cannot hold memory for ever."""
    output_max_bytes: int
    """Answers a connection may leave unread before its requests are no longer read."""
    fetch_max_bytes: int
    """The most one fetch is answered with, whatever it asks."""
    fetch_max_wait_ms: int
    """The longest one fetch is parked, whatever it asks."""
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    """How long a start waits for ZooKeeper."""
    retention_check_interval_ms: int
    topic_creation_wait_ms: int
    """How long a Metadata answer waits for a topic that it has caused to be made."""
    topic_defaults: Mapping[str, str]
    """Topic settings whose default this broker changes, by topic setting name."""


def from_words(
    *,
    data: Path,
    zookeeper: str,
    host: str = "127.0.0.1",
    port: int = 9092,
    advertised_host: str | None = None,
    broker_id: int = 1,
    status_file: Path | None = None,
    words: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Return the settings that flags, `--set` words (`name=value`) and environment give.

    Raises: SettingsRefused with every fault.
    """
    faults: list[str] = []
    if not 0 <= port <= 65_535:
        faults.append(f"--port {port} is not from 0 to 65535")
    if not 0 <= broker_id <= topic_settings.LARGEST_INT32:
        faults.append(f"--id {broker_id} is not from 0 to {topic_settings.LARGEST_INT32}")
    if not host:
        faults.append("--host is empty")
    if advertised_host is None and host in ("0.0.0.0", "::"):
        faults.append(f"--host {host} means every address of this machine: say with --advertised-host where clients find it")
    if not zookeeper.split("/")[0]:
        faults.append(f"--zookeeper {zookeeper!r} names no host:port")
    named = _from_environment(environment or {}, faults) | _from_flags(words, faults)
    numbers = {number.field: _whole_number(name, named.pop(name, None), number, faults) for name, number in NUMBERS.items()}
    auto_create = _switch("auto.create.topics.enable", named.pop("auto.create.topics.enable", "true"), faults)
    topic_defaults = _topic_defaults(named, faults)
    faults.extend(f"{name}: there is no such setting (known: {', '.join(known_names())})" for name in named)
    if faults:
        raise SettingsRefused(faults)
    return BrokerSettings(
        data=data,
        zookeeper=zookeeper,
        host=host,
        advertised_host=advertised_host or host,
        port=port,
        broker_id=broker_id,
        status_file=status_file,
        auto_create_topics=auto_create,
        topic_defaults=topic_defaults,
        **numbers,
    )


def known_names() -> list[str]:
    """Return every name that `--set` takes, sorted."""
    return sorted([*NUMBERS, "auto.create.topics.enable", *_topic_settings_by_broker_name()])


def _topic_settings_by_broker_name() -> dict[str, topic_settings.TopicSetting]:
    return {setting.broker_name: setting for setting in topic_settings.TABLE.values() if setting.broker_name is not None}


def _from_flags(words: Sequence[str], faults: list[str]) -> dict[str, str]:
    named = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            faults.append(f"--set {word!r} is not name=value")
        else:
            named[name.strip()] = value.strip()
    return named


def _from_environment(environment: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    by_variable = {ENVIRONMENT_PREFIX + name.upper().replace(".", "_"): name for name in known_names()}
    named = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in by_variable:
            named[by_variable[variable]] = value.strip()
        else:
            faults.append(f"{variable} in the environment names no setting")
    return named


def _whole_number(name: str, value: str | None, number: _Number, faults: list[str]) -> int:
    if value is None:
        return number.default
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        faults.append(f"{name}: {value!r} is not a whole number")
    elif not number.lowest <= int(value) <= number.highest:
        faults.append(f"{name}: {value} is not from {number.lowest} to {number.highest}")
    else:
        return int(value)
    return number.default


def _switch(name: str, value: str, faults: list[str]) -> bool:
    if value not in ("true", "false"):
        faults.append(f"{name}: {value!r} is neither true nor false")
    return value == "true"


def _topic_defaults(named: dict[str, str], faults: list[str]) -> dict[str, str]:
    defaults = {}
    for broker_name, setting in _topic_settings_by_broker_name().items():
        value = named.pop(broker_name, None)
        if value is None:
            continue
        if (fault := setting.check(value)) is not None:
            faults.append(f"{broker_name}: {fault}")
        defaults[setting.name] = value
    return defaults
