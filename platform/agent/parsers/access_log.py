"""Parses one line of a web server's access log in the combined format into an event. Pure: bytes in, values out.

Strict: a line that is cut, or that has more or fewer parts than the format, is rejected. Source: Apache httpd, mod_log_config,
`%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`.

Text: bytes that are not UTF-8 become `\\xhh`. Apache writes bytes that it cannot print in the same way; those stay unchanged.
Inside quotes, `\\"`, `\\\\` and the C escapes of white space are decoded.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from ...sdk.access_log_schema import ACCESS_LOG_SCHEMA
from .parser import ParsedLine, UnparsableLine

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_STAMP = r"\[(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})\]"
_TIME = re.compile(_STAMP, re.ASCII)
_LINE = re.compile(rf"(\S+) (\S+) (\S+|\S[^\[]*\S) (\[[^\]]*\]) {_QUOTED} (\d{{3}}) (\d{{1,18}}|-) {_QUOTED} {_QUOTED}", re.ASCII)
_REQUEST = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+) (\S.*?)(?: (HTTP/\d(?:\.\d)?))?", re.ASCII)
_ESCAPE = re.compile(r'\\(["\\bfnrtv])')
_ESCAPED = {'"': '"', "\\": "\\", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MONTHS = {
    name: number
    for number, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)
}

EVENT_FIELDS = ("client_ip", "ident", "user", "method", "path", "protocol", "status", "size_bytes", "referrer", "user_agent")
"""The event's fields that a line provides; the logger adds event time and server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLogLine:
    """One request of the log. None is the server's `-`, which means 'not known'. Names as in the event's schema."""

    time_ms: int
    """When the request arrived, milliseconds since the epoch, UTC."""
    client_ip: str
    ident: str | None
    user: str | None
    method: str
    """`-` if the request line cannot be split, and then `protocol` too: the whole line is in `path`."""
    path: str
    protocol: str
    status: int
    size_bytes: int | None
    referrer: str | None
    user_agent: str | None

    def event(self) -> dict[str, str | int | None]:
        """Return the event's fields, named as in the access-log schema."""
        return {name: getattr(self, name) for name in EVENT_FIELDS}


def parse_line(line: bytes) -> AccessLogLine:
    """Return the request in one line (with or without its line end). Raises `UnparsableLine`. Hot: once per line."""
    text = text_of(line)
    found = _LINE.fullmatch(text)
    if found is None:
        raise UnparsableLine(_why(text))
    client_ip, ident, user, stamp, request, status, size, referrer, user_agent = found.groups()
    time_ms = time_of_stamp(stamp)
    if time_ms is None:
        raise UnparsableLine(f"{stamp} is no time stamp such as [17/May/2015:10:05:03 +0000]")
    method, path, protocol = _request(request)
    return AccessLogLine(
        time_ms=time_ms,
        client_ip=client_ip,
        ident=_known(ident),
        user=_known(user),
        method=method,
        path=path,
        protocol=protocol,
        status=int(status),
        size_bytes=None if size == "-" else int(size),
        referrer=_known(_unescaped(referrer)),
        user_agent=_known(_unescaped(user_agent)),
    )


class AccessLogParser:
    """The parser of access logs, for the agent."""

    schema: dict[str, Any] = ACCESS_LOG_SCHEMA

    def parse(self, line: bytes) -> ParsedLine:
        """Return the request in a line. Raises `UnparsableLine`."""
        request = parse_line(line)
        return ParsedLine(request.event(), request.time_ms)

    def time_of(self, line: bytes) -> int | None:
        """Return the first timestamp found anywhere in the line, in ms."""
        return event_time_of(line)


def event_time_of(line: bytes) -> int | None:
    """Return the first timestamp found anywhere in a line that does not parse, in ms; None if there is none."""
    found = _TIME.search(text_of(line))
    return None if found is None else time_of_stamp(found.group())


def text_of(line: bytes) -> str:
    """Return the line's text without its line end; a byte that is not UTF-8 becomes `\\xhh`."""
    return line.rstrip(b"\r\n").decode("utf-8", errors="backslashreplace")


@lru_cache(maxsize=1024)
def time_of_stamp(stamp: str) -> int | None:
    """Return the instant of `[17/May/2015:10:05:03 +0200]`, or None if it is invalid. Cached: neighbouring lines share their
    second.
    """
    found = _TIME.fullmatch(stamp)
    if found is None:
        return None
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = found.groups()
    if month not in _MONTHS or int(zone_minutes) > 59:
        return None
    try:
        at = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
    zone = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
    time_ms = (at - datetime(1970, 1, 1, tzinfo=UTC) + (zone if sign == "-" else -zone)) // timedelta(milliseconds=1)
    # On the wire a negative timestamp means 'none'.
    return time_ms if time_ms >= 0 else None


def _request(quoted: str) -> tuple[str, str, str]:
    text = _unescaped(quoted)
    found = _REQUEST.fullmatch(text)
    if found is None:
        # Port scanners send this instead of HTTP. The event keeps all of its text.
        return "-", text or "-", "-"
    method, path, protocol = found.groups()
    return method, path, protocol or "HTTP/0.9"


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED[found.group(1)], text) if "\\" in text else text


def _known(text: str) -> str | None:
    return None if text in ("-", "") else text


def _why(text: str) -> str:
    """Return what is wrong with a line that does not match, as precisely as is cheap."""
    if not text.strip():
        return "the line is empty"
    if re.sub(r"\\.", "", text).count('"') % 2:
        return "a quote is not closed: the line is cut"
    stamp = _TIME.search(text)
    if stamp is None:
        return "it holds no time stamp such as [17/May/2015:10:05:03 +0000]"
    if re.sub(r"\\.", "", text).count('"') < 6:
        return "request, referrer or user agent is missing: the combined format has all three in quotes"
    return 'it is not in the combined format: host ident user [time] "request" status size "referrer" "user agent"'
