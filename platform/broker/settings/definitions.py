"""Defines the settings of the broker process: names, defaults, bounds, descriptions. Pure.

Where Kafka has the setting, it has Kafka's name. A setting that would have no effect is not accepted: `NOT_HERE` refuses Kafka's
common ones by name, with the reason."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...coordination import security
from . import principal_rules
from .listeners import DEFAULT_MAP, listener_parts, split
from .login_settings import (
    ALGORITHMS,
    DEFAULT_ALGORITHMS,
    DEFAULT_MECHANISMS,
    MECHANISMS,
    PLAIN,
    SCRAM,
    url_fault,
)
from .tls_settings import CLIENT_AUTH, VERSIONS
from .topic_settings import LARGEST_INT32

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """An integer setting."""

    default: int
    lowest: int
    highest: int
    field: str
    doc: str


def _number(field: str, default: int, lowest: int, highest: int = LARGEST_INT32, *, doc: str = "") -> Number:
    return Number(default=default, lowest=lowest, highest=highest, field=field, doc=doc)


NUMBERS: Mapping[str, Number] = {
    "num.partitions": _number(
        "num_partitions",
        3,
        1,
        10_000,
        doc="Partitions of a topic that is created on first use, or without a number of partitions.",
    ),
    "default.replication.factor": _number(
        "default_replication_factor",
        1,
        1,
        1_000,
        doc="Replicas of each partition of a topic that is created on first use, or without a replication factor.",
    ),
    "replica.lag.time.max.ms": _number(
        "replica_lag_time_max_ms",
        2_000,
        500,
        300_000,
        doc="A follower that its leader has not heard for this long is removed from the in-sync set, down to min.insync.replicas."
        " Until then acknowledgements wait for it.",
    ),
    "log.scrub.interval.ms": _number(
        "log_scrub_interval_ms",
        7 * 86_400_000,
        0,
        doc="Interval between two comparisons of all replicas that this broker leads, batch by batch (the scrub). 0: none.",
    ),
    "log.scrub.bytes.per.second": _number(
        "log_scrub_bytes_per_second",
        8 * _MIB,
        65_536,
        doc="Bytes a second that the scrub reads from each replica's disk, for all partitions that this broker leads together.",
    ),
    "socket.request.max.bytes": _number(
        "request_max_bytes", 100 * _MIB, 1_024, doc="Largest request in bytes. A larger one closes its connection."
    ),
    "queued.max.request.bytes": _number(
        "unfinished_requests_max_bytes",
        512 * _MIB,
        _MIB,
        1 << 40,
        doc="Memory for incomplete requests of all connections. Above it, the connection with the oldest one is closed.",
    ),
    "max.connections": _number(
        "max_connections", 10_000, 1, doc="Maximum number of open connections. Further ones are closed at once."
    ),
    "connections.max.reauth.ms": _number(
        "connections_max_reauth_ms",
        0,
        0,
        doc="A client must log in again within this time, else its connection is closed at its next request. A token's end"
        " counts, too. 0: a login holds as long as its connection.",
    ),
    "connection.failed.authentication.delay.ms": _number(
        "connection_failed_authentication_delay_ms",
        100,
        0,
        10_000,
        doc="How long a failed login waits for its response.",
    ),
    "sasl.oauthbearer.clock.skew.seconds": _number(
        "oauth_clock_skew_seconds", 30, 0, 600, doc="Tolerated difference to the clock of a token's issuer."
    ),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _number(
        "oauth_jwks_refresh_ms", 3_600_000, 1_000, doc="The keys of tokens are fetched again after this time."
    ),
    "connections.max.idle.ms": _number(
        "connections_max_idle_ms", 600_000, 100, doc="An idle connection is closed after this time."
    ),
    "request.read.timeout.ms": _number(
        "request_read_timeout_ms",
        60_000,
        100,
        doc="Maximum time from a request's first byte to its last. A slower one closes its connection.",
    ),
    "connection.output.max.bytes": _number(
        "output_max_bytes",
        4 * _MIB,
        1_024,
        doc="When a client leaves more than this many response bytes unread, the broker stops reading its requests.",
    ),
    "queued.max.response.bytes": _number(
        "unread_answers_max_bytes",
        512 * _MIB,
        65_536,
        1 << 40,
        doc="Memory for unread responses of all connections. Above it, the connection that holds most of it is closed.",
    ),
    "fetch.parked.partitions.max": _number(
        "parked_partitions_max",
        500_000,
        0,
        doc="Maximum number of partitions in all waiting fetches together, 0.4 KB each. Further fetches do not wait. The same"
        " number is the maximum of all fetch sessions together.",
    ),
    "max.incremental.fetch.session.cache.slots": _number(
        "fetch_session_slots",
        1_000,
        0,
        doc="Maximum number of fetch sessions. A client without one names all its partitions in each fetch. 0: none.",
    ),
    "fetch.max.bytes": _number("fetch_max_bytes", 55 * _MIB, 1_024, doc="Upper limit for the max_bytes of a Fetch request."),
    "fetch.max.wait.ms": _number("fetch_max_wait_ms", 300_000, 0, doc="Upper limit for the max_wait_ms of a Fetch request."),
    "zookeeper.session.timeout.ms": _number(
        "zookeeper_session_timeout_ms", 10_000, 1_000, 30_000, doc="ZooKeeper removes a broker that is silent for this long."
    ),
    "zookeeper.connection.timeout.ms": _number(
        "zookeeper_connection_timeout_ms", 20_000, 500, 300_000, doc="How long startup waits for ZooKeeper."
    ),
    "zookeeper.copy.interval.ms": _number(
        "zookeeper_copy_interval_ms",
        600_000,
        0,
        doc="Interval between copies of ZooKeeper's tree into the data folder while topics do not change. 0: none.",
    ),
    "log.retention.check.interval.ms": _number(
        "retention_check_interval_ms", 60_000, 50, doc="Interval between two searches for segments to delete."
    ),
    "topic.creation.wait.ms": _number(
        "topic_creation_wait_ms",
        2_000,
        0,
        30_000,
        doc="How long a Metadata request waits for a topic that it creates, and a new topic for the other brokers.",
    ),
    "shutdown.timeout.ms": _number(
        "shutdown_timeout_ms",
        8_000,
        100,
        600_000,
        doc="Time limit of a shutdown: answer requests, flush and close logs. After it, the process exits with code 3.",
    ),
    "group.initial.rebalance.delay.ms": _number(
        "group_initial_rebalance_delay_ms",
        500,
        0,
        300_000,
        doc="How long the first rebalance of an empty group waits for members. It waits again if some joined. Kafka: 3000.",
    ),
    "group.min.session.timeout.ms": _number(
        "group_min_session_timeout_ms", 6_000, 1, doc="Smallest session.timeout.ms that a group member may request."
    ),
    "group.max.session.timeout.ms": _number(
        "group_max_session_timeout_ms", 1_800_000, 1, doc="Largest session.timeout.ms that a group member may request."
    ),
    "group.max.size": _number("group_max_size", 1_000, 1, 100_000, doc="Maximum number of members of one group."),
    "groups.max": _number("groups_max", 10_000, 1, 1_000_000, doc="Maximum number of groups that have members."),
    "groups.max.bytes": _number(
        "groups_max_bytes",
        64 * _MIB,
        65_536,
        1 << 40,
        doc="Memory for the metadata and assignments of the members of all groups.",
    ),
    "offset.metadata.max.bytes": _number(
        "offset_metadata_max_bytes", 4_096, 0, 65_536, doc="Maximum length of the metadata text in an offset commit."
    ),
    "offsets.retention.minutes": _number(
        "offsets_retention_minutes",
        7 * 24 * 60,
        1,
        doc="How long committed offsets are kept after the last member left the group; without members, after the last commit.",
    ),
    "offsets.retention.check.interval.ms": _number(
        "offsets_retention_check_interval_ms", 600_000, 50, doc="Interval between two searches for expired committed offsets."
    ),
    "metrics.partitions.max": _number(
        "metrics_partitions_max",
        1_000,
        0,
        100_000,
        doc="Up to this many partitions, each has metrics. Above it, metrics are per topic, for at most this many topics.",
    ),
}
"""The integer settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A setting that is not an integer."""

    default: str | None
    """None: no default; `log.dirs` is required, the others are optional."""
    check: Callable[[str], str | None]
    doc: str
    is_secret: bool = False
    """Whether it is shown as `***`."""


def _one_of(*values: str) -> Callable[[str], str | None]:
    return lambda value: None if value in values else f"{value!r} is neither {' nor '.join(values)}"


def host_fault(value: str) -> str | None:
    """Return the fault of a host name or address, or None."""
    return None if value and not any(mark in value for mark in "/ ,") else f"{value!r} is not a host name or address"


def _port(lowest: int) -> Callable[[str], str | None]:
    return lambda value: (
        None
        if value.isascii() and value.isdigit() and len(value) <= 5 and lowest <= int(value) <= 65_535
        else f"{value} is not from {lowest} to 65535"
    )


def _listeners(value: str) -> str | None:
    if not split(value):
        return "no listener is named: give NAME://HOST:PORT"
    for one in split(value):
        name, host, port = listener_parts(one)
        if not name:
            return f"{one!r} is not NAME://HOST:PORT"
        if (fault := (host_fault(host) if host else None) or _port(0)(port)) is not None:
            return f"{one!r}: {fault}"
    return None


def _subset_of(*values: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        strange = [one for one in split(value) if one not in values]
        if strange or not split(value):
            return f"{value!r} is not a list of {' and '.join(values)}"
        return None

    return check


def _pem(value: str) -> str | None:
    return None if value == "PEM" else f"{value!r} is not served: convert the store to PEM (openssl pkcs12 -in … -nodes -out …)"


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


def _file(value: str) -> str | None:
    return None if value else "no file is named"


AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""Kafka's names for what decides by access rules. Here all mean the same one."""


def _principals(value: str) -> str | None:
    strange = [one for one in principals(value) if not re.fullmatch(r"[^:]+:.+", one)]
    return f"{strange[0]!r} is not TYPE:NAME, such as User:admin" if strange else None


def principals(value: str) -> tuple[str, ...]:
    """Return the principals of a list that semicolons separate."""
    return tuple(one.strip() for one in value.split(";") if one.strip())


WORDS: Mapping[str, Word] = {
    "broker.id": Word(default="1", check=_broker_id, doc="Id of this broker in its cluster."),
    "log.dirs": Word(default=None, check=_folder, doc="Data folder: exactly one, used by this broker only."),
    "zookeeper.connect": Word(
        default="127.0.0.1:2181", check=_zookeeper, doc="Address of ZooKeeper: HOST:PORT[,HOST:PORT...][/CHROOT]."
    ),
    security.ENABLE: Word(
        default="false", check=_one_of("true", "false"), doc="Whether ZooKeeper is reached over TLS (its secureClientPort)."
    ),
    security.KEYSTORE: Word(
        default=None, check=_file, doc="PEM file with the key and certificate by whose name ZooKeeper knows this broker."
    ),
    "zookeeper.ssl.keystore.type": Word(default="PEM", check=_pem, doc="PEM."),
    security.KEY_PASSWORD: Word(default=None, check=lambda _: None, doc="Password of that key.", is_secret=True),
    security.TRUSTSTORE: Word(default=None, check=_file, doc="PEM file with the CAs that sign ZooKeeper's certificates."),
    "zookeeper.ssl.truststore.type": Word(default="PEM", check=_pem, doc="PEM."),
    security.HOST_NAMES: Word(
        default="https",
        check=_one_of("https", ""),
        doc="https: ZooKeeper's certificate must name the host that it is reached at. Empty: not checked.",
    ),
    security.SET_ACL: Word(
        default="false",
        check=_one_of("true", "false"),
        doc="Whether only brokers, and each role its own, may change the nodes that are made in ZooKeeper (docs/RIGHTS.md).",
    ),
    security.IDENTITIES: Word(
        default=None,
        check=lambda _: None,
        doc="The names in certificates by role, separated by semicolons: broker:CN=b;reader:CN=shop. Not set: CN=headrace-ROLE.",
    ),
    "listeners": Word(
        default="PLAINTEXT://127.0.0.1:9092",
        check=_listeners,
        doc="Addresses to listen on: NAME://HOST:PORT[,...]. SSL and SASL_SSL have TLS, SASL_SSL and SASL_PLAINTEXT a login."
        " Port 0: any free port.",
    ),
    "advertised.listeners": Word(
        default=None,
        check=_listeners,
        doc="Addresses that clients and other brokers connect to, by listener, where they differ from those listened on.",
    ),
    "listener.security.protocol.map": Word(
        default=DEFAULT_MAP,
        check=lambda _: None,
        doc="The protocol of each listener's name: NAME:PROTOCOL. PLAINTEXT, SSL, SASL_SSL or SASL_PLAINTEXT.",
    ),
    "inter.broker.listener.name": Word(
        default=None, check=lambda _: None, doc="The listener that other brokers connect to. Not set: the first."
    ),
    "ssl.keystore.location": Word(
        default=None,
        check=_file,
        doc="PEM file with this broker's private key and certificate chain. Read again within a second after it has changed.",
    ),
    "ssl.keystore.type": Word(default="PEM", check=_pem, doc="PEM."),
    "ssl.key.password": Word(default=None, check=lambda _: None, doc="Password of the private key.", is_secret=True),
    "ssl.truststore.location": Word(
        default=None, check=_file, doc="PEM file with the CAs that sign the certificates of clients and other brokers."
    ),
    "ssl.truststore.type": Word(default="PEM", check=_pem, doc="PEM."),
    "ssl.client.auth": Word(
        default="none", check=_one_of(*CLIENT_AUTH), doc="Whether a client must show a certificate: none, requested or required."
    ),
    "ssl.enabled.protocols": Word(default=",".join(VERSIONS), check=_subset_of(*VERSIONS), doc="TLS versions."),
    "ssl.endpoint.identification.algorithm": Word(
        default="https",
        check=_one_of("https", ""),
        doc="https: the certificate of another broker must name the host that it is reached at. Empty: not checked.",
    ),
    "ssl.principal.mapping.rules": Word(
        default="DEFAULT",
        check=principal_rules.fault_of,
        doc="How a client's certificate gives its principal: RULE:pattern/replacement/[LU], DEFAULT. First match counts.",
    ),
    "sasl.enabled.mechanisms": Word(
        default=DEFAULT_MECHANISMS,
        check=_subset_of(*MECHANISMS),
        doc="What clients may log in with. listener.name.NAME.sasl.enabled.mechanisms is for one listener.",
    ),
    "sasl.mechanism.inter.broker.protocol": Word(
        default=SCRAM[-1], check=_one_of(*SCRAM, PLAIN), doc="What this broker logs in to other brokers with."
    ),
    "sasl.inter.broker.username": Word(
        default=None, check=lambda _: None, doc="The user as whom this broker logs in to other brokers."
    ),
    "sasl.inter.broker.password": Word(default=None, check=lambda _: None, doc="That user's password.", is_secret=True),
    "sasl.oauthbearer.jwks.endpoint.url": Word(
        default=None, check=url_fault, doc="Address of the keys (JWKS) that sign tokens. Redirects are not followed."
    ),
    "sasl.oauthbearer.jwks.ca.location": Word(
        default=None, check=_file, doc="PEM file with the CAs of that address. Not set: the system's."
    ),
    "sasl.oauthbearer.expected.issuer": Word(default=None, check=lambda _: None, doc="The claim iss of each token is this text."),
    "sasl.oauthbearer.expected.audience": Word(
        default=None, check=lambda _: None, doc="The claim aud of each token is or has this text."
    ),
    "sasl.oauthbearer.algorithms": Word(
        default=DEFAULT_ALGORITHMS, check=_subset_of(*ALGORITHMS), doc="How tokens may be signed."
    ),
    "http.host": Word(default="127.0.0.1", check=host_fault, doc="Address of /metrics, /healthz and /readyz."),
    "http.token.file": Word(
        default=None,
        check=_file,
        doc="Its first line is wanted as bearer token of /metrics. Needed where http.host is not the loopback.",
    ),
    "http.port": Word(
        default=None, check=_port(0), doc="Port of /metrics, /healthz and /readyz. 0: any free port. Not set: not served."
    ),
    "listeners.insecure.allowed": Word(
        default="false",
        check=_one_of("true", "false"),
        doc="Let other machines reach a listener without TLS, or without login: they can read, write and delete everything.",
    ),
    "authorizer.class.name": Word(
        default=None,
        check=_one_of(*AUTHORIZERS),
        doc="The name of Kafka's authorizer turns the access rules (ACLs) on. Not set: every client may do everything.",
    ),
    "super.users": Word(
        default=None,
        check=_principals,
        doc="Principals that may do everything, separated by semicolons: User:admin;User:broker.",
    ),
    "allow.everyone.if.no.acl.found": Word(
        default="false",
        check=_one_of("true", "false"),
        doc="Whether everyone may use a resource that no access rule is about.",
    ),
    "auto.create.topics.enable": Word(
        default="true", check=_one_of("true", "false"), doc="Whether a topic is created when a client first asks for it."
    ),
    "logging.level": Word(
        default="INFO", check=_one_of("DEBUG", "INFO", "WARNING", "ERROR"), doc="Lowest level of events that the broker logs."
    ),
    "logging.format": Word(
        default="json",
        check=_one_of("json", "text"),
        doc="Format of the broker's log: json (one object per line) or text (one plain line per event).",
    ),
}
"""The settings that are not integers."""

SYNONYMS: Mapping[str, tuple[str, int | None]] = {
    "log.dir": ("log.dirs", None),
    "node.id": ("broker.id", None),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}
"""Kafka's alternative names: the name here, and the milliseconds in one unit of the alternative."""

NOT_HERE: Mapping[str, str] = {
    "process.roles": "brokers meet in ZooKeeper, there is no KRaft",
    "controller.quorum.voters": "brokers meet in ZooKeeper, there is no KRaft",
    "controller.quorum.bootstrap.servers": "brokers meet in ZooKeeper, there is no KRaft",
    "controller.listener.names": "brokers meet in ZooKeeper, there is no KRaft",
    "security.inter.broker.protocol": "inter.broker.listener.name names the listener",
    "zookeeper.clientCnxnSocket": "it is a class of ZooKeeper's client in Java",
    "zookeeper.ssl.truststore.password": "a PEM file has none",
    "ssl.keystore.password": "a PEM file has none; the key's is ssl.key.password",
    "ssl.truststore.password": "a PEM file has none",
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
}
"""Settings that are common in Kafka's server.properties and have no effect here, with the reason."""
