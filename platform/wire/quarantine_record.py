"""The quarantine record: data that could not be used, with reason and origin. Pure: a dataclass and its JSON, no clock.

The record is in the topic `<topic>.quarantine`. Its key is its origin: a stage that runs again writes the same key again, and
readers count it once. The payload is kept whole, as base64, so that it can be repaired and sent again.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Literal

from .errors import WireError

VERSION = 1
PAYLOAD_LIMIT_BYTES = 512 * 1024
"""`head_of` cuts a longer payload to this, so that the record about a too large message is not too large itself."""

SCHEMA_REFUSED = "schema_refused"
"""The code of records whose writer's schema a table cannot hold: all that such a writer sends goes the same way."""

Stage = Literal["replay", "sdk", "agent", "consumer", "load", "mirror"]
WindowFrom = Literal["record", "previous", "clock"]
"""What dates the window: the record's own time, the record before it, or this machine's clock."""


class NotAQuarantineRecord(WireError):
    """The bytes are no quarantine record of a version this program reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrigin:
    """A line of a file; lines count from 1."""

    file: str
    line: int | None
    """None: not known, the file was read from somewhere inside."""
    offset: int | None = None
    """Where the line begins, in bytes of the file's (decompressed) content."""
    file_id: str | None = None
    """Tells apart the files that have had this name one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOrigin:
    """A record, or the range [offset, to_offset), of a partition in a cluster (`live` or `offline`)."""

    cluster: str
    topic: str
    partition: int
    offset: int
    to_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrigin:
    """The n-th refused event of one running application: `instance` is the name under which its producer reports."""

    instance: str
    sequence: int


Origin = FileOrigin | LogOrigin | ProcessOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRecord:
    """One thing that could not be used. `key()` and `to_json()` are the record's key and value in its topic."""

    topic: str
    """The topic that it was meant for, or came from."""
    stage: Stage
    code: str
    """One word for programs: `unparsable_line`, `schema_mismatch`, `schema_refused`, `unknown_schema_id`, `corrupt_batch`, …"""
    reason: str
    """One sentence for people."""
    origin: Origin
    window_start_ms: int
    window_from: WindowFrom
    at_ms: int
    payload: bytes

    def key(self) -> bytes:
        """Return the origin as compact JSON with sorted names: equal origins give equal bytes."""
        return json.dumps(_origin_words(self.origin), separators=(",", ":"), sort_keys=True).encode()

    def to_json(self) -> bytes:
        """Return the record's value, UTF-8 JSON."""
        words = {
            "v": VERSION,
            "topic": self.topic,
            "stage": self.stage,
            "code": self.code,
            "reason": self.reason,
            "origin": _origin_words(self.origin),
            "window_start_ms": self.window_start_ms,
            "window_from": self.window_from,
            "at_ms": self.at_ms,
            "payload_base64": base64.b64encode(self.payload).decode(),
        }
        return json.dumps(words).encode()

    @classmethod
    def from_json(cls, value: bytes | memoryview) -> "QuarantineRecord":
        """Return the record that `to_json` wrote. Unknown names are ignored; raises `NotAQuarantineRecord`."""
        try:
            words = json.loads(bytes(value))
            if words["v"] != VERSION:
                raise NotAQuarantineRecord(f"quarantine record of version {words['v']!r}: this program reads version {VERSION}")
            return cls(
                topic=_typed(words, "topic", str),
                stage=words["stage"],
                code=_typed(words, "code", str),
                reason=_typed(words, "reason", str),
                origin=_origin(words["origin"]),
                window_start_ms=_typed(words, "window_start_ms", int),
                window_from=words["window_from"],
                at_ms=_typed(words, "at_ms", int),
                payload=base64.b64decode(_typed(words, "payload_base64", str), validate=True),
            )
        except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
            raise NotAQuarantineRecord(
                f"{len(value)} bytes are no quarantine record ({type(error).__name__}: {error}): a stranger writes to this topic"
            ) from error


def quarantine_topic(topic: str) -> str:
    """Return the name of the topic that holds the quarantine of `topic`."""
    return f"{topic}.quarantine"


def head_of(payload: bytes | memoryview) -> bytes:
    """Return at most the first `PAYLOAD_LIMIT_BYTES` of a payload."""
    return bytes(payload[:PAYLOAD_LIMIT_BYTES])


def _typed(words: dict[str, Any], name: str, kind: type) -> Any:
    value = words[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, not of type {kind.__name__}")
    return value


def _origin_words(origin: Origin) -> dict[str, str | int]:
    match origin:
        case FileOrigin():
            named = {"file": origin.file, "line": origin.line, "offset": origin.offset, "file_id": origin.file_id}
            return {name: value for name, value in named.items() if value is not None}
        case LogOrigin():
            words: dict[str, str | int] = {
                "cluster": origin.cluster,
                "topic": origin.topic,
                "partition": origin.partition,
                "offset": origin.offset,
            }
            return words if origin.to_offset is None else {**words, "to_offset": origin.to_offset}
        case ProcessOrigin():
            return {"instance": origin.instance, "sequence": origin.sequence}


def _origin(words: Any) -> Origin:
    if "file" in words:
        return FileOrigin(
            file=_typed(words, "file", str),
            line=_typed(words, "line", int) if "line" in words else None,
            offset=_typed(words, "offset", int) if "offset" in words else None,
            file_id=_typed(words, "file_id", str) if "file_id" in words else None,
        )
    if "instance" in words:
        return ProcessOrigin(instance=_typed(words, "instance", str), sequence=_typed(words, "sequence", int))
    return LogOrigin(
        cluster=_typed(words, "cluster", str),
        topic=_typed(words, "topic", str),
        partition=_typed(words, "partition", int),
        offset=_typed(words, "offset", int),
        to_offset=None if words.get("to_offset") is None else _typed(words, "to_offset", int),
    )
