"""What filters narrow: never a record away that satisfies them. Spark's own meaning of a filter is said again here, by value."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from headrace.spark.data_source.filters import Bounds, bounds_of

NAMES = ["partition", "offset", "timestamp"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def satisfies(one: Filter, row: dict[str, Any]) -> bool:
    if isinstance(one, Not):
        return not satisfies(one.child, row)
    value = row[one.attribute[0]]  # type: ignore[attr-defined]
    match one:
        case EqualTo() | EqualNullSafe():
            return bool(value == one.value)
        case GreaterThan():
            return bool(value > one.value)
        case GreaterThanOrEqual():
            return bool(value >= one.value)
        case LessThan():
            return bool(value < one.value)
        case LessThanOrEqual():
            return bool(value <= one.value)
        case In():
            return value in one.value
        case IsNotNull():
            return True
    return False


def filters() -> st.SearchStrategy[Filter]:
    numbers = st.integers(-3, 12)
    values = st.sampled_from(NAMES).flatmap(
        lambda name: st.tuples(
            st.just((name,)),
            st.integers(-5_000, 12_000).map(instant) if name == "timestamp" else numbers,
        )
    )
    compared = st.builds(
        lambda kind, both: kind(*both),
        st.sampled_from([EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
        values,
    )
    listed = st.lists(values, min_size=1, max_size=3).map(
        lambda some: In(some[0][0], tuple(value for name, value in some if name == some[0][0]))
    )
    return st.one_of(compared, listed, compared.map(Not), listed.map(Not), values.map(lambda both: IsNotNull(both[0])))


@given(st.lists(filters(), max_size=4), st.integers(0, 4), st.integers(0, 10), st.integers(-5, 12))
def test_a_record_that_satisfies_the_filters_is_within_the_bounds(
    some: list[Filter], partition: int, offset: int, timestamp_ms: int
) -> None:
    row = {"partition": partition, "offset": offset, "timestamp": instant(timestamp_ms * 1_000)}
    if all(satisfies(one, row) for one in some):
        assert bounds_of(some, NAMES).has(partition, offset, timestamp_ms)


@given(st.lists(filters().filter(lambda one: not isinstance(one, (Not, In))), max_size=4), st.integers(0, 4), st.integers(0, 10))
def test_without_lists_and_denials_the_bounds_are_exact(some: list[Filter], partition: int, offset: int) -> None:
    some = [one for one in some if one.attribute[0] != "partition" or isinstance(one, (EqualTo, EqualNullSafe))]  # type: ignore[attr-defined]
    row = {"partition": partition, "offset": offset, "timestamp": instant(4_000)}
    assert bounds_of(some, NAMES).has(partition, offset, 4) == all(satisfies(one, row) for one in some)


def test_fields_of_the_event_with_such_names_are_not_those_of_the_record() -> None:
    some = [EqualTo(("offset",), 3), LessThan(("event", "timestamp"), instant(0)), EqualTo(("_offset",), 7)]
    assert bounds_of(some, ["_offset"]) == Bounds(from_offset=7, to_offset=8)


def test_what_cannot_be_understood_bounds_nothing() -> None:
    some: list[Filter] = [
        EqualTo(("timestamp",), datetime(2026, 1, 1)),
        GreaterThan(("timestamp",), "2026"),
        EqualTo(("partition",), None),
        EqualTo(("offset",), 1.5),
        In(("offset",), (1, None, "x")),
        IsNull(("offset",)),
        StringStartsWith(("topic",), "c"),
        EqualTo(("partition",), True),
    ]
    assert bounds_of(some, [*NAMES, "topic"]) == Bounds()
