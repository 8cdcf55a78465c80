"""Syslog messages: RFC 5424, and what RFC 3164 describes, with the habits of its senders. Pure.

`<PRI>VERSION ` begins the first kind, any other `<PRI>` the second. In the second only PRI is sure: a time may be missing, and so
may the host's name (glibc's syslog leaves it out); what follows is the message then, as RFC 3164 section 4.3.3 has it. Bytes that
are no UTF-8 are written as backslash sequences, so nothing of a message is lost.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from ...sdk.event_schema import event_schema, nullable
from .parser import UnparsableLine

SYSLOG_SCHEMA = event_schema(
    "SyslogMessage",
    [
        {"name": "facility", "type": "int", "doc": "0 to 23"},
        {"name": "severity", "type": "int", "doc": "0 (emergency) to 7 (debug)"},
        nullable("message_time", {"type": "long", "logicalType": "timestamp-millis"}),
        nullable("hostname", "string"),
        nullable("app_name", "string"),
        nullable("procid", "string"),
        nullable("msgid", "string"),
        nullable("structured_data", {"type": "map", "values": {"type": "map", "values": "string"}}),
        {"name": "message", "type": "string"},
        {"name": "transport", "type": "string", "doc": "udp, tcp, tls or unix"},
        nullable("peer", "string"),
    ],
    doc="One syslog message. `message_time` is what the message says, the event time is that, or its arrival.",
)

MOST_PRIORITY = 191
_PRIORITY = re.compile(rb"<(\d{1,3})>")
_RFC5424 = re.compile(rb"([1-9]\d{0,2}) (\S+) (\S{1,255}) (\S{1,48}) (\S{1,128}) (\S{1,32}) ")
_STAMP_3164 = re.compile(rb"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?: |$)")
_STAMP_ISO = re.compile(rb"(\d{4}-\d\d-\d\dT\S+)(?: |$)")
_TAG = re.compile(rb"([^\s\[\]:]{1,48})(?:\[([^\]\s]{1,128})\])?:(?: |$)")
_HOST = re.compile(rb"([^\s\[\]]{1,255}) ")
_SD_ID = re.compile(rb'[^\s="\]]{1,32}')
_SD_PARAM = re.compile(rb' ([^\s="\]]{1,32})="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb'\\(["\\\]])')
_MONTHS = {name: number for number, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_BOM = b"\xef\xbb\xbf"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class NotSyslog(UnparsableLine):
    """It has no priority in front, or a header of RFC 5424 that breaks off."""

    code = "not_syslog"


class SyslogMessage(NamedTuple):
    """What a message says."""

    event: dict[str, Any]
    """The fields of `SYSLOG_SCHEMA`, but `transport` and `peer`."""
    time_ms: int | None


def parse_syslog(message: bytes, *, received_ms: int, zone: tzinfo) -> SyslogMessage:
    """Return what the message says. `zone`: of times without an offset; `received_ms` gives the year if the message has none.

    Raises `NotSyslog`.
    """
    content = message.rstrip(b"\r\n\0")
    found = _PRIORITY.match(content)
    if found is None or int(found[1]) > MOST_PRIORITY:
        raise NotSyslog(f"it does not begin with <0> to <{MOST_PRIORITY}>, the priority: {content[:20]!r}")
    priority = int(found[1])
    rest = content[found.end() :]
    fields = _rfc5424(rest) if re.match(rb"[1-9]\d{0,2} ", rest) else _rfc3164(rest, received_ms=received_ms, zone=zone)
    fields |= {"facility": priority >> 3, "severity": priority & 7}
    return SyslogMessage(fields, fields["message_time"])


def _rfc5424(rest: bytes) -> dict[str, Any]:
    header = _RFC5424.match(rest)
    if header is None:
        raise NotSyslog("its header is none of RFC 5424: VERSION TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA")
    version, stamp, hostname, app_name, procid, msgid = header.groups()
    if version != b"1":
        raise NotSyslog(f"it is of version {int(version)} of syslog: this reads 1, of RFC 5424")
    data, at = _structured_data(rest, header.end())
    if at < len(rest) and rest[at : at + 1] != b" ":
        raise NotSyslog(f"byte {at} behind its priority is not a space, where the structured data ends")
    return {
        "message_time": None if stamp == b"-" else _iso(stamp, None),
        "hostname": _value(hostname),
        "app_name": _value(app_name),
        "procid": _value(procid),
        "msgid": _value(msgid),
        "structured_data": data,
        "message": _text(rest[at + 1 :].removeprefix(_BOM)),
    }


def _structured_data(rest: bytes, at: int) -> tuple[Mapping[str, Mapping[str, str]] | None, int]:
    if rest[at : at + 1] == b"-":
        return None, at + 1
    found: dict[str, dict[str, str]] = {}
    while rest[at : at + 1] == b"[":
        name = _SD_ID.match(rest, at + 1)
        if name is None:
            break
        values = found.setdefault(_text(name[0]), {})
        at = name.end()
        while (one := _SD_PARAM.match(rest, at)) is not None:
            values[_text(one[1])] = _text(_ESCAPE.sub(rb"\1", one[2]))
            at = one.end()
        if rest[at : at + 1] != b"]":
            raise NotSyslog(f"its structured data breaks off at byte {at} behind its priority")
        at += 1
    if not found:
        raise NotSyslog("it has no structured data: write `-` for none")
    return found, at


def _rfc3164(rest: bytes, *, received_ms: int, zone: tzinfo) -> dict[str, Any]:
    time_ms, at = _time_3164(rest, received_ms, zone)
    hostname: bytes | None = None
    if time_ms is not None and _TAG.match(rest, at) is None and (host := _HOST.match(rest, at)) is not None:
        hostname, at = host[1], host.end()
    tag = _TAG.match(rest, at) if time_ms is not None else None
    return {
        "message_time": time_ms,
        "hostname": None if hostname is None else _text(hostname),
        "app_name": None if tag is None else _text(tag[1]),
        "procid": None if tag is None or tag[2] is None else _text(tag[2]),
        "msgid": None,
        "structured_data": None,
        "message": _text(rest[at if tag is None else tag.end() :]),
    }


def _time_3164(rest: bytes, received_ms: int, zone: tzinfo) -> tuple[int | None, int]:
    """Return the time and where the header continues; None and 0 where it does not begin with a time."""
    if (iso := _STAMP_ISO.match(rest)) is not None:
        time_ms = _iso(iso[1], zone)
        return time_ms, iso.end() if time_ms is not None else 0
    found = _STAMP_3164.match(rest)
    month = None if found is None else _MONTHS.get(found[1])
    if found is None or month is None:
        return None, 0
    day, hour, minute, second = (int(one) for one in found.groups()[1:])
    year = (_EPOCH + received_ms * _MILLISECOND).year
    times = []
    for one in (year - 1, year, year + 1):
        try:
            times.append((datetime(one, month, day, hour, minute, second, tzinfo=zone) - _EPOCH) // _MILLISECOND)
        except (ValueError, OverflowError):
            continue
    # Without a year, take the one that puts it nearest to its arrival.
    time_ms = min(times, key=lambda one: abs(one - received_ms), default=None)
    return time_ms, 0 if time_ms is None else found.end()


def _iso(stamp: bytes, zone: tzinfo | None) -> int | None:
    try:
        at = datetime.fromisoformat(stamp.decode("ascii"))
        at = at if at.tzinfo is not None or zone is None else at.replace(tzinfo=zone)
        time_ms = (at - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError, TypeError):
        return None
    return time_ms if time_ms >= 0 else None


def _value(word: bytes) -> str | None:
    return None if word == b"-" else _text(word)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")
