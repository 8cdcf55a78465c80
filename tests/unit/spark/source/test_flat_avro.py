"""Blocks decoded in C mean what fastavro says of each body: random flat schemas, values and damage, both ways compared."""

import io
import json
import math
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.source.columns import SYSTEM_COLUMNS, writer_columns
from headrace.spark.source.decoding import BlockDecoder, Decoded
from headrace.spark.source.flat_avro import FlatAvro
from headrace.wire.batch.record_batch import Record
from headrace.wire.schema_id import frame

pytestmark = pytest.mark.needs("native")

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("boolean", st.booleans()),
    ("string", st.text(max_size=200)),
    ("bytes", st.binary(max_size=20)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(2**40), 2**44)),
    ({"type": "int", "logicalType": "date"}, st.integers(-700_000, 2_900_000)),
]
# A named type may be declared once in a schema: an enum only as the first field.
FIELD = st.sampled_from(range(len(VALUES)))
NULLS = st.sampled_from(["never", "first", "second"])


@st.composite
def schemas_with_events(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kinds: list[tuple[Any, st.SearchStrategy[Any]]] = [VALUES[index] for index in draw(st.lists(FIELD, max_size=6))]
    if draw(st.booleans()):
        kinds.insert(0, (ENUM, st.sampled_from(ENUM["symbols"])))
    fields, values = [], {}
    for number, (kind, some) in enumerate(kinds):
        nulls = draw(NULLS)
        fields.append({"name": f"f{number}", "type": {"never": kind, "first": ["null", kind], "second": [kind, "null"]}[nulls]})
        values[f"f{number}"] = some if nulls == "never" else st.none() | some
    events = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=12))
    return {"type": "record", "name": "R", "fields": fields}, events


def body(schema: Any, event: Any) -> bytes:
    plain = json.loads(json.dumps(schema).replace('"logicalType"', '"was"'))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain), event)
    return stream.getvalue()


def records(payloads: list[bytes]) -> list[Record]:
    return [Record(number, 1_000 + number, None, frame(7, payload), ()) for number, payload in enumerate(payloads)]


def decoder(schema: Any, *, is_flat: bool) -> BlockDecoder:
    text = json.dumps(schema)
    target = pa.schema([*writer_columns(text).fields(), *SYSTEM_COLUMNS])
    with pytest.MonkeyPatch.context() as patch:
        if not is_flat:
            patch.setattr("headrace.spark.source.decoding.FlatAvro.of", lambda avro, wanted: None)
        found = BlockDecoder(target, 3, lambda schema_id: text)
        found.decode([Record(0, 0, None, frame(7, b""), ())])  # looks at the schema
    return found


def meaning(decoded: Decoded) -> tuple[list[Any], list[Any]]:
    """Return rows and rejects as values that are equal to themselves; times as numbers, which Python's own cannot hold."""
    rows = []
    for batch in decoded.rows:
        batch.validate(full=True)
        numbers = [_as_number(column) for column in batch.columns]
        plain = pa.RecordBatch.from_arrays(numbers, names=batch.schema.names)
        rows += [{name: _itself(value) for name, value in row.items()} for row in plain.to_pylist()]
    return rows, [(one.record.offset, one.code) for one in decoded.rejected]


def _as_number(column: pa.Array) -> pa.Array:
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _itself(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@settings(max_examples=300, deadline=None)
@given(schemas_with_events())
def test_sound_blocks_are_decoded_at_once_and_mean_the_same(one: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    schema, events = one
    payloads = [body(schema, event) for event in events]
    flat = FlatAvro.of(writer_columns(json.dumps(schema)).avro)
    assert flat is not None
    assert flat.decode([frame(7, payload) for payload in payloads]) is not None
    both = [meaning(decoder(schema, is_flat=is_flat).decode(records(payloads))) for is_flat in (True, False)]
    assert both[0] == both[1]
    assert len(both[0][0]) == len(events)


@settings(max_examples=500, deadline=None)
@given(schemas_with_events(), st.data())
def test_damaged_blocks_mean_the_same(one: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject) -> None:
    schema, events = one
    payloads = [bytearray(body(schema, event)) for event in events]
    for _ in range(data.draw(st.integers(1, 2))):
        damaged = payloads[data.draw(st.integers(0, len(payloads) - 1))]
        at = data.draw(st.integers(0, len(damaged)))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "junk"])):
            case "flip" if at < len(damaged):
                damaged[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del damaged[at:]
            case "insert":
                damaged[at:at] = data.draw(st.binary(min_size=1, max_size=11))
            case _:
                damaged[at:] = data.draw(st.binary(max_size=40))
    both = [meaning(decoder(schema, is_flat=is_flat).decode(records([*map(bytes, payloads)]))) for is_flat in (True, False)]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "long"},
        {"type": "array", "items": "long"},
        {"type": "fixed", "name": "F", "size": 4},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        ["null", "long", "string"],
        ["long"],
        ["long", "string"],
        "null",
        ["null", {"type": "record", "name": "I", "fields": []}],
    ],
)
def test_what_is_not_flat_is_left_to_fastavro(kind: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    assert FlatAvro.of(writer_columns(json.dumps(schema)).avro) is None


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("boolean", b"\x02"),
        (["null", "long"], b"\x04\x02"),
        (["null", "long"], b"\x82\x00\x02"),
        ("long", b"\x80" * 9 + b"\x02"),
        ("string", b"\x02\xff"),
        ("string", b"\x01"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("bytes", b"\x04a"),
        ("double", b"\x00" * 7),
        (ENUM, b"\x06"),
        (ENUM, b"\x01"),
        ("long", b""),
        ("long", b"\x02\x02"),
    ],
)
def test_what_decoders_could_read_differently_is_not_taken(kind: Any, payload: bytes) -> None:
    flat = FlatAvro.of({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]})
    assert flat is not None
    assert flat.decode([frame(7, payload)]) is None


def test_columns_that_no_buffer_holds_are_not_made() -> None:
    flat = FlatAvro.of({"type": "record", "name": "R", "fields": []})
    assert flat is not None
    assert flat.decode([frame(7, b"")] * 3) == {}
