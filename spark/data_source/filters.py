"""What Spark's filters say about partition, offset and time. Pure.

Only narrows: each record that satisfies the filters is within the bounds. Spark applies every filter again, so what these bounds
cannot say costs time and no row.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

PARTITION = ("_topic_partition", "partition")
OFFSET = ("_offset", "offset")
TIME = ("_timestamp", "timestamp")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Records of these partitions, from these offsets and times on and before those. None: unbounded."""

    partitions: frozenset[int] | None = None
    from_offset: int = 0
    to_offset: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def has_time(self, timestamp_ms: int) -> bool:
        return (self.from_ms is None or self.from_ms <= timestamp_ms) and (self.to_ms is None or timestamp_ms < self.to_ms)

    def has(self, partition: int, offset: int, timestamp_ms: int) -> bool:
        return (
            (self.partitions is None or partition in self.partitions)
            and self.from_offset <= offset
            and (self.to_offset is None or offset < self.to_offset)
            and self.has_time(timestamp_ms)
        )


def bounds_of(filters: Iterable[Filter], names: Iterable[str]) -> Bounds:
    """Return the bounds of all filters together. `names`: the columns that are of the record; others are the event's own."""
    found, known = Bounds(), set(names)
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        name = path[0] if len(path) == 1 else ""
        if name not in known:
            continue
        if name in PARTITION:
            found = _with_partition(found, one)
        elif name in OFFSET:
            found = _with_offset(found, one)
        elif name in TIME:
            found = _with_time(found, one)
    return found


def _with_partition(bounds: Bounds, one: Filter) -> Bounds:
    if isinstance(one, (EqualTo, EqualNullSafe)):
        named = [one.value]
    elif isinstance(one, In):
        named = [value for value in one.value if value is not None]
    else:
        return bounds
    if not all(type(value) is int for value in named):
        return bounds
    partitions = frozenset(named)
    return replace(bounds, partitions=partitions if bounds.partitions is None else bounds.partitions & partitions)


def _with_offset(bounds: Bounds, one: Filter) -> Bounds:
    from_, to = _whole(one)
    return replace(
        bounds,
        from_offset=bounds.from_offset if from_ is None else max(bounds.from_offset, from_),
        to_offset=_least(bounds.to_offset, to),
    )


def _whole(one: Filter) -> tuple[int | None, int | None]:
    """Return the half-open range of whole numbers that satisfy a filter."""
    if isinstance(one, In):
        values = [value for value in one.value if value is not None]
        return (min(values), max(values) + 1) if values and all(type(value) is int for value in values) else (None, None)
    value: Any = getattr(one, "value", None)
    if type(value) is not int:
        return None, None
    match one:
        case EqualTo() | EqualNullSafe():
            return value, value + 1
        case GreaterThan():
            return value + 1, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value
        case LessThanOrEqual():
            return None, value + 1
    return None, None


def _with_time(bounds: Bounds, one: Filter) -> Bounds:
    """Spark has microseconds, records have milliseconds."""
    from_us, to_us = _micros(one)
    from_ms = bounds.from_ms if from_us is None else -(-from_us // 1_000)
    to_ms = None if to_us is None else -(-to_us // 1_000)
    if bounds.from_ms is not None and from_ms is not None:
        from_ms = max(bounds.from_ms, from_ms)
    return replace(bounds, from_ms=from_ms, to_ms=_least(bounds.to_ms, to_ms))


def _micros(one: Filter) -> tuple[int | None, int | None]:
    if isinstance(one, In):
        found = [_micros_of(value) for value in one.value if value is not None]
        known = [micros for micros in found if micros is not None]
        return (min(known), max(known) + 1) if known and len(known) == len(found) else (None, None)
    micros = _micros_of(getattr(one, "value", None))
    if micros is None:
        return None, None
    match one:
        case EqualTo() | EqualNullSafe():
            return micros, micros + 1
        case GreaterThan():
            return micros + 1, None
        case GreaterThanOrEqual():
            return micros, None
        case LessThan():
            return None, micros
        case LessThanOrEqual():
            return None, micros + 1
    return None, None


def _micros_of(value: Any) -> int | None:
    """Return an instant's microseconds since 1970; None for what is not an instant (a time without a zone)."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
