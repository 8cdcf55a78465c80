"""The parser for lines of any kind: the event is the line, as one string. Pure."""

from typing import Any

from ...sdk.event_schema import event_schema
from .line_text import line_text
from .parser import ParsedLine

LINE_FIELD = "line"
RAW_SCHEMA = event_schema("RawLine", [{"name": LINE_FIELD, "type": "string"}], doc="One line of a file.")


class RawLineParser:
    """Every line is an event. It has no time of its own."""

    schema: dict[str, Any] = RAW_SCHEMA

    def __init__(self, *, replace_invalid: bool = False) -> None:
        self._replace_invalid = replace_invalid

    def parse(self, line: bytes) -> ParsedLine:
        """Return the line. Raises `UnparsableLine` where it is not UTF-8."""
        return ParsedLine({LINE_FIELD: line_text(line, replace_invalid=self._replace_invalid)}, None)

    def time_of(self, line: bytes) -> int | None:
        return None
