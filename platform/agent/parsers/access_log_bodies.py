"""Access-log lines straight to Avro bodies: the hot way of the agent. `native/access_log.c` does the same in C. Pure.

It takes only what is most common, a line of printable ASCII without a backslash, and answers None for any other line, which
then goes through `access_log.parse_line` and the encoder. For what it takes, its body is theirs, byte for byte (a property test
holds it to that). What repeats from line to line (client, second, method, status and size, referrer, user agent) is encoded
once and looked up.
"""

import re
from collections.abc import Callable

from ...sdk.access_log_schema import ACCESS_LOG_SCHEMA
from .access_log import time_of_stamp

LAYOUT = (
    "event_time", "server", "client_ip", "ident", "user", "method", "path", "protocol", "status", "size_bytes", "referrer",
    "user_agent",
)  # fmt: skip
"""The order in which this file writes the fields."""

MOST_REMEMBERED = 8_192
"""Values that one lookup table holds at most; it is emptied when it is full."""

_STAMP_BYTES = len(b"[17/May/2015:10:05:03 +0000]")
_METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PROTOCOL = re.compile(rb"HTTP/\d(?:\.\d)?")
_STATUS_AND_SIZE = re.compile(rb" (\d{3}) (\d{1,18}|-) ")
_PRINTABLE = bytes(range(0x20, 0x7F))


class _Remembered(dict[bytes, bytes | None]):
    """What `encode` answered for a value; None where the value is not taken."""

    def __init__(self, encode: Callable[[bytes], bytes | None]) -> None:
        self._encode = encode

    def __missing__(self, value: bytes) -> bytes | None:
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        encoded = self[value] = self._encode(value)
        return encoded


class AccessLogBodies:
    """Encodes lines of one server."""

    def __init__(self, server_name: str) -> None:
        layout = tuple(field["name"] for field in ACCESS_LOG_SCHEMA["fields"])
        if layout != LAYOUT:
            raise AssertionError(f"the access-log schema has another order of fields now: {layout}")
        self.server = _string(server_name.encode())
        """The server's name as Avro writes it."""
        self._clients = _Remembered(_client)
        self._methods = _Remembered(_method)
        self._protocols = _Remembered(_protocol)
        self._numbers = _Remembered(_status_and_size)
        self._texts = _Remembered(_nullable)
        self._times: dict[bytes, tuple[int, bytes] | None] = {}

    def encode(self, line: bytes) -> tuple[int, bytes] | None:
        """Return time (ms) and body of a line without its line end, or None: parse it the long way. Hot."""
        parts = line.split(b'"')
        if len(parts) != 7 or parts[4] != b" " or parts[6] or b"\\" in line or line.translate(None, _PRINTABLE):
            return None
        front, request, numbers, referrer, _, agent, _ = parts
        words = request.split(b" ")
        if len(words) != 3 or not words[1]:
            return None
        stamp = front[-_STAMP_BYTES - 1 :]
        try:
            at = self._times[stamp]
        except KeyError:
            at = self._dated(stamp)
        client = self._clients[front[: -_STAMP_BYTES - 1]]
        method, path, protocol = words
        method_body, protocol_body, number_body = self._methods[method], self._protocols[protocol], self._numbers[numbers]
        if at is None or client is None or method_body is None or protocol_body is None or number_body is None:
            return None
        length = len(path)
        # The branch "string" of the union, then the length as zigzag varint.
        head = _HEADS[length] if length < _SHORT else b"\x02" + _long(length)
        time_ms, time_body = at
        texts = self._texts
        return time_ms, b"".join(
            (time_body, client, method_body, head, path, protocol_body, number_body, texts[referrer], texts[agent])  # type: ignore[arg-type]
        )

    def _dated(self, stamp: bytes) -> tuple[int, bytes] | None:
        if len(self._times) >= MOST_REMEMBERED:
            self._times.clear()
        time_ms = time_of_stamp(stamp[:-1].decode()) if stamp.endswith(b"] ") else None
        at = self._times[stamp] = None if time_ms is None else (time_ms, _long(time_ms) + self.server)
        return at


def _client(text: bytes) -> bytes | None:
    """Return client, ident and user of `192.0.2.7 - - `, which ends with a space."""
    words = text.split(b" ")
    if len(words) != 4 or words[3] or not all(words[:3]):
        return None
    return _string(words[0]) + _nullable(words[1]) + _nullable(words[2])


def _method(text: bytes) -> bytes | None:
    return None if _METHOD.fullmatch(text) is None else b"\x02" + _string(text)


def _protocol(text: bytes) -> bytes | None:
    return None if _PROTOCOL.fullmatch(text) is None else b"\x02" + _string(text)


def _status_and_size(text: bytes) -> bytes | None:
    found = _STATUS_AND_SIZE.fullmatch(text)
    if found is None:
        return None
    status, size = found.groups()
    return _long(int(status)) + (b"\x00" if size == b"-" else b"\x02" + _long(int(size)))


def _nullable(text: bytes) -> bytes:
    return b"\x00" if text in (b"-", b"") else b"\x02" + _string(text)


def _string(text: bytes) -> bytes:
    return _long(len(text)) + text


def _long(value: int) -> bytes:
    """Return Avro's zigzag varint of a number that is not negative."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT = 256
_HEADS = tuple(b"\x02" + _long(length) for length in range(_SHORT))
