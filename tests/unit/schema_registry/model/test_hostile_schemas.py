"""Schemas that were made to cost much: their work grows with their length, or is refused at a limit that is stated."""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from headrace.schema_registry.errors import InvalidSchema
from headrace.schema_registry.model.avro_parser import ALIAS_LIMIT, NAME_LIMIT
from headrace.schema_registry.model.default_values import STEP_LIMIT, DefaultValues
from headrace.schema_registry.model.opaque import opaque_schema
from headrace.schema_registry.model.resolution import ReadablePairs, incompatibilities
from headrace.schema_registry.model.schema import parse_schema


def record(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": fields})


def enum(symbols: int) -> dict[str, Any]:
    return {"type": "enum", "name": "e", "symbols": [f"s{number}" for number in range(symbols)]}


MANY: dict[str, Callable[[int], str]] = {
    "names twice": lambda n: '{"type":"int",' + "".join(f'"k{number}":1,' for number in range(n)) + f'"k{n - 1}":2}}',
    "fields": lambda n: record([{"name": f"f{number}", "type": "int"} for number in range(n)]),
    "a field twice": lambda n: record([{"name": f"f{number % (n - 1)}", "type": "int"} for number in range(n)]),
    "symbols": lambda n: json.dumps(enum(n)),
    "branches": lambda n: json.dumps([{"type": "fixed", "name": f"f{number}", "size": 1} for number in range(n)]),
    "attributes": lambda n: json.dumps({"type": "int", **{f"k{number}": 1 for number in range(n)}}),
    "defaults of an enum": lambda n: record(
        [{"name": "a", "type": {"type": "array", "items": enum(n)}, "default": [f"s{n - 1}"] * n}]
    ),
}


def steps_of(work: Callable[[], object]) -> int:
    """Return how many lines of our code and starts of functions and generators the work takes."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if "schema_registry" not in frame.f_code.co_filename:
            return None
        steps += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return steps


def refused_or_not(text: str) -> None:
    try:
        parse_schema(text)
    except InvalidSchema:
        return


@pytest.mark.parametrize("kind", MANY)
def test_twice_as_long_a_schema_takes_twice_the_steps(kind: str) -> None:
    short, long = MANY[kind](100), MANY[kind](200)
    steps = [steps_of(lambda text=text: refused_or_not(text)) for text in (short, long)]  # type: ignore[misc]
    assert steps[0] > 10
    assert steps[1] <= 2.1 * steps[0]


def test_an_enum_is_not_searched_for_each_value() -> None:
    """`in` on a tuple takes no line of ours, so the kind of the container is what can be asked."""
    checked = DefaultValues()
    parsed = parse_schema(json.dumps(enum(50)))
    assert checked.why_not_a_value("s49", parsed.type) is None  # type: ignore[arg-type]
    assert isinstance(checked._symbols_of(parsed.type), frozenset)  # type: ignore[arg-type]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    "schema",
    [
        record(
            [
                {
                    "name": "a",
                    "default": [1] * 20_000,
                    "type": {"type": "array", "items": [{"type": "fixed", "name": f"x{n}", "size": 1} for n in range(1_000)]},
                }
            ]
        ),
        record(
            [
                {
                    "name": "a",
                    "default": nested(50),
                    "type": [
                        {
                            "type": "record",
                            "name": "A",
                            "fields": [
                                {"name": "x", "type": ["A", {"type": "record", "name": "B", "fields": [
                                    {"name": "x", "type": ["A", "B", "null"]}
                                ]}, "null"]}
                            ],
                        }
                    ],
                }
            ]
        ),
    ],
    ids=["items times branches", "two ways at every depth"],
)  # fmt: skip
def test_defaults_that_fit_in_very_many_ways_are_refused_at_the_limit(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.schema_registry.model.default_values.STEP_LIMIT", STEP_LIMIT // 10)
    with pytest.raises(InvalidSchema, match=r"more than 20000 steps|does not fit its type") as refused:
        parse_schema(schema)
    assert refused.value.error_code == 42209 or "[1, 1" in str(refused.value)


def test_names_and_aliases_have_a_length_and_a_number() -> None:
    fits = {"type": "fixed", "name": "x", "namespace": "n" * (NAME_LIMIT - 2), "size": 1, "aliases": ["a"] * ALIAS_LIMIT}
    assert parse_schema(json.dumps(fits)).type.kind == "fixed"
    for word, value in (("namespace", "n" * NAME_LIMIT), ("aliases", ["a"] * (ALIAS_LIMIT + 1)), ("aliases", ["a" * 600])):
        with pytest.raises(InvalidSchema, match=f"{NAME_LIMIT}|{ALIAS_LIMIT}"):
            parse_schema(json.dumps({**fits, word: value}))


def test_what_a_comparison_looks_at_is_counted() -> None:
    old = parse_schema(record([{"name": f"f{n}", "type": "int"} for n in range(100)])).type
    new = parse_schema(record([{"name": f"g{n}", "type": "int", "default": 1} for n in range(100)])).type
    assert ReadablePairs(new, old).steps >= 200
    assert ReadablePairs(parse_schema(json.dumps(enum(300))).type, parse_schema(json.dumps(enum(200))).type).steps >= 500


def test_a_message_names_the_first_of_many_and_counts_the_rest() -> None:
    reader, writer = parse_schema(json.dumps(enum(1))).type, parse_schema(json.dumps(enum(500))).type
    (fault,) = incompatibilities(reader=reader, writer=writer)
    assert "and 479 more" in fault.reason
    branches = parse_schema(json.dumps([{"type": "fixed", "name": f"f{n}", "size": 1} for n in range(500)])).type
    (fault, *_) = incompatibilities(reader=branches, writer=parse_schema('"string"').type)
    assert "and 480 more" in fault.reason


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 310 + ".0", "NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("place", ['"default": %s', '"note": {"deep": [%s]}'])
def test_a_number_that_no_double_holds_is_refused(number: str, place: str) -> None:
    text = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "double", ' + place % number + "}]}"
    with pytest.raises(InvalidSchema, match=r"too large for a double|not a JSON number"):
        parse_schema(text)
    with pytest.raises(InvalidSchema):
        opaque_schema(text, (), "JSON")


def test_what_an_earlier_version_stored_is_read_back() -> None:
    stored = '{"type":"record","name":"r","fields":[{"name":"a","type":"double","default":Infinity}]}'
    assert parse_schema(stored, is_stored=True).text == stored
    with pytest.raises(InvalidSchema):
        parse_schema(stored)
