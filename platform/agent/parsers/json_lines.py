"""The parser of JSON lines: one object in a line, its names the schema's fields. Pure.

Types are the schema's: the encoder refuses a string where a number belongs. Names that the schema lacks are refused too, unless
`drop_unknown`.
"""

import json
from typing import Any, NoReturn

from ...sdk.event_schema import EVENT_TIME, SERVER
from .event_times import TimeFormat
from .line_text import line_text
from .parser import ParsedLine, UnparsableLine


class JsonLinesParser:
    """Parses objects of one schema."""

    def __init__(
        self,
        schema: dict[str, Any],
        *,
        time_field: str | None,
        time_format: TimeFormat,
        drop_unknown: bool = False,
        replace_invalid: bool = False,
    ) -> None:
        """`time_field` is the name that holds the event time; None: lines have no time."""
        self.schema = schema
        self._names = {field["name"] for field in schema["fields"]} - {EVENT_TIME, SERVER}
        self._time_field = time_field
        self._time_format = time_format
        self._drop_unknown = drop_unknown
        self._replace_invalid = replace_invalid

    def parse(self, line: bytes) -> ParsedLine:
        """Return the object. Raises `UnparsableLine`: no JSON, no object, a name twice, no readable time, unknown names."""
        text = line_text(line, replace_invalid=self._replace_invalid)
        try:
            event = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        except UnparsableLine:
            raise
        except (ValueError, RecursionError) as error:
            raise UnparsableLine(f"it is not JSON: {error}") from error
        if not isinstance(event, dict):
            raise UnparsableLine(f"it is a JSON {type(event).__name__}, no object")
        time_ms = None
        if self._time_field is not None:
            if self._time_field not in event:
                raise UnparsableLine(f"it has no {self._time_field!r}, which holds the time")
            value = event[self._time_field] if self._time_field in self._names else event.pop(self._time_field)
            time_ms = self._time_format.ms_of(value)
            if time_ms is None:
                raise UnparsableLine(f"{self._time_field!r} is {_short(value)}, no time of the format {self._time_format.name}")
        unknown = event.keys() - self._names
        if unknown:
            if not self._drop_unknown:
                raise UnparsableLine(
                    f'the schema has no {", ".join(sorted(unknown)[:3])}: add them to the fields, or set unknown_fields = "drop"'
                )
            for name in unknown:
                del event[name]
        return ParsedLine(event, time_ms)

    def time_of(self, line: bytes) -> int | None:
        """Return the time of a line that is JSON and yet no event."""
        if self._time_field is None:
            return None
        try:
            event = json.loads(line.decode(errors="replace"))
            return self._time_format.ms_of(event.get(self._time_field)) if isinstance(event, dict) else None
        except (ValueError, RecursionError):
            return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise UnparsableLine(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _no_number(word: str) -> NoReturn:
    raise UnparsableLine(f"{word} is not a JSON number")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
