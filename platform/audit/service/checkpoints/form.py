"""A checkpoint as messages on a topic, and complete checkpoints found again among them. Pure.

    message      = header, "\n", payload
    header       = JSON: {"checkpoint": id, "part": n, "kind": "begin" | "rows" | "end", …}
    "begin"      part 0: {"format", "layout", "window_ms", "at_ms", "audit": {partition: next offset}, "after": [id, …]}, no
                 payload. "after" is empty for a base; an increment may be put on either of these
    "rows"       parts 1 to n: the payloads, one behind the other, are one zlib stream of lines (`rows.py`)
    "end"        part n + 1: {"sha256"}: of all payloads; no payload

Whatever is not whole (a part missing, doubled or changed, no end) is not a checkpoint. Parts of two checkpoints may stand mixed.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 2
PART_BYTES = 256 << 10
MOST_OPEN = 8
"""Checkpoints whose end has not come yet that are followed at once; the oldest is given up for a ninth."""
_LINES_AT_ONCE = 1 << 20


class BadCheckpoint(Exception):
    """A message or a checkpoint that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a checkpoint says of itself."""

    checkpoint: str
    layout: int
    window_ms: int
    at_ms: int
    audit: Mapping[int, int]
    """Partition of the audit topic → the offset behind the last report that is in the checkpoint."""
    after: tuple[str, ...] = ()
    """The checkpoints since each of which it holds the changes, the newest first; none where it holds the whole store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """A whole checkpoint on the topic, at offsets [from_offset, last_offset]."""

    about: About
    from_offset: int
    last_offset: int
    payload_bytes: int

    @property
    def is_base(self) -> bool:
        return not self.about.after


@dataclass(frozen=True, slots=True)
class Message:
    """One message, taken apart."""

    checkpoint: str
    part: int
    kind: str
    header: Mapping[str, Any]
    payload: bytes


def messages(about: About, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the messages of a checkpoint that holds `lines`; at most one and the next part are in memory."""
    yield _message(
        about.checkpoint, 0, "begin",
        format=FORMAT, layout=about.layout, window_ms=about.window_ms, at_ms=about.at_ms, audit=about.audit, after=about.after,
    )  # fmt: skip
    digest = hashlib.sha256()
    part = 0
    for payload in _cut(_compressed(lines)):
        part += 1
        digest.update(payload)
        yield _message(about.checkpoint, part, "rows") + payload
    yield _message(about.checkpoint, part + 1, "end", sha256=digest.hexdigest())


def taken_apart(value: bytes | None) -> Message:
    """Return the message. Raises BadCheckpoint."""
    head, newline, payload = (value or b"").partition(b"\n")
    try:
        header = json.loads(head)
        message = Message(str(header["checkpoint"]), int(header["part"]), str(header["kind"]), header, payload)
    except (ValueError, KeyError, TypeError) as error:
        raise BadCheckpoint(f"no message of a checkpoint: {error!r}") from error
    if not newline:
        raise BadCheckpoint("no message of a checkpoint: no header")
    return message


def lines_in(payloads: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that the payloads of a whole checkpoint hold. Raises BadCheckpoint."""
    stream = zlib.decompressobj()
    rest = b""
    try:
        for payload in payloads:
            while payload:
                rest += stream.decompress(payload, _LINES_AT_ONCE)
                payload = stream.unconsumed_tail
                *whole, rest = rest.split(b"\n")
                yield from whole
        *whole, rest = (rest + stream.flush()).split(b"\n")
    except zlib.error as error:
        raise BadCheckpoint(f"the rows cannot be read: {error}") from error
    yield from whole
    if rest or not stream.eof:
        raise BadCheckpoint("the rows end too early")


class Finder:
    """Follows the messages of the topic in order and finds the complete checkpoints, and those that are not."""

    def __init__(self) -> None:
        self.complete: list[Complete] = []
        """In the order of their ends."""
        self.broken: dict[str, str] = {}
        """Checkpoint → why it cannot be used."""
        self._open: dict[str, _Following] = {}

    def see(self, offset: int, value: bytes | None) -> None:
        """Take in the message at `offset`."""
        try:
            message = taken_apart(value)
        except BadCheckpoint as error:
            self.broken[f"message at {offset}"] = str(error)
            return
        name = message.checkpoint
        if message.kind == "begin" and message.part == 0:
            while len(self._open) >= MOST_OPEN:
                self._give_up(next(iter(self._open)), "others came before its end")
            try:
                self._open[name] = _Following(_about(message), offset)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self._give_up(name, f"its beginning cannot be read: {error!r}")
            return
        following = self._open.get(name)
        if following is None:
            self.broken.setdefault(name, "its beginning is missing")
        elif message.part != following.next_part:
            self._give_up(name, f"part {following.next_part} is missing")
        elif message.kind == "rows":
            following.next_part += 1
            following.payload_bytes += len(message.payload)
            following.digest.update(message.payload)
        elif message.kind == "end" and message.header.get("sha256") == following.digest.hexdigest():
            del self._open[name]
            self.complete.append(
                Complete(
                    about=following.about,
                    from_offset=following.from_offset,
                    last_offset=offset,
                    payload_bytes=following.payload_bytes,
                )
            )
        else:
            self._give_up(name, "its checksum does not match")

    def finish(self) -> None:
        """Note that nothing more comes: what has no end is broken."""
        for name in list(self._open):
            self._give_up(name, "its end is missing")

    def _give_up(self, name: str, reason: str) -> None:
        self._open.pop(name, None)
        self.broken[name] = reason


class _Following:
    def __init__(self, about: About, from_offset: int) -> None:
        self.about = about
        self.from_offset = from_offset
        self.next_part = 1
        self.payload_bytes = 0
        self.digest = hashlib.sha256()


def _about(message: Message) -> About:
    header = message.header
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']}, this version reads {FORMAT}")
    return About(
        checkpoint=message.checkpoint,
        layout=int(header["layout"]),
        window_ms=int(header["window_ms"]),
        at_ms=int(header["at_ms"]),
        audit={int(partition): int(offset) for partition, offset in header["audit"].items()},
        after=tuple(map(str, header["after"])),
    )


def _message(checkpoint: str, part: int, kind: str, **more: object) -> bytes:
    return json.dumps({"checkpoint": checkpoint, "part": part, "kind": kind, **more}).encode() + b"\n"


def _compressed(lines: Iterable[bytes]) -> Iterator[bytes]:
    stream = zlib.compressobj(1)
    for line in lines:
        yield stream.compress(line + b"\n")
    yield stream.flush()


def _cut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PART_BYTES:
            yield bytes(held[:PART_BYTES])
            del held[:PART_BYTES]
    if held:
        yield bytes(held)
