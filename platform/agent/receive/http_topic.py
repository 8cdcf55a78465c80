"""One `[[http]]` section without its socket: from the body of a request to events in the journal, or to what is wrong with it."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import HeadraceError
from ...runtime.clock import Clock
from ...sdk.encoding.event_encoder import EventEncoder
from ...sdk.errors import EventRefused
from ...sdk.event_key import key_function
from ...wire.batch.compression import Codec
from ..parsers.json_lines import JsonLinesParser
from ..parsers.parser import UnparsableLine
from .content_encoding import EncodingRefused, unpacked
from .counts import Counts
from .inbox import Inbox, Taken
from .settings import HttpSettings

NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
JSON = "application/json"
MOST_FAULTS = 20
"""The most faults of a request that an answer lists."""
RETRY_AFTER_S = 1


class Answer(NamedTuple):
    """Of a request: the status, and the JSON object of the body."""

    status: int
    words: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


class _Fault(NamedTuple):
    line: int
    reason: str
    code: str
    content: bytes


class HttpTopic:
    """Any thread may post. The schema and the journal are made with the first request."""

    def __init__(
        self,
        settings: HttpSettings,
        make_inbox: Callable[[EventEncoder], Inbox],
        newest_schema: Callable[[str], str],
        counts: Counts,
        clock: Clock,
        *,
        host: str,
    ) -> None:
        """`newest_schema` returns a subject's newest schema; raises RegistryError."""
        self.settings = settings
        self._make_inbox = make_inbox
        self._newest_schema = newest_schema
        self._counts = counts
        self._clock = clock
        self._host = host
        self._key_of = None if settings.key is None else key_function(settings.key)
        self._making = threading.Lock()
        self._made: tuple[JsonLinesParser, Inbox] | None = None
        self._is_closed = False

    def post(self, content_type: str, body: bytes, codec: Codec = Codec.NONE) -> Answer:
        """Journal the events of a body, packed so, and return the answer. Nothing is journaled of one that is refused."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind not in (JSON, *NDJSON):
            return Answer(415, {"error": f"Content-Type {kind!r} is not taken: send {JSON} or {NDJSON[0]}"})
        try:
            body = unpacked(codec, body, self.settings.most_body_bytes)
        except EncodingRefused as error:
            self._counts.add("bodies_not_unpacked")
            return Answer(error.status, {"error": str(error), "accepted": 0})
        try:
            parser, inbox = self._ready()
        except (HeadraceError, OSError) as error:
            return Answer(503, {"error": f"topic {self.settings.topic!r} takes no events yet: {error}", "accepted": 0})
        try:
            pieces = list(_lines(body) if kind in NDJSON else _values(body))
        except UnparsableLine as error:
            return Answer(400, {"error": f"the body is not JSON: {error}", "accepted": 0})
        records, faults = self._events(pieces, parser, inbox.encoder)
        self._counts.add("events_refused", len(faults))
        told = [{"line": one.line, "reason": one.reason} for one in faults[:MOST_FAULTS]]
        if faults and self.settings.invalid == "refuse":
            error_words = f"{len(faults)} of {len(pieces)} events are none of this topic's schema; none of the request was taken"
            return Answer(400, {"error": error_words, "accepted": 0, "faults": told})
        try:
            taken = inbox.take(records)
        except HeadraceError as error:
            return Answer(503, {"error": str(error), "accepted": 0})
        self._counts.add("events_accepted", taken)
        if taken < len(records):
            self._counts.add("requests_without_room")
            return Answer(503, {"error": "the journal is full: send again what was not accepted, later", "accepted": taken})
        for one in faults:
            inbox.quarantine(one.content, code=one.code, reason=f"line {one.line} of a request: {one.reason}")
        return Answer(202, {"accepted": taken, **({"quarantined": len(faults), "faults": told} if faults else {})})

    def close(self) -> None:
        """End the journal. Raises JournalNotDurable."""
        with self._making:
            self._is_closed = True
            if self._made is not None:
                self._made[1].close()

    def _events(
        self, pieces: Sequence[tuple[int, bytes]], parser: JsonLinesParser, encoder: EventEncoder
    ) -> tuple[list[Taken], list[_Fault]]:
        records: list[Taken] = []
        faults: list[_Fault] = []
        now_ms = self._clock.now_ms()
        for line, content in pieces:
            try:
                parsed = parser.parse(content)
                time_ms = now_ms if parsed.time_ms is None else parsed.time_ms
                body = encoder.encode(parsed.event, time_ms)
                if len(body) > self.settings.most_event_bytes:
                    raise UnparsableLine(
                        f"it has {len(body)} bytes as Avro, most_event_bytes is {self.settings.most_event_bytes}"
                    )
                records.append((body, time_ms, None if self._key_of is None else self._key_of(parsed.event)))
            except UnparsableLine as error:
                faults.append(_Fault(line, str(error), error.code, content))
            except EventRefused as error:
                faults.append(_Fault(line, str(error), "schema_mismatch", content))
        return records, faults

    def _ready(self) -> tuple[JsonLinesParser, Inbox]:
        made = self._made
        if made is not None:
            return made
        with self._making:
            if self._is_closed:
                raise HeadraceError("the agent stops")
            if self._made is None:
                words = self._schema()
                parser = JsonLinesParser(
                    words,
                    time_field=self.settings.time_field,
                    time_format=self.settings.time_format,
                    drop_unknown=self.settings.drop_unknown,
                )
                inbox = self._make_inbox(EventEncoder(words, self._host))
                inbox.open()
                self._made = parser, inbox
            return self._made

    def _schema(self) -> dict[str, Any]:
        given: Mapping[str, Any] | None = self.settings.schema
        return dict(given) if given is not None else dict(json.loads(self._newest_schema(f"{self.settings.topic}-value")))


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with their numbers from 1."""
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            yield number, line.rstrip(b"\r")


def _values(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield one object, or those of an array with their numbers from 1. Raises UnparsableLine."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnparsableLine(str(error)) from error
    if not isinstance(found, list):
        yield 1, body
        return
    for number, one in enumerate(found, 1):
        yield number, json.dumps(one).encode()
