"""Responses as flat tables of path and value, so that two servers' can be compared field by field. Pure.

Left out is what says nothing about behaviour: throttle times, the text of messages (only their presence beside success is shown),
and the order of lists, whose items are named by their subject.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

Table = dict[str, Any]

ABSENT = "absent"
ITEM = "an item"
_LEFT_OUT = ("throttle_time", "throttle_time_ms")
_MESSAGES = ("error_message",)
_NAMES = (
    "resource_type",
    "resource_name",
    "name",
    "topic",
    "partition_index",
    "index",
    "partition",
    "node_id",
    "broker_id",
    "api_key",
)


class Difference(NamedTuple):
    """One field in which two servers differ."""

    path: str
    theirs: Any
    ours: Any


def flat(answer: Any) -> Table:
    """Return every value in a response (kio's dataclasses, named tuples, mappings, plain values) by its path."""
    table: Table = {}
    _flatten("", _plain(answer), table)
    return table


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Difference]:
    """Return the fields in which two tables differ, by path; an item of a list that only one has is one difference."""
    found = []
    told: tuple[str, ...] = ()
    for path in sorted({*theirs, *ours}):
        one, other = theirs.get(path, ABSENT), ours.get(path, ABSENT)
        if one != other and not path.startswith(told):
            found.append(Difference(path, one, other))
            if ITEM in (one, other):
                told = (*told, path + ".", path + "[")
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _message({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return _message(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _message(value._asdict())
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | memoryview):
        return [_plain(one) for one in value]
    return value


def _message(values: Mapping[str, Any]) -> dict[str, Any]:
    is_fine = int(values.get("error_code", 0)) == 0
    kept = {
        name: _plain(value)
        for name, value in values.items()
        if name not in _LEFT_OUT and (name not in _MESSAGES or (is_fine and value))
    }
    if isinstance(kept.get("error_code"), int):
        kept["error_code"] = _code(kept["error_code"])
    return kept


def _code(number: int) -> str:
    try:
        return ErrorCode(number).name.lower()
    except ValueError:
        return str(number)


def _flatten(path: str, value: Any, table: Table) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _flatten(f"{path}.{name}" if path else name, inner, table)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        times: dict[str, int] = {}
        for one in value:
            name = "/".join(str(one[key]) for key in _NAMES if key in one)
            times[name] = times.get(name, 0) + 1
            again = f"#{times[name]}" if times[name] > 1 else ""
            table[f"{path}[{name}{again}]"] = ITEM
            _flatten(f"{path}[{name}{again}]", {key: inner for key, inner in one.items() if key not in _NAMES}, table)
    elif value != []:
        table[path] = value
