"""Equal rows have equal digests however they are stored; whatever a reader could notice changes them."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.source.digest import LONG_BYTES, MODULUS, row_hashes

STRUCT = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])
KINDS: dict[str, pa.DataType] = {
    "flag": pa.bool_(),
    "number": pa.int64(),
    "ratio": pa.float64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
    "price": pa.decimal128(30, 4),
    "inner": STRUCT,
    "list": pa.list_(pa.field("element", pa.int64())),
    "structs": pa.list_(pa.field("element", STRUCT)),
    "map": pa.map_(pa.string(), pa.int64()),
}
VALUES: dict[str, list[Any]] = {
    "flag": [True, False],
    "number": [0, 1, -1, (1 << 63) - 1],
    "ratio": [0.0, 1.5, -1.5, float("inf")],
    "text": ["", "a", "b", "12345678", "123456789", "x" * LONG_BYTES, "x" * (LONG_BYTES + 1), "\u00e4", "a\0"],
    "raw": [b"", b"\0", b"\0\0", b"abc"],
    "day": [date(1500, 1, 1), date(1970, 1, 1), date(2026, 11, 23)],
    "at": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 11, 23, 1, 2, 3, 4, tzinfo=UTC)],
    "price": [Decimal("0"), Decimal("1.5"), Decimal("-1.5"), Decimal("98765432109876543210.1")],
    "inner": [{"a": 1, "b": None}, {"a": None, "b": "1"}, {"a": 1, "b": "x"}],
    "list": [[], [0], [1], [1, 2], [2, 1], [None, 1], [1, None]],
    "structs": [[], [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}], [{"a": 2, "b": "x"}, {"a": 1, "b": "x"}]],
    "map": [[], [("k", 1)], [("k", 2)], [("l", 1)], [("k", 1), ("l", 2)], [("k", None)]],
}


def rows(columns: dict[str, list[Any]], count: int, *, first: int = 0, partition: int = 0) -> pa.RecordBatch:
    arrays = {
        "_topic_partition": pa.array([partition] * count, pa.int32()),
        "_offset": pa.array(range(first, first + count), pa.int64()),
        "_timestamp": pa.array([1] * count, pa.timestamp("us", "UTC")),
        **{name: pa.array(values, KINDS[name]) for name, values in columns.items()},
    }
    return pa.record_batch(arrays)


def one(name: str, value: Any) -> int:
    """Return the digest of a single row with one column."""
    return row_hashes(rows({name: [value]}, 1)).total()


@pytest.mark.parametrize("name", KINDS)
def test_every_two_values_differ_and_a_null_differs_from_all(name: str) -> None:
    found = {one(name, value) for value in [*VALUES[name], None]}
    assert len(found) == len(VALUES[name]) + 1


def random_rows(seed: int, count: int) -> pa.RecordBatch:
    draw = random.Random(seed)
    return rows({name: [draw.choice([*VALUES[name], None]) for _ in range(count)] for name in KINDS}, count)


@pytest.mark.parametrize("seed", range(20))
def test_parquet_files_cuts_and_orders_change_nothing(seed: int, tmp_path: Path) -> None:
    batch = random_rows(seed, 57)
    whole = row_hashes(batch).total()
    parts = [batch.slice(0, 13), batch.slice(13, 1), batch.slice(14)]
    assert sum(row_hashes(part).total() for part in parts) % MODULUS == whole
    shuffled = batch.take(pa.array(random.Random(seed).sample(range(57), 57)))
    assert row_hashes(shuffled).total() == whole
    assert row_hashes(batch.select(sorted(batch.schema.names))).total() == whole
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet", row_group_size=10, compression="zstd")
    assert row_hashes(pq.ParquetFile(tmp_path / "rows.parquet").read()).total() == whole
    groups = np.arange(57) % 5
    assert sum(row_hashes(batch).totals(groups).values()) % MODULUS == whole


def test_a_column_added_later_changes_no_digest() -> None:
    batch = rows({"text": ["a", "b"]}, 2)
    for kind in KINDS.values():
        wider = pa.Table.from_batches([batch]).append_column("later", pa.nulls(2, kind))
        assert row_hashes(wider).total() == row_hashes(batch).total()
    inner = pa.array([{"a": 1, "b": "x", "c": None}], pa.struct([*STRUCT, pa.field("c", pa.string())]))
    wider = rows({}, 1).append_column("inner", inner)
    assert row_hashes(wider).total() == one("inner", {"a": 1, "b": "x"})


def test_values_that_are_the_same_to_a_reader_have_one_form() -> None:
    assert one("ratio", -0.0) == one("ratio", 0.0)
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    assert one("ratio", nans[0]) == one("ratio", nans[1])
    assert one("map", [("a", 1), ("b", 2)]) == one("map", [("b", 2), ("a", 1)])
    millis = rows({}, 1).append_column("at", pa.array([5], pa.timestamp("ms", "UTC")))
    assert row_hashes(millis).total() == one("at", datetime(1970, 1, 1, 0, 0, 0, 5_000, tzinfo=UTC))
    large = rows({}, 1).append_column("text", pa.array(["abc"], pa.large_string()))
    assert row_hashes(large).total() == one("text", "abc")


def test_a_value_that_moved_is_seen() -> None:
    plain = row_hashes(rows({"text": ["a", "b"], "raw": [b"x", b"x"]}, 2)).total()
    assert row_hashes(rows({"text": ["b", "a"], "raw": [b"x", b"x"]}, 2)).total() != plain
    assert row_hashes(rows({"text": ["a", "b"], "raw": [b"x", b"x"]}, 2, first=1)).total() != plain
    assert row_hashes(rows({"text": ["a", "b"], "raw": [b"x", b"x"]}, 2, partition=1)).total() != plain
    ab = row_hashes(rows({"number": [1]}, 1).append_column("other", pa.array([2]))).total()
    ba = row_hashes(rows({"number": [2]}, 1).append_column("other", pa.array([1]))).total()
    assert ab != ba


def test_no_bit_of_a_value_is_overlooked() -> None:
    """Flip each bit of a text of every length around the word borders: every digest differs from all others."""
    seen = set()
    total = 0
    for length in (1, 7, 8, 9, 16, 33):
        for bit in range(8 * length):
            raw = bytearray(length)
            raw[bit // 8] ^= 1 << bit % 8
            seen.add(one("raw", bytes(raw)))
            total += 1
    assert len(seen) == total


def test_a_type_without_a_canonical_form_is_an_error() -> None:
    batch = rows({}, 1).append_column("odd", pa.array([1], pa.duration("s")))
    with pytest.raises(TypeError, match="'odd' is duration"):
        row_hashes(batch)


def test_the_form_stays_as_it_is_written_down() -> None:
    """Proofs hold these numbers for years: if this fails, the format has changed, and every proof with it."""
    assert f"{row_hashes(random_rows(7, 20)).total():032x}" == "8bd5f8bd97102bb2bd9662daf8fb735d"
