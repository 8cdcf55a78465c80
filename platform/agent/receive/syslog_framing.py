"""From a stream of bytes to syslog messages, in the two ways of RFC 6587: octet counting (`LEN SP MSG`), and a newline (or NUL)
behind each. Told apart message by message, by the first byte. Pure.

What waits in here has at most `limit_bytes` and one read.
"""

import re
from typing import NamedTuple

_COUNT = re.compile(rb"([1-9]\d{0,9}) ")
_ENDS = re.compile(rb"[\n\0]")
_LONGEST_COUNT = 11


class Framed(NamedTuple):
    """One message, or the beginning of what can be none."""

    content: bytes
    fault: str = ""
    code: str = ""


TOO_LONG = "message_too_long"
CUT_SHORT = "message_cut_short"
BAD_FRAMING = "bad_framing"


class SyslogFraming:
    """One connection's stream."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self._skip_bytes = 0
        """Octets of a message that is too long, still to come."""
        self._skips_line = False
        self.is_broken = False
        """Nothing that follows can be distinguished: close the connection."""

    @property
    def held_bytes(self) -> int:
        return len(self._rest)

    def feed(self, data: bytes) -> list[Framed]:
        """Return the messages that are whole now, and the beginnings of those that are too long."""
        if self.is_broken:
            return []
        self._rest += data
        found: list[Framed] = []
        while self._rest:
            if self._skip_bytes:
                skipped = min(self._skip_bytes, len(self._rest))
                del self._rest[:skipped]
                self._skip_bytes -= skipped
                continue
            if self._skips_line:
                end = _ENDS.search(self._rest)
                del self._rest[: len(self._rest) if end is None else end.end()]
                self._skips_line = end is None
                continue
            before = len(self._rest)
            one = self._counted() if 0x31 <= self._rest[0] <= 0x39 else self._line()
            if one is not None and (one.content or one.fault):
                found.append(one)
            if one is None and len(self._rest) == before:
                break
        return found

    def end(self) -> list[Framed]:
        """Return what is behind the last end when the connection ends: a line without its newline is a message."""
        rest = bytes(self._rest)
        self._rest.clear()
        if not rest or self._skips_line or self._skip_bytes:
            return []
        if 0x31 <= rest[0] <= 0x39:
            return [Framed(rest[: self._limit_bytes], "the connection ended before the octets that were announced", CUT_SHORT)]
        return [Framed(rest)]

    def _counted(self) -> Framed | None:
        head = _COUNT.match(self._rest)
        if head is None:
            if len(self._rest) < _LONGEST_COUNT and re.fullmatch(rb"\d+", self._rest):
                return None
            beginning = bytes(self._rest[:256])
            self._rest.clear()
            self.is_broken = True
            return Framed(beginning, "it begins with a digit, and no octet count and space follow", BAD_FRAMING)
        size = int(head[1])
        if size > self._limit_bytes:
            if len(self._rest) - head.end() < self._limit_bytes:
                return None
            beginning = bytes(self._rest[head.end() : head.end() + self._limit_bytes])
            self._skip_bytes = size
            del self._rest[: head.end()]
            return Framed(beginning, f"it has {size} bytes, more than {self._limit_bytes}: only its beginning is kept", TOO_LONG)
        if len(self._rest) < head.end() + size:
            return None
        content = bytes(self._rest[head.end() : head.end() + size])
        del self._rest[: head.end() + size]
        return Framed(content)

    def _line(self) -> Framed | None:
        end = _ENDS.search(self._rest)
        length = len(self._rest) if end is None else end.start()
        if length > self._limit_bytes:
            beginning = bytes(self._rest[: self._limit_bytes])
            del self._rest[: length if end is None else end.end()]
            self._skips_line = end is None
            return Framed(beginning, f"it is longer than {self._limit_bytes} bytes: only its beginning is kept", TOO_LONG)
        if end is None:
            return None
        content = bytes(self._rest[:length])
        del self._rest[: end.end()]
        return Framed(content)
