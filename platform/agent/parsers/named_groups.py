"""The parser of lines that a regular expression takes apart: its named groups are the event's fields. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import HeadraceError
from ...sdk.event_schema import EVENT_TIME, SERVER, event_schema, nullable
from .event_times import TimeFormat
from .line_text import line_text
from .parser import ParsedLine, UnparsableLine

_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FRACTION = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


class PatternRefused(HeadraceError):
    """The pattern is not a regular expression that yields events; the message says why, and what to do."""


class NotOfType(ValueError):
    """The text is not a value of the type."""


def _string(text: str) -> str:
    return text


def _integer(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise NotOfType
    return int(text)


def _float(text: str) -> float:
    if _FRACTION.fullmatch(text) is None:
        raise NotOfType
    return float(text)


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise NotOfType
    return _TRUTH[text.lower()]


READERS: dict[str, Callable[[str], Any]] = {
    "string": _string, "int": _integer, "long": _integer, "float": _float, "double": _float, "boolean": _boolean,
}  # fmt: skip
"""Avro type → the function that reads it from text."""


class NamedGroupsParser:
    """Parses lines by one pattern, which must match the whole line. A group that is missing, empty or `-` is null."""

    def __init__(
        self,
        pattern: str,
        *,
        name: str,
        types: Mapping[str, str],
        time_group: str | None,
        time_format: TimeFormat,
        replace_invalid: bool = False,
    ) -> None:
        """`types`: group → Avro type, `string` where it names none. `time_group` holds the event time and is not a field of its
        own.

        Raises `PatternRefused`.
        """
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise PatternRefused(f"the pattern is not a regular expression: {error}") from error
        groups = list(self._pattern.groupindex)
        if not groups:
            raise PatternRefused("the pattern has no named group: write (?P<name>…) around each field")
        strange = [group for group in groups if not group.isascii()]
        if strange:
            raise PatternRefused(f"the group {strange[0]} can be no field of an Avro schema: use letters, digits and _")
        taken = [group for group in groups if group in (EVENT_TIME, SERVER) and group != time_group]
        if taken:
            raise PatternRefused(f"the group {taken[0]} has the name of a field that every event has: give it another one")
        missing = [group for group in (*types, *([time_group] if time_group else [])) if group not in groups]
        if missing:
            raise PatternRefused(f"the pattern has no group {missing[0]}: it has {', '.join(groups)}")
        wrong = [group for group, avro_type in types.items() if avro_type not in READERS]
        if wrong:
            raise PatternRefused(f"the type of {wrong[0]} is {types[wrong[0]]}: give one of {', '.join(READERS)}")
        fields = [group for group in groups if group != time_group]
        self.schema = event_schema(name, [nullable(field, types.get(field, "string")) for field in fields])
        self._readers = [(field, types.get(field, "string"), READERS[types.get(field, "string")]) for field in fields]
        self._time_group = time_group
        self._time_format = time_format
        self._replace_invalid = replace_invalid

    def parse(self, line: bytes) -> ParsedLine:
        """Return the groups. Raises `UnparsableLine`: no match, a value not of its type, no readable time."""
        text = line_text(line, replace_invalid=self._replace_invalid)
        found = self._pattern.fullmatch(text)
        if found is None:
            raise UnparsableLine("the pattern does not match it")
        event: dict[str, Any] = {}
        for field, avro_type, read in self._readers:
            value = found[field]
            if value is None or value in ("-", ""):
                event[field] = None
                continue
            try:
                event[field] = read(value)
            except ValueError as error:
                raise UnparsableLine(f"{field} is {value[:60]!r}, no {avro_type}") from error
        if self._time_group is None:
            return ParsedLine(event, None)
        time_ms = self._time_format.ms_of(found[self._time_group])
        if time_ms is None:
            raise UnparsableLine(
                f"{self._time_group} is {found[self._time_group]!r}, no time of the format {self._time_format.name}"
            )
        return ParsedLine(event, time_ms)

    def time_of(self, line: bytes) -> int | None:
        """Return the time of a line that matches and yet is not an event."""
        found = self._pattern.fullmatch(line.decode(errors="replace").removesuffix("\r"))
        return None if found is None or self._time_group is None else self._time_format.ms_of(found[self._time_group])
