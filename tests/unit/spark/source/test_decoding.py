"""Payloads become rows by their writer's schema; what does not fit comes out by itself and harms no neighbour."""

import io
import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

from headrace.spark.source.columns import SYSTEM_COLUMNS, writer_columns
from headrace.spark.source.decoding import BlockDecoder, Decoded
from headrace.wire.batch.record_batch import Record
from headrace.wire.schema_id import frame

CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "status", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}, "default": {}},
    ],
}


def body(schema: Any, event: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), event)
    return stream.getvalue()


def record(offset: int, value: bytes | None, timestamp_ms: int = 1_000) -> Record:
    return Record(offset, timestamp_ms, None, value, ())


def target(*schemas: Any) -> pa.Schema:
    fields = {field.name: field for schema in schemas for field in writer_columns(json.dumps(schema)).fields()}
    return pa.schema([*fields.values(), *SYSTEM_COLUMNS])


def decoder(schemas: dict[int, Any], columns: pa.Schema | None = None) -> BlockDecoder:
    columns = columns or target(*schemas.values())
    return BlockDecoder(columns, 3, lambda schema_id: json.dumps(schemas[schema_id]) if schema_id in schemas else None)


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [row for batch in decoded.rows for row in batch.to_pylist()]
    return found


def click(status: int = 200) -> dict[str, Any]:
    return {"path": "/a", "status": status, "at": datetime(2015, 5, 17, 10, tzinfo=UTC), "tags": {"k": None, "l": "v"}}


def test_an_event_becomes_a_row_with_its_address() -> None:
    decoded = decoder({7: CLICK}).decode([record(41, frame(7, body(CLICK, click())), timestamp_ms=1_431_856_800_123)])
    assert decoded.rejected == []
    (row,) = rows(decoded)
    assert row == {
        "path": "/a",
        "status": 200,
        "at": datetime(2015, 5, 17, 10, tzinfo=UTC),
        "tags": [("k", None), ("l", "v")],
        "_topic_partition": 3,
        "_offset": 41,
        "_timestamp": datetime(2015, 5, 17, 10, 0, 0, 123_000, tzinfo=UTC),
        "_schema_id": 7,
    }


def test_each_writer_s_own_schema_decodes_its_events_and_missing_columns_are_null() -> None:
    older = {"type": "record", "name": "Click", "fields": CLICK["fields"][:1]}
    decoded = decoder({1: older, 2: CLICK}).decode(
        [record(0, frame(1, body(older, {"path": "/old"}))), record(1, frame(2, body(CLICK, click())))]
    )
    assert [(row["path"], row["status"], row["_schema_id"]) for row in rows(decoded)] == [("/old", None, 1), ("/a", 200, 2)]


def test_what_does_not_fit_is_named_and_the_others_are_rows() -> None:
    good = frame(7, body(CLICK, click()))
    payloads = [good, b"", None, b"\x01abcdef", frame(99, b"x"), good[:-3], good + b"!", frame(7, b"\xff" * 30), good]
    decoded = decoder({7: CLICK}).decode([record(at, payload) for at, payload in enumerate(payloads)])
    assert [row["_offset"] for row in rows(decoded)] == [0, 8]
    assert {one.record.offset: one.code for one in decoded.rejected} == {
        1: "not_framed",
        2: "not_framed",
        3: "not_framed",
        4: "unknown_schema_id",
        5: "schema_mismatch",
        6: "schema_mismatch",
        7: "schema_mismatch",
    }
    reasons = {one.record.offset: one.reason for one in decoded.rejected}
    assert "has no schema with id 99" in reasons[4]
    assert "1 bytes are left over" in reasons[6]


def test_a_value_that_fits_avro_and_no_column_is_found_by_itself() -> None:
    instant = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "T", "fields": [{"name": "at", "type": instant}]}
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]}
    values = [5, 1 << 60, 6]
    decoded = decoder({1: schema}).decode([record(at, frame(1, body(plain, {"at": value}))) for at, value in enumerate(values)])
    assert [row["_offset"] for row in rows(decoded)] == [0, 2]
    assert [(one.record.offset, one.code) for one in decoded.rejected] == [(1, "schema_mismatch")]


def test_an_absurd_timestamp_is_rejected_not_raised() -> None:
    decoded = decoder({7: CLICK}).decode([record(0, frame(7, body(CLICK, click())), timestamp_ms=1 << 62)])
    assert rows(decoded) == []
    assert (decoded.rejected[0].code, "outside of the years" in decoded.rejected[0].reason) == ("time_out_of_range", True)


def test_a_schema_with_columns_that_the_table_lacks_is_asked_for() -> None:
    narrow = pa.schema([("path", pa.string()), *SYSTEM_COLUMNS])
    decoded = decoder({7: CLICK}, narrow).decode([record(0, frame(7, body(CLICK, click())))])
    assert decoded.missing_schema_ids == {7}
    assert (decoded.rows, decoded.rejected) == ([], [])


def test_a_schema_that_contradicts_the_table_is_rejected_with_the_reason() -> None:
    table = pa.schema([("path", pa.int64()), *SYSTEM_COLUMNS])
    decoded = decoder({7: CLICK}, table).decode([record(0, frame(7, body(CLICK, click())))])
    assert [one.code for one in decoded.rejected] == ["schema_refused"]
    assert "'path' is string" in decoded.rejected[0].reason


def test_a_schema_that_is_no_avro_is_rejected_not_raised() -> None:
    broken = BlockDecoder(pa.schema([*SYSTEM_COLUMNS]), 0, lambda schema_id: '{"type": "record", "name": "X"}')
    assert [one.code for one in broken.decode([record(0, frame(1, b""))]).rejected] == ["schema_mismatch"]


def test_nested_and_logical_values_come_through() -> None:
    schema = {
        "type": "record",
        "name": "N",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "either", "type": ["null", "int", "string", "bytes"]},
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Item",
                        "fields": [
                            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                            {"name": "u", "type": ["int", "string"]},
                        ],
                    },
                },
            },
            {"name": "next", "type": ["null", "N"]},
        ],
    }
    event = {
        "day": date(2020, 2, 29),
        "price": Decimal("12.50"),
        "either": b"\xff",
        "items": [{"at": datetime(2020, 1, 1, tzinfo=UTC), "u": "x"}],
        "next": None,
    }
    outer = {**event, "next": {**event, "price": Decimal("1.00"), "items": []}}
    decoded = decoder({1: schema}).decode([record(0, frame(1, body(schema, outer)))])
    assert decoded.rejected == []
    (row,) = rows(decoded)
    assert (row["day"], row["price"], row["either"]) == (date(2020, 2, 29), Decimal("12.50"), '"\u00ff"')
    assert row["items"] == [{"at": datetime(2020, 1, 1, tzinfo=UTC), "u": '"x"'}]
    assert json.loads(row["next"])["items"] == []


def test_no_garbled_body_ever_raises_or_harms_a_neighbour() -> None:
    shuffle = random.Random(20261121)
    good = body(CLICK, click())
    one = decoder({7: CLICK})
    for _ in range(400):
        garbled = bytearray(good)
        for _ in range(shuffle.randint(1, 4)):
            garbled[shuffle.randrange(len(garbled))] = shuffle.randrange(256)
        decoded = one.decode([record(0, frame(7, good)), record(1, frame(7, bytes(garbled))), record(2, frame(7, good))])
        kept = rows(decoded)
        assert {row["_offset"] for row in kept} | {bad.record.offset for bad in decoded.rejected} == {0, 1, 2}
        assert all(row["status"] == 200 and row["path"] == "/a" for row in kept if row["_offset"] != 1)
