"""Records as they are: whose time they have, what their schema is, and which of them are no row."""

import pyarrow as pa

from headrace.spark.data_source.raw_columns import PREFIX, RAW_COLUMNS, RawDecoder, TimeKinds, raw_columns
from headrace.spark.source.split_reader import BLOCK_RECORDS
from headrace.wire.batch.record_batch import Record
from headrace.wire.schema_id import frame

TARGET = pa.schema([one.with_name(PREFIX + one.name) for one in RAW_COLUMNS])


def test_kinds_of_time_are_bounded_and_reach_back_over_a_block() -> None:
    """Fault: with fewer kept than a block has records, some of it had the time of others' kind."""
    kinds = TimeKinds()
    for offset in range(200_000):
        kinds.note(offset, offset % 2)
        if offset % 9_973 == 0:
            for back in range(max(0, offset - BLOCK_RECORDS), offset + 1, 101):
                assert kinds.of(back) == back % 2
    assert len(kinds._from) <= 4 * BLOCK_RECORDS
    assert len(kinds._kinds) == len(kinds._from)


def test_every_record_is_a_row_but_one_of_an_impossible_time() -> None:
    kinds = TimeKinds()
    kinds.note(0, 0)
    kinds.note(2, 1)
    decoder = RawDecoder(TARGET, 3, raw_columns("clicks", kinds))
    some = [
        Record(0, 1_000, b"k", frame(7, b"x"), (("h", b"v"), ("h", None))),
        Record(1, 1 << 61, None, b"", ()),
        Record(2, -1, None, None, ()),
    ]
    decoded = decoder.decode(some)
    assert [(one.record.offset, one.code) for one in decoded.rejected] == [(1, "time_out_of_range")]
    first, second = decoded.rows[0].to_pylist()
    assert [first[PREFIX + name] for name in ("key", "value", "topic", "partition", "offset", "timestampType", "schema_id")] == [
        b"k",
        frame(7, b"x"),
        "clicks",
        3,
        0,
        0,
        7,
    ]
    assert first[f"{PREFIX}headers"] == [{"key": "h", "value": b"v"}, {"key": "h", "value": None}]
    assert [second[PREFIX + name] for name in ("value", "headers", "timestampType", "schema_id")] == [None, None, 1, None]
