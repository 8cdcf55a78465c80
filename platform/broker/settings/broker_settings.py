"""A broker's settings: one frozen value, made at the start from flags, environment, a file and defaults. All faults are reported
together.

Settings that Kafka has carry Kafka's names. A flag overrides the environment, the environment the file, the file the default.
`sources` parses each of them. Knows nothing of ZooKeeper and opens no file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...coordination.security import ZooKeeperSecurity, security_of
from ...runtime.http_access import is_loopback
from ..errors import SettingsRefused
from . import listener_settings, sources, topic_settings
from .definitions import AUTHORIZERS, NOT_HERE, NUMBERS, SYNONYMS, WORDS, Number, Word, host_fault, principals
from .listeners import ALL_ADDRESSES, Listener, listener_parts, listeners_of, split
from .login_settings import LoginSettings, login_settings
from .sources import ENVIRONMENT_PREFIX, Given
from .tls_settings import TlsSettings, tls_settings

MOST_DIGITS = 19
"""Digits of a 64-bit integer. Python refuses to parse thousands of digits, with an error of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """A setting in force, as `headrace broker config` prints it."""

    name: str
    value: str
    """Empty where it was not given and has no default."""
    default: str
    source: str
    """Where the value was given, else `default`."""
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """All settings of one broker. `NUMBERS` describes the numbers."""

    data: Path
    """Folder of the logs, used by this broker only."""
    zookeeper: str
    """`host:port[,host:port][/chroot]`."""
    zookeeper_security: ZooKeeperSecurity | None = None
    """None: what the environment names (`HEADRACE_ZOOKEEPER_CONFIG`), else in the clear."""
    listeners: Sequence[Listener]
    inter_broker_listener: str
    """The name of the listener that other brokers connect to."""
    tls: Mapping[str, TlsSettings] = field(default_factory=dict)
    """By the listener's name, of those that have TLS."""
    logins: LoginSettings | None = None
    """None: no listener has a login."""
    broker_id: int = 1
    status_file: Path | None = None
    http_host: str = "127.0.0.1"
    http_token_file: Path | None = None
    http_port: int | None = None
    """None: metrics and health are not served. 0: the system chooses; the status file has the port."""
    auto_create_topics: bool = True
    """`auto.create.topics.enable`: a topic is created on first use."""
    has_access_rules: bool = False
    """`authorizer.class.name`: clients need rights."""
    super_users: tuple[str, ...] = ()
    allow_everyone_if_no_rule: bool = False
    logging_level: str = "INFO"
    logging_format: str = "json"
    num_partitions: int
    default_replication_factor: int = 1
    replica_lag_time_max_ms: int = 2_000
    log_scrub_interval_ms: int = 604_800_000
    log_scrub_bytes_per_second: int = 8 << 20
    request_max_bytes: int
    unfinished_requests_max_bytes: int
    max_connections: int
    connections_max_idle_ms: int
    connections_max_reauth_ms: int = 0
    connection_failed_authentication_delay_ms: int = 100
    oauth_clock_skew_seconds: int = 30
    oauth_jwks_refresh_ms: int = 3_600_000
    request_read_timeout_ms: int
    output_max_bytes: int
    unread_answers_max_bytes: int
    parked_partitions_max: int
    fetch_session_slots: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    retention_check_interval_ms: int
    topic_creation_wait_ms: int
    shutdown_timeout_ms: int = 8_000
    zookeeper_copy_interval_ms: int = 600_000
    metrics_partitions_max: int = 1_000
    group_initial_rebalance_delay_ms: int = 500
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 1_000
    groups_max: int = 10_000
    groups_max_bytes: int = 64 << 20
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    topic_defaults: Mapping[str, str]
    """Defaults of topic settings that this broker changes, by the topic setting's name."""
    effective: Sequence[Effective] = ()
    """Every setting with its source, by name."""


def from_words(
    *,
    data: Path | None = None,
    zookeeper: str | None = None,
    host: str | None = None,
    port: int | None = None,
    advertised_host: str | None = None,
    broker_id: int | None = None,
    http_port: int | None = None,
    status_file: Path | None = None,
    words: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    files: Sequence[tuple[str, str]] = (),
    defaults: Mapping[str, Given] | None = None,
) -> BrokerSettings:
    """Return the settings from flags, `--set` words (`name=value`), environment and file.

    `files`: text and name of each configuration file; a later one counts before an earlier one. `defaults` overrides the table's
    defaults.

    Raises: SettingsRefused with every fault.
    """
    faults: list[str] = []
    given = dict(defaults or {})
    for file in files:
        given |= _under_one_name(sources.from_file(*file, faults), faults)
    given |= sources.from_environment(environment or {}, known_names(), faults)
    given |= _under_one_name(sources.from_words(words, faults), faults)
    flags = {"--data": ("log.dirs", data), "--zookeeper": ("zookeeper.connect", zookeeper), "--id": ("broker.id", broker_id)}
    flags["--http-port"] = ("http.port", http_port)
    given |= {name: Given(str(value), flag) for flag, (name, value) in flags.items() if value is not None}
    given_to_listeners = {name: given.pop(name) for name in list(given) if listener_settings.is_of_listener(name)}
    known = known_names()
    faults.extend(_unknown(name, one, known) for name, one in given.items() if name not in known)
    values = {name: _word(name, given.get(name), word, faults) for name, word in WORDS.items()}
    _take_flags(host, port, advertised_host, values, given, faults)
    listeners, between = listeners_of(
        listeners=values["listeners"] or "",
        advertised=values["advertised.listeners"],
        protocol_map=values["listener.security.protocol.map"] or "",
        inter_broker=values["inter.broker.listener.name"],
        faults=faults,
    )
    of_listeners = _of_listeners(given_to_listeners, listeners, faults)
    tls = tls_settings(values, of_listeners, listeners, faults)
    _check_reach(listeners, tls, values, faults)
    zookeeper_security = security_of(values, "the broker's settings", faults=faults)
    if values["super.users"] is not None and values["authorizer.class.name"] is None:
        faults.append(
            f"super.users: without access rules every client may do everything: give authorizer.class.name={AUTHORIZERS[0]}"
        )
    if values["log.dirs"] is None and "log.dirs" not in given:
        faults.append("log.dirs is not given: say with --data, or in the file, which folder the logs are in")
    numbers = {number.field: _whole_number(name, given.get(name), number, faults) for name, number in NUMBERS.items()}
    if numbers["group_min_session_timeout_ms"] > numbers["group_max_session_timeout_ms"]:
        faults.append("group.min.session.timeout.ms is above group.max.session.timeout.ms: no member could satisfy both")
    logins = login_settings(values, numbers, listeners, between, of_listeners, faults)
    topic_defaults = _topic_defaults(given, faults)
    if faults:
        raise SettingsRefused(faults)
    return BrokerSettings(
        data=Path(values["log.dirs"] or ""),
        zookeeper=values["zookeeper.connect"] or "",
        zookeeper_security=zookeeper_security,
        listeners=listeners,
        inter_broker_listener=between,
        tls=tls,
        logins=logins,
        broker_id=int(values["broker.id"] or 1),
        status_file=status_file,
        http_host=values["http.host"] or "127.0.0.1",
        http_token_file=None if values["http.token.file"] is None else Path(values["http.token.file"]),
        http_port=None if values["http.port"] is None else int(values["http.port"]),
        auto_create_topics=values["auto.create.topics.enable"] == "true",
        has_access_rules=values["authorizer.class.name"] is not None,
        super_users=principals(values["super.users"] or ""),
        allow_everyone_if_no_rule=values["allow.everyone.if.no.acl.found"] == "true",
        logging_level=values["logging.level"] or "INFO",
        logging_format=values["logging.format"] or "json",
        topic_defaults=topic_defaults,
        effective=_effective(given, given_to_listeners),
        **numbers,
    )


def known_names() -> list[str]:
    """Return every name that `--set`, the environment and the file accept, sorted."""
    return sorted([*NUMBERS, *WORDS, *_topic_settings_by_broker_name()])


def _of_listeners(
    given: Mapping[str, Given], listeners: Sequence[Listener], faults: list[str]
) -> dict[str, dict[str, str | None]]:
    """Return the listeners' own values."""

    def take(whole: str, setting: str, one: Given) -> str | None:
        return _word(whole, one, WORDS[setting], faults)

    names = sorted(filter(listener_settings.is_for_listeners, WORDS))
    return listener_settings.of_listeners(given, names, listeners, take, faults)


def _topic_settings_by_broker_name() -> dict[str, topic_settings.TopicSetting]:
    return {setting.broker_name: setting for setting in topic_settings.TABLE.values() if setting.broker_name is not None}


def _under_one_name(given: dict[str, Given], faults: list[str]) -> dict[str, Given]:
    """Return the values, Kafka's alternative names replaced by the names here. Of several the finest unit wins, as in Kafka."""
    for other, (name, unit_ms) in SYNONYMS.items():
        one = given.pop(other, None)
        if one is None or name in given:
            continue
        if unit_ms is None or one.value == "-1":
            given[name] = one
        elif one.value.isascii() and one.value.isdigit() and len(one.value) <= MOST_DIGITS:
            given[name] = Given(str(int(one.value) * unit_ms), one.source)
        else:
            faults.append(f"{other}: {one.value!r} is not a whole number ({one.source})")
    return given


def _unknown(name: str, given: Given, known: Sequence[str]) -> str:
    if name in NOT_HERE:
        why = f": {NOT_HERE[name]}; take the line out"
    elif (setting := topic_settings.TABLE.get(name)) is not None:
        default = "" if setting.broker_name is None else f"; the default for all topics is {setting.broker_name}"
        why = f": it is a topic's setting{default}"
    else:
        why = sources.did_you_mean(name, [*known, *SYNONYMS]) or ": `headrace broker config` lists them"
    return f"{name}: there is no such setting ({given.source}){why}"


def _word(name: str, given: Given | None, word: Word, faults: list[str]) -> str | None:
    if given is None:
        return word.default
    if given.value == "" and word.default is None and name != "log.dirs":
        return None
    if (fault := word.check(given.value)) is not None:
        faults.append(f"{name}: {fault} ({given.source})")
        return word.default
    return given.value


def _whole_number(name: str, given: Given | None, number: Number, faults: list[str]) -> int:
    if given is None:
        return number.default
    digits = given.value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS):
        faults.append(f"{name}: {given.value[: MOST_DIGITS + 1]!r} is not a whole number ({given.source})")
    elif not number.lowest <= int(given.value) <= number.highest:
        faults.append(f"{name}: {given.value} is not from {number.lowest} to {number.highest} ({given.source})")
    else:
        return int(given.value)
    return number.default


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _take_flags(
    host: str | None,
    port: int | None,
    advertised_host: str | None,
    values: dict[str, str | None],
    given: dict[str, Given],
    faults: list[str],
) -> None:
    """Change the first listener by the flags."""
    if host is not None and host_fault(host) is not None:
        faults.append(f"--host {host!r} is not a host name or address")
        host = None
    if port is not None and not 0 <= port <= 65_535:
        faults.append(f"--port {port} is not from 0 to 65535")
        port = None
    first, *others = split(values["listeners"] or "")
    name, listed_host, listed_port = listener_parts(first)
    if host is not None or port is not None:
        flag = "--host" if port is None else "--port" if host is None else "--host and --port"
        at = f"{_bracketed(listed_host if host is None else host)}:{listed_port if port is None else port}"
        listed = ",".join([f"{name}://{at}", *others])
        values["listeners"], given["listeners"] = listed, Given(listed, flag)
    if advertised_host is not None:
        parts = {one: (there, at) for one, there, at in map(listener_parts, split(values["advertised.listeners"] or ""))}
        parts[name] = (advertised_host, parts.get(name, ("", "0"))[1])
        shown = ",".join(f"{one}://{_bracketed(there)}:{at}" for one, (there, at) in parts.items())
        values["advertised.listeners"], given["advertised.listeners"] = shown, Given(shown, "--advertised-host")


def _check_reach(
    listeners: Sequence[Listener], tls: Mapping[str, TlsSettings], values: Mapping[str, str | None], faults: list[str]
) -> None:
    """Refuse to serve other machines without asking them who they are."""
    for one in listeners:
        asks = one.has_tls and (one.has_login or tls[one.name].client_auth == "required")
        if not is_loopback(one.host) and not asks and values["listeners.insecure.allowed"] != "true":
            faults.append(
                f"listeners: other machines reach {one.host}, and {one.name} does not ask them who they are over TLS. "
                f"Three commands make it right: (1) `headrace security init FOLDER --host broker={_named(one)}` "
                f"(2) `headrace security apply FOLDER --zookeeper {values['zookeeper.connect']}` "
                "(3) `headrace broker run --config FILE --config FOLDER/broker/broker.properties` with "
                f"listeners=SASL_SSL://{_bracketed(one.host)}:{one.port} in FILE. "
                "Or take certificates alone (SSL:// and ssl.client.auth=required), "
                "listen on the loopback, or set listeners.insecure.allowed=true if only trusted clients can reach it"
            )
    http_host = values["http.host"] or "127.0.0.1"
    if values["http.port"] is not None and not is_loopback(http_host) and values["http.token.file"] is None:
        faults.append(
            f"http.host: other machines reach {http_host}: give http.token.file, whose first line scrapers send as bearer token, "
            "or listen on the loopback"
        )


def _named(one: Listener) -> str:
    return "NAME" if one.advertised_host in ALL_ADDRESSES else one.advertised_host


def _topic_defaults(given: Mapping[str, Given], faults: list[str]) -> dict[str, str]:
    defaults = {}
    for broker_name, setting in _topic_settings_by_broker_name().items():
        if (one := given.get(broker_name)) is None:
            continue
        if (fault := setting.check(one.value)) is not None:
            faults.append(f"{broker_name}: {fault} ({one.source})")
        defaults[setting.name] = one.value
    return defaults


def _effective(given: Mapping[str, Given], of_listeners: Mapping[str, Given]) -> tuple[Effective, ...]:
    table: dict[str, tuple[str, str]] = {name: (str(number.default), number.doc) for name, number in NUMBERS.items()}
    table |= {name: (word.default or "", word.doc) for name, word in WORDS.items()}
    table |= {name: (setting.default, setting.doc) for name, setting in _topic_settings_by_broker_name().items()}
    effective = []
    for name, (default, doc) in sorted(table.items()):
        value, source = given.get(name, Given(default, "default"))
        if value and name in WORDS and WORDS[name].is_secret:
            value = "***"
        effective.append(Effective(name=name, value=value, default=default, source=source, doc=doc))
    for name, (value, source) in sorted(of_listeners.items()):
        is_secret = any(word.is_secret and name.endswith(f".{setting}") for setting, word in WORDS.items())
        doc = "The value of one listener, in place of the setting that its name ends with."
        effective.append(Effective(name=name, value="***" if is_secret else value, default="", source=source, doc=doc))
    return tuple(effective)


__all__ = ["ENVIRONMENT_PREFIX", "NUMBERS", "WORDS", "BrokerSettings", "Effective", "from_words", "known_names"]
