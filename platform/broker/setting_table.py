"""Which settings a broker has beside its topics' defaults: names, defaults, bounds, what they mean. Pure.

Names are Kafka's where Kafka has the setting, ours elsewhere. A setting that is taken and then ignored would be a promise nobody
keeps: Kafka's others are refused by name, with the reason where people are likely to bring them along."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .topic_settings import LARGEST_INT32

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A setting that is a whole number."""

    default: int
    lowest: int
    highest: int
    field: str
    doc: str


def _number(field: str, default: int, lowest: int, highest: int = LARGEST_INT32, *, doc: str = "") -> Number:
    return Number(default=default, lowest=lowest, highest=highest, field=field, doc=doc)


NUMBERS: Mapping[str, Number] = {
    "num.partitions": _number(
        "num_partitions", 3, 1, 10_000, doc="Partitions of topics made on first use, or asked for without a number."
    ),
    "socket.request.max.bytes": _number(
        "request_max_bytes", 100 * _MIB, 1_024, doc="The longest request taken; a longer one closes its connection."
    ),
    "queued.max.request.bytes": _number(
        "unfinished_requests_max_bytes",
        512 * _MIB,
        _MIB,
        1 << 40,
        doc="Memory for requests that are still arriving, all together; beyond it the one that waits longest is closed.",
    ),
    "max.connections": _number("max_connections", 10_000, 1, doc="Connections open at once; more are closed when accepted."),
    "connections.max.idle.ms": _number("connections_max_idle_ms", 600_000, 100, doc="A connection silent this long is closed."),
    "request.read.timeout.ms": _number(
        "request_read_timeout_ms", 60_000, 100, doc="How long a request may take to arrive once its first bytes have."
    ),
    "connection.output.max.bytes": _number(
        "output_max_bytes",
        4 * _MIB,
        1_024,
        doc="Answers that a connection may leave unread before its requests are no longer read.",
    ),
    "queued.max.response.bytes": _number(
        "unread_answers_max_bytes",
        512 * _MIB,
        65_536,
        1 << 40,
        doc="Memory for answers that clients leave unread, all together; beyond it the connection that holds most is closed.",
    ),
    "fetch.parked.partitions.max": _number(
        "parked_partitions_max",
        500_000,
        0,
        doc="Partitions that all waiting fetches together may wait at, 0.4 KB each; a fetch beyond is answered at once.",
    ),
    "fetch.max.bytes": _number("fetch_max_bytes", 55 * _MIB, 1_024, doc="The most one fetch is answered with, whatever it asks."),
    "fetch.max.wait.ms": _number("fetch_max_wait_ms", 300_000, 0, doc="The longest one fetch is parked, whatever it asks."),
    "zookeeper.session.timeout.ms": _number(
        "zookeeper_session_timeout_ms", 10_000, 1_000, 30_000, doc="Silence after which ZooKeeper takes this broker for gone."
    ),
    "zookeeper.connection.timeout.ms": _number(
        "zookeeper_connection_timeout_ms", 20_000, 500, 300_000, doc="How long a start waits for ZooKeeper."
    ),
    "log.retention.check.interval.ms": _number(
        "retention_check_interval_ms", 60_000, 50, doc="How often logs are looked through for segments to delete."
    ),
    "topic.creation.wait.ms": _number(
        "topic_creation_wait_ms", 2_000, 0, 30_000, doc="How long Metadata waits for a topic that it has caused to be made."
    ),
    "shutdown.timeout.ms": _number(
        "shutdown_timeout_ms",
        8_000,
        100,
        600_000,
        doc="How long a stop may take: requests under way answered, logs flushed, all closed. Then the process ends as it is.",
    ),
    "group.initial.rebalance.delay.ms": _number(
        "group_initial_rebalance_delay_ms",
        500,
        0,
        300_000,
        doc="How long an empty group waits for more members after its first, and after each further one. Kafka's: 3000.",
    ),
    "group.min.session.timeout.ms": _number(
        "group_min_session_timeout_ms", 6_000, 1, doc="The shortest session.timeout.ms that members of a group may ask for."
    ),
    "group.max.session.timeout.ms": _number(
        "group_max_session_timeout_ms", 1_800_000, 1, doc="The longest session.timeout.ms that members of a group may ask for."
    ),
    "group.max.size": _number("group_max_size", 1_000, 1, 100_000, doc="Members that one group may have."),
    "groups.max": _number("groups_max", 10_000, 1, 1_000_000, doc="Groups that may have members at once."),
    "groups.max.bytes": _number(
        "groups_max_bytes",
        64 * _MIB,
        65_536,
        1 << 40,
        doc="Memory for what members of all groups say and are told.",
    ),
    "offset.metadata.max.bytes": _number(
        "offset_metadata_max_bytes", 4_096, 0, 65_536, doc="The longest text that a consumer may keep beside a committed offset."
    ),
    "offsets.retention.minutes": _number(
        "offsets_retention_minutes",
        7 * 24 * 60,
        1,
        doc="How long committed offsets stay after their group lost its last member; without members, after the last commit.",
    ),
    "offsets.retention.check.interval.ms": _number(
        "offsets_retention_check_interval_ms", 600_000, 50, doc="How often committed offsets are looked through for expired ones."
    ),
    "metrics.partitions.max": _number(
        "metrics_partitions_max",
        1_000,
        0,
        100_000,
        doc="Up to so many partitions each has metrics of its own; beyond, only their topics have, and of topics so many.",
    ),
}
"""Settings of the process that are whole numbers. Those without a Kafka name of their own have ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A setting that is not a number."""

    default: str | None
    """None: has to be given, or stays away."""
    check: Callable[[str], str | None]
    doc: str


def _one_of(*values: str) -> Callable[[str], str | None]:
    return lambda value: None if value in values else f"{value!r} is neither {' nor '.join(values)}"


def host_fault(value: str) -> str | None:
    """Return what is wrong with a host, or None."""
    return None if value and not any(mark in value for mark in "/ ,") else f"{value!r} is not a host name or address"


def _port(lowest: int) -> Callable[[str], str | None]:
    return lambda value: (
        None
        if value.isascii() and value.isdigit() and len(value) <= 5 and lowest <= int(value) <= 65_535
        else f"{value} is not from {lowest} to 65535"
    )


def listener_parts(value: str) -> tuple[str, str, str]:
    """Return protocol, host and port of `PROTOCOL://HOST:PORT`, or of `HOST:PORT`."""
    protocol, mark, address = value.partition("://")
    if not mark:
        protocol, address = "PLAINTEXT", value
    host, _, port = address.rpartition(":")
    return protocol.upper(), host.strip("[]"), port


def _listener(value: str) -> str | None:
    protocol, host, port = listener_parts(value)
    if protocol != "PLAINTEXT":
        return f"{value!r} is not one PLAINTEXT://HOST:PORT: one listener is served, without TLS or SASL"
    return (host_fault(host) if host else None) or _port(0)(port)


def _broker_id(value: str) -> str | None:
    if value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= LARGEST_INT32:
        return None
    return f"{value} is not from 0 to {LARGEST_INT32}"


def _zookeeper(value: str) -> str | None:
    return None if value.split("/")[0].strip(",") else f"{value!r} names no host:port"


def _folder(value: str) -> str | None:
    if not value:
        return "no folder is named"
    return f"{value!r}: a broker has one folder" if "," in value else None


WORDS: Mapping[str, Word] = {
    "broker.id": Word(default="1", check=_broker_id, doc="This broker's number in its cluster."),
    "log.dirs": Word(default=None, check=_folder, doc="The folder of the logs; one, and this broker's only."),
    "zookeeper.connect": Word(
        default="127.0.0.1:2181", check=_zookeeper, doc="Where ZooKeeper is: HOST:PORT[,HOST:PORT...][/CHROOT]."
    ),
    "listeners": Word(
        default="PLAINTEXT://127.0.0.1:9092", check=_listener, doc="Address listened on; port 0 means any free one."
    ),
    "advertised.listeners": Word(
        default=None, check=_listener, doc="Address told to clients and other brokers, where it is not the one listened on."
    ),
    "http.host": Word(default="127.0.0.1", check=host_fault, doc="Address that /metrics, /healthz and /readyz are served on."),
    "http.port": Word(default=None, check=_port(0), doc="Port of /metrics, /healthz and /readyz; 0 means any free one."),
    "auto.create.topics.enable": Word(
        default="true", check=_one_of("true", "false"), doc="Whether a topic is made when a client first asks for it."
    ),
    "logging.level": Word(
        default="INFO", check=_one_of("DEBUG", "INFO", "WARNING", "ERROR"), doc="The least level that the broker's own log shows."
    ),
    "logging.format": Word(
        default="json", check=_one_of("json", "text"), doc="How the broker's own log is written: an object or a sentence a line."
    ),
}
"""Settings of the process that are not numbers."""

SYNONYMS: Mapping[str, tuple[str, int | None]] = {
    "log.dir": ("log.dirs", None),
    "node.id": ("broker.id", None),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}
"""Kafka's other names for the same, with the milliseconds in their unit."""

NOT_HERE: Mapping[str, str] = {
    "process.roles": "brokers meet in ZooKeeper, there is no KRaft",
    "controller.quorum.voters": "brokers meet in ZooKeeper, there is no KRaft",
    "controller.quorum.bootstrap.servers": "brokers meet in ZooKeeper, there is no KRaft",
    "controller.listener.names": "brokers meet in ZooKeeper, there is no KRaft",
    "inter.broker.listener.name": "there is one listener",
    "listener.security.protocol.map": "there is one listener, without TLS or SASL",
    "num.network.threads": "one loop serves all connections",
    "num.io.threads": "one loop serves all connections",
    "num.recovery.threads.per.data.dir": "logs are opened one after the other",
    "socket.send.buffer.bytes": "the system sizes socket buffers itself",
    "socket.receive.buffer.bytes": "the system sizes socket buffers itself",
    "offsets.topic.replication.factor": "consumers' offsets are kept in ZooKeeper",
    "offsets.topic.num.partitions": "consumers' offsets are kept in ZooKeeper",
    "share.coordinator.state.topic.replication.factor": "share groups are not served",
    "share.coordinator.state.topic.min.isr": "share groups are not served",
    "transaction.state.log.replication.factor": "transactions are not served",
    "transaction.state.log.min.isr": "transactions are not served",
    "log.cleaner.enable": "there is no compaction",
    "default.replication.factor": "partitions have one replica",
}
"""Settings of Kafka's own server.properties that people bring along, and why they mean nothing here."""
