"""From lines to the records of a chunk: events as Avro bodies, and what can be no event for quarantine. Pure.

Hot: `encode` runs once per line.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ...audit.model.windows import WINDOW_MS, dated, window_start_ms
from ...sdk.encoding.event_encoder import EventEncoder
from ...sdk.errors import EventRefused
from ...wire.quarantine_record import FileOrigin, QuarantineRecord, head_of
from ..parsers.access_log import AccessLogParser
from ..parsers.access_log_bodies import AccessLogBodies
from ..parsers.parser import LineParser, UnparsableLine
from ..plan.events import Events, ListedEvents, NativeEvents, new_events


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesAt:
    """Where the lines of a block stand."""

    path: str
    file_id: str
    offset: int
    line: int | None
    """Lines before the first one."""
    previous_ms: int | None
    at_ms: int
    """The time of lines without a time of their own."""


@dataclass(slots=True, kw_only=True)
class Encoded:
    """What became of the lines of a block."""

    records: Events
    quarantined: list[QuarantineRecord] = field(default_factory=list)
    previous_ms: int | None
    """The time of the last line that has one."""


class LineEncoder:
    """Encodes the lines of one section's files."""

    def __init__(
        self, parser: LineParser, *, topic: str, server_name: str, line_limit_bytes: int, window_ms: int = WINDOW_MS
    ) -> None:
        self._parser = parser
        self._encoder = EventEncoder(parser.schema, server_name)
        self.schema = self._encoder.text
        self._bodies = AccessLogBodies(server_name) if isinstance(parser, AccessLogParser) else None
        self._topic = topic
        self._limit_bytes = line_limit_bytes
        self._window_ms = window_ms

    def encode(self, lines: list[bytes], too_long: Container[int], lengths: Sequence[int], at: LinesAt) -> Encoded:
        """Return what the lines hold. `lengths`: how many lines of the file each of them is (more than 1 for joined ones)."""
        records = new_events()
        result = Encoded(records=records, previous_ms=at.previous_ms)
        offsets: list[int] = []
        numbers: list[int] = []
        put = records.append
        time_ms = at.previous_ms
        index = 0
        while True:
            if self._bodies is not None and not too_long:
                index, time_ms = _take_plain(lines, index, time_ms, self._bodies, records)
            if index >= len(lines):
                break
            line = lines[index]
            parsed = None
            try:
                if index in too_long:
                    raise _LineTooLong(f"it is longer than {self._limit_bytes} bytes: only its beginning is kept")
                parsed = self._parser.parse(line)
                own_ms = at.at_ms if parsed.time_ms is None else parsed.time_ms
                put(own_ms, None, self._encoder.encode(parsed.event, own_ms))
                time_ms = own_ms
            except (UnparsableLine, EventRefused) as error:
                if not offsets:
                    offsets = [0, *accumulate(len(one) + 1 for one in lines)]
                    numbers = [0, *accumulate(lengths)] if lengths else []
                number = None if at.line is None else at.line + (numbers[index] if numbers else index) + 1
                own = parsed.time_ms if parsed is not None else self._parser.time_of(line[: self._limit_bytes])
                origin = FileOrigin(file=at.path, line=number, offset=at.offset + offsets[index], file_id=at.file_id)
                result.quarantined.append(self._refused(line, error, origin, own, time_ms, at.at_ms))
            index += 1
        result.previous_ms = time_ms
        return result

    def _refused(
        self,
        line: bytes,
        error: UnparsableLine | EventRefused,
        origin: FileOrigin,
        own_ms: int | None,
        previous_ms: int | None,
        at_ms: int,
    ) -> QuarantineRecord:
        time_ms, window_from = dated(own_ms, previous_ms=previous_ms, clock_ms=at_ms)
        where = f"byte {origin.offset}" if origin.line is None else f"line {origin.line}"
        return QuarantineRecord(
            topic=self._topic,
            stage="agent",
            code=error.code if isinstance(error, UnparsableLine) else "schema_mismatch",
            reason=f"{where}: {error}",
            origin=origin,
            window_start_ms=window_start_ms(time_ms, self._window_ms),
            window_from=window_from,
            at_ms=at_ms,
            payload=head_of(line[: self._limit_bytes].rstrip(b"\r")),
        )


def _take_plain(
    lines: list[bytes], index: int, time_ms: int | None, bodies: AccessLogBodies, into: ListedEvents | NativeEvents
) -> tuple[int, int | None]:
    """Take lines of an access log from `index` on, as far as they are plain. Return where they end, and the last one's time."""
    if isinstance(into, NativeEvents):
        behind, last_ms = into.native.take_access_log(lines, index, bodies.server)
        return behind, last_ms if behind > index else time_ms
    encode, put = bodies.encode, into.append
    for at in range(index, len(lines)):
        found = encode(lines[at])
        if found is None:
            return at, time_ms
        time_ms, body = found
        put(time_ms, None, body)
    return len(lines), time_ms


class _LineTooLong(UnparsableLine):
    code = "line_too_long"
