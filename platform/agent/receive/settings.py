"""The `[[syslog]]` and `[[http]]` sections of agent.toml: from the file's words to dataclasses, every fault named at once.

Pure, but that it reads schema files, and looks whether token files and certificates can be read.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...runtime.http_access import HttpAccess, Unprotected, is_loopback
from ..parsers.event_times import TimeFormat
from ..parsers.from_settings import record_name, schema_from, types_from
from ..section_reader import SectionReader

HOW_TO_PROTECT = "token_file = (clients send it as a bearer token), or tls_cert, tls_key and tls_client_ca (mTLS)"
HOW_TO_ASK = "tls_client_ca = (who signed the clients' certificates), or insecure_allowed = true"
MOST_EVENT_BYTES = 786_432
"""Below the `max.message.bytes` that a topic has by default, with room for the batch around it."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyslogSettings:
    """One `[[syslog]]` section. Times in ms, sizes in bytes."""

    name: str
    topic: str
    application: str
    udp: Address | None = None
    tcp: Address | None = None
    tls: Address | None = None
    access: HttpAccess = field(default_factory=HttpAccess)
    """The certificates of `tls`."""
    unix: str = ""
    """Path of a datagram socket, as /dev/log is one."""
    unix_mode: int = 0o666
    time_format: TimeFormat
    """Its zone is that of times without an offset (RFC 3164)."""
    lateness_ms: int = 60_000
    """An event has its message's time, unless that is so far from its arrival: then it has the time of its arrival."""
    most_message_bytes: int = 65_536
    most_connections: int = 256
    idle_ms: int = 600_000
    """A connection that sends nothing for this long is closed."""
    handshake_ms: int = 10_000
    """The longest that a handshake of TLS may take in all."""
    receive_buffer_bytes: int = 4 << 20
    """What the kernel keeps of datagrams that were not read yet; more are dropped, and counted."""
    quota_bytes: int = 256 << 20
    """Of its journal: what waits while the cluster is away."""
    is_durable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """One `[[http]]` section: `POST /topics/<topic>`. Sections may share an address. Times in ms, sizes in bytes."""

    name: str
    topic: str
    application: str
    listen: Address
    access: HttpAccess
    schema: Mapping[str, Any] | None
    """None: the newest of `<topic>-value` in the registry."""
    time_field: str | None
    time_format: TimeFormat
    drop_unknown: bool
    key: str | None
    """The field by which the partition is chosen."""
    invalid: str = "refuse"
    """`refuse`: a request with an event that does not fit is refused as a whole. `quarantine`: that event goes to quarantine."""
    lateness_ms: int = 60_000
    most_body_bytes: int = 1 << 20
    most_event_bytes: int = MOST_EVENT_BYTES
    most_connections: int = 64
    request_ms: int = 30_000
    """The longest that a request may take to arrive, and its answer to leave."""
    quota_bytes: int = 256 << 20
    is_durable: bool = True


_SYSLOG_NUMBERS = {
    "lateness_ms": 0, "most_message_bytes": 480, "most_connections": 1, "idle_ms": 1_000, "handshake_ms": 100,
    "receive_buffer_bytes": 4_096, "quota_bytes": 65_536,
}  # fmt: skip
_HTTP_NUMBERS = {
    "lateness_ms": 0, "most_body_bytes": 1, "most_event_bytes": 1, "most_connections": 1, "request_ms": 100,
    "quota_bytes": 65_536,
}  # fmt: skip
_TLS = ("tls_cert", "tls_key", "tls_client_ca")
_SYSLOG = (
    "name", "topic", "application", "udp", "tcp", "tls", *_TLS, "unix", "time_zone", "durable", "insecure_allowed",
    *_SYSLOG_NUMBERS,
)  # fmt: skip
_HTTP = (
    "name", "topic", "application", "listen", "token_file", *_TLS, "fields", "schema", "record",
    "time", "time_format", "time_zone", "unknown_fields", "key", "invalid", "durable", *_HTTP_NUMBERS,
)  # fmt: skip


def syslogs_from(tables: Sequence[Mapping[str, Any]], faults: list[str]) -> list[SyslogSettings]:
    """Return the sections, and append every fault of all of them, with what to do."""
    found = [one for number, words in enumerate(tables, 1) if (one := _syslog(words, number, faults)) is not None]
    _twice("[[syslog]]", [one.name for one in found], faults)
    return found


def https_from(tables: Sequence[Mapping[str, Any]], faults: list[str]) -> list[HttpSettings]:
    """Return the sections, and append every fault of all of them, with what to do."""
    found = [one for number, words in enumerate(tables, 1) if (one := _http(words, number, faults)) is not None]
    _twice("[[http]]", [one.name for one in found], faults)
    _twice("[[http]]", [f"{one.listen} {one.topic}" for one in found], faults)
    for one in found:
        if any(other.listen == one.listen and other.access != one.access for other in found):
            faults.append(f"[[http]] {one.name!r}: sections of one address share token_file and tls_…: give each the same ones")
    return found


def _syslog(words: Mapping[str, Any], number: int, faults: list[str]) -> SyslogSettings | None:
    reader = SectionReader(words, f"[[syslog]] {words.get('name', number)!r}")
    topic = reader.topic()
    udp, tcp, tls = _address(reader, "udp"), _address(reader, "tcp"), _address(reader, "tls")
    unix = reader.text("unix")
    if unix and (not os.path.isabs(unix) or len(unix.encode()) > 107):
        reader.fault("unix", "give an absolute path of at most 107 bytes")
    if not any(reader.words.get(name) for name in ("udp", "tcp", "tls", "unix")):
        reader.fault("udp", 'give at least one of udp = "host:port", tcp = "host:port", tls = "host:port", unix = "/path"')
    is_insecure_allowed = reader.flag("insecure_allowed")
    access = _syslog_access(reader, tls, is_insecure_allowed=is_insecure_allowed)
    if not is_insecure_allowed:
        for name, address in (("udp", udp), ("tcp", tcp)):
            if address is not None and not is_loopback(address.host):
                reader.fault(
                    name,
                    f"other machines reach {address.host}, and syslog has no authentication: insecure_allowed = true allows it",
                )
    time_format = reader.tried("time_zone", lambda: TimeFormat("iso8601", reader.text("time_zone") or "UTC"))
    values = reader.numbers(_SYSLOG_NUMBERS)
    name, application, is_durable = reader.name_or(topic), reader.application_or(topic), reader.flag("durable")
    reader.refuse_others(_SYSLOG)
    faults += reader.faults
    if reader.faults:
        return None
    return SyslogSettings(
        name=name,
        topic=topic,
        application=application,
        udp=udp,
        tcp=tcp,
        tls=tls,
        access=access,
        unix=unix,
        time_format=time_format,
        is_durable=is_durable,
        **values,
    )


def _syslog_access(reader: SectionReader, tls: Address | None, *, is_insecure_allowed: bool) -> HttpAccess:
    access = HttpAccess(**_certificates(reader))
    if tls is None:
        for name in _TLS:
            if reader.words.get(name):
                reader.fault(name, 'it belongs to tls = "host:port", which is not there')
        return access
    if access.certificate is None or access.key is None:
        reader.fault("tls", "it needs tls_cert and tls_key, the server's certificate and its key (PEM)")
        return access
    try:
        access.check("localhost" if is_insecure_allowed else tls.host, how=HOW_TO_ASK)
    except Unprotected as error:
        reader.fault("tls", str(error))
    return access


def _certificates(reader: SectionReader) -> dict[str, Any]:
    return dict(zip(("certificate", "key", "client_authorities"), (_path(reader, name) for name in _TLS), strict=True))


def _path(reader: SectionReader, name: str) -> Path | None:
    return Path(text) if (text := reader.text(name)) else None


def _http(words: Mapping[str, Any], number: int, faults: list[str]) -> HttpSettings | None:
    reader = SectionReader(words, f"[[http]] {words.get('name', number)!r}")
    topic = reader.topic()
    listen = _address(reader, "listen", needed=True)
    access = HttpAccess(token_file=_path(reader, "token_file"), **_certificates(reader))
    if listen is not None:
        try:
            access.check(listen.host, how=HOW_TO_PROTECT)
            access.token()
        except Unprotected as error:
            reader.fault("listen", str(error))
    schema = None
    if "schema" in words or "fields" in words:
        schema = schema_from(reader, types_from(reader), reader.text("record") or record_name(topic))
    time_format = reader.tried(
        "time_format", lambda: TimeFormat(reader.text("time_format") or "iso8601", reader.text("time_zone") or "UTC")
    )
    values: dict[str, Any] = reader.numbers(_HTTP_NUMBERS)
    found: dict[str, Any] = {
        "name": reader.name_or(topic),
        "application": reader.application_or(topic),
        "time_field": reader.text("time") or None,
        "drop_unknown": reader.choice("unknown_fields", ("quarantine", "drop"), "quarantine") == "drop",
        "key": reader.text("key") or None,
        "invalid": reader.choice("invalid", ("refuse", "quarantine"), "refuse"),
        "is_durable": reader.flag("durable") if "durable" in words else True,
    }
    reader.refuse_others(_HTTP)
    faults += reader.faults
    if reader.faults or listen is None:
        return None
    return HttpSettings(topic=topic, listen=listen, access=access, schema=schema, time_format=time_format, **found, **values)


def _address(reader: SectionReader, name: str, *, needed: bool = False) -> Address | None:
    text = reader.text(name, needed=needed)
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        reader.fault(name, f'{text!r} is not an address: write "127.0.0.1:5514"')
        return None
    return Address(host.strip("[]"), int(port))


def _twice(kind: str, names: Sequence[str], faults: list[str]) -> None:
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"{kind} {name!r}: two sections have this name or this address and topic: give each its own")
