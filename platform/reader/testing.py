"""For an application's own tests: feeds events to a handler as a reader would, without a broker.

    fed = feed(handle, [Click("ann", "/"), Click("bob", "/a")], topic="clicks")
    assert fed.handled_count == 2

Each event is encoded with the schema of its writer and decoded into the reader's class. What does not fit goes to quarantine, as
it would in production.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..client.consumer.stream_message import Message
from ..runtime.lifecycle import StopSignal
from ..schema_registry.client import UnknownSchemaId
from ..sdk.encoding.event_encoder import EventEncoder
from ..sdk.forms.event_form import Described, EventForm, form_of
from ..wire.schema_id import frame
from .decoding.event_decoder import EventDecoder, Undecodable
from .errors import ReaderMisused
from .handling import HandledRecords, OnError, Stop
from .record import EventRecord

START_MS = 1_790_000_400_000
"""The event time of the first event, unless given."""
SERVER_NAME = "testing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One event with what belongs to its record. `event`: an instance of a dataclass, a mapping (then with `schema`), or bytes:
    the record's payload as it stands.
    """

    event: Any
    schema: Described | None = None
    """The writer's; None: that of the event's own class."""
    partition: int = 0
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    """Event time; None: a millisecond after that of the event before it."""


class Quarantined(NamedTuple):
    """A record that would be in the topic `<topic>.quarantine`."""

    partition: int
    offset: int
    code: str
    reason: str


@dataclass(slots=True)
class Fed:
    """What became of the events."""

    handled: list[EventRecord] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)

    @property
    def handled_count(self) -> int:
        return len(self.handled)


def feed(
    handle: Callable[[EventRecord], object],
    events: Iterable[Any],
    *,
    event_class: type | None = None,
    schema: Described | None = None,
    topic: str = "events",
    on_error: OnError = Stop(),  # noqa: B008
) -> Fed:
    """Call `handle` with each event, in order, and return what became of them. Without network, and without threads.

    `events`: instances of a dataclass, or `Given` for more. `schema` (or a class): the writers', where it is not that of the
    events' own class; mappings need it. `event_class`: the reader's, if it is another than the events'; mappings are decoded into
    dicts without it. A handler may be a coroutine function; then call this outside of an event loop. Raises HandlerFailed
    (on_error=Stop()), EventRefused for an event that its own writer would refuse, and ReaderMisused.
    """
    fed, writers, offsets = Fed(), _Writers(), dict[int, int]()
    take = _Handling(handle, on_error)
    decoders: dict[type | None, EventDecoder] = {}
    time_ms = START_MS - 1
    for one in events:
        given = one if isinstance(one, Given) else Given(event=one)
        time_ms = time_ms + 1 if given.timestamp_ms is None else given.timestamp_ms
        payload = given.event if isinstance(given.event, bytes) else writers.payload(given, schema, time_ms)
        offset = offsets.get(given.partition, 0)
        offsets[given.partition] = offset + 1
        message = Message(topic, given.partition, offset, offset + 1, time_ms, given.key, payload, given.headers)
        into = event_class or (type(given.event) if not isinstance(given.event, (bytes, Mapping)) else None)
        decoder = decoders.setdefault(into, EventDecoder(writers, into))
        try:
            record = EventRecord(message, int.from_bytes(payload[1:5], "big"), decoder.decode(payload))
        except Undecodable as fault:
            fed.quarantined.append(Quarantined(given.partition, offset, fault.code, str(fault)))
            continue
        refused = take(record)
        if refused is None:
            fed.handled.append(record)
        else:
            fed.quarantined.append(Quarantined(given.partition, offset, refused[1], refused[0]))
    return fed


class _Writers:
    """The schemas of the events, and their registry."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[EventForm, EventEncoder, int]] = {}
        self._texts: dict[int, str] = {}
        self._kept: list[Any] = []

    def schema(self, schema_id: int) -> str:
        if schema_id not in self._texts:
            raise UnknownSchemaId(f"headrace.reader.testing has no schema {schema_id}", schema_id=schema_id)
        return self._texts[schema_id]

    def payload(self, given: Given, schema: Described | None, timestamp_ms: int) -> bytes:
        described = given.schema or schema or type(given.event)
        if described in (dict, *Mapping.__subclasses__()):
            raise ReaderMisused("an event that is a mapping needs the schema of its writer: feed(…, schema=…)")
        known = self._known.get(id(described))
        if known is None:
            form = form_of(described)
            encoder = EventEncoder(form.schema, SERVER_NAME)
            known = self._known[id(described)] = (form, encoder, len(self._known) + 1)
            self._texts[known[2]] = encoder.text
            self._kept.append(described)  # so that its id stays its own
        form, encoder, schema_id = known
        return frame(
            schema_id, encoder.encode(given.event if form.to_mapping is None else form.to_mapping(given.event), timestamp_ms)
        )


async def _awaited(result: Awaitable[object]) -> object:
    return await result


class _Handling:
    """The reader's own way with a handler and its errors."""

    def __init__(self, handle: Callable[[EventRecord], object], on_error: OnError) -> None:
        def handle_now(record: EventRecord) -> object:
            result = handle(record)
            return asyncio.run(_awaited(result)) if inspect.iscoroutine(result) else result

        self._records = HandledRecords(handle_now, on_error, StopSignal())

    def __call__(self, record: EventRecord) -> tuple[str, str] | None:
        """Return why the record was refused, with the code; None: it was handled."""
        self._records.take(record)
        for _, reason, code in self._records.flush({record.of: record.offset + 1}):
            return reason, code
        return None
