"""What a load decodes is what was written, by the word of decoders that are none of its own: Apache's `avro` writes and reads
each body here, and `PlainAvro`, which samples every load, is held to the same.
"""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from headrace.spark.errors import DecodersDisagree
from headrace.spark.source import decoding
from headrace.spark.source.columns import SYSTEM_COLUMNS, writer_columns
from headrace.spark.source.decoding import BlockDecoder
from headrace.spark.source.flat_avro import FlatAvro
from headrace.spark.source.plain_avro import NotPlain, PlainAvro
from headrace.wire.batch.record_batch import Record
from headrace.wire.schema_id import SIZE, frame
from tests.support.avro_values import MONEY, PLAIN, record_of, written

from .test_flat_avro import schemas_with_events


def rows(schema: Any, bodies: list[bytes], *, target: pa.Schema | None = None) -> list[dict[str, Any]]:
    """Return what a load makes of the bodies, each of them sampled."""
    text = json.dumps(schema)
    target = pa.schema([*(target or writer_columns(text).fields()), *SYSTEM_COLUMNS])
    decoder = BlockDecoder(target, 0, lambda schema_id: text, is_checked=True)
    decoded = decoder.decode([Record(at, 1_000, None, frame(7, body), ()) for at, body in enumerate(bodies)])
    assert decoded.rejected == []
    return [row for batch in decoded.rows for row in batch.to_pylist()]


@pytest.mark.parametrize("what", PLAIN)
def test_a_value_is_decoded_to_what_was_written(what: str) -> None:
    kind, value, expected = PLAIN[what]
    schema = record_of(("before", "long"), ("value", kind), ("after", "string"))
    (row,) = rows(schema, [written(schema, {"before": -1, "value": value, "after": "end"})])
    assert repr((row["before"], row["value"], row["after"])) == repr((-1, expected, "end"))


def test_a_record_of_a_thousand_fields() -> None:
    kinds = ["long", "double", "string", ["null", "long"], "boolean"]
    schema = record_of(*((f"f{at}", kinds[at % len(kinds)]) for at in range(1_000)))
    values = [lambda at: at - 500, lambda at: at / 8, str, lambda at: None if at % 2 else at, lambda at: at % 3 == 0]
    event = {f"f{at}": values[at % len(values)](at) for at in range(1_000)}
    (row,) = rows(schema, [written(schema, event)])
    assert {name: row[name] for name in event} == event


def test_aliases_and_defaults_are_the_reader_s_and_change_nothing_of_what_was_written() -> None:
    schema = record_of(("page", "string"))
    schema["fields"][0] |= {"aliases": ["url"], "default": "/"}
    (row,) = rows(schema, [written(schema, {"page": "/a"})])
    assert row["page"] == "/a"


def test_events_that_are_loaded_again_under_a_newer_schema_s_columns_keep_their_values() -> None:
    """What `--reload` does: the writer's schema decodes, and the table's later columns are null."""
    old, new = (
        record_of(("page", "string"), ("took", "int")),
        record_of(("page", "string"), ("took", "double"), ("who", ["null", "string"])),
    )
    (row,) = rows(old, [written(old, {"page": "/a", "took": 3})], target=pa.schema(writer_columns(json.dumps(new)).fields()))
    assert (row["page"], row["took"], row["who"]) == ("/a", 3.0, None)


@settings(max_examples=150, deadline=None)
@given(schemas_with_events())
def test_three_decoders_read_the_same_out_of_what_apache_s_library_has_written(
    one: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    schema, events = one[0], [{field["name"]: event[field["name"]] for field in one[0]["fields"]} for event in one[1]]
    # `float` is kept to what 32 bits hold by the strategy; dates and times are numbers to every one of them.
    bodies = [written(schema, event) for event in events]
    plain = PlainAvro(writer_columns(json.dumps(schema)).avro)
    assert [repr(plain.decode(frame(7, body), SIZE)) for body in bodies] == [repr(event) for event in events]
    text = json.dumps(schema)
    decoder = BlockDecoder(pa.schema([*writer_columns(text).fields(), *SYSTEM_COLUMNS]), 0, lambda _: text, is_checked=True)
    decoder.decode([Record(at, 1_000, None, frame(7, body), ()) for at, body in enumerate(bodies)])


@pytest.mark.situation(
    "warehouse",
    "a decoder reads another value",
    shown="the load stops and commits nothing",
    when="with the load, if the record is in the sample",
    do="keep the log, report the schema",
)
@pytest.mark.needs("native")
def test_a_decoder_that_reads_another_value_stops_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the digests are the loader's own: a wrong decoder would have been COMPLETE."""
    schema = record_of(("page", "string"), ("took", "long"))
    bodies = [written(schema, {"page": "/a", "took": at}) for at in range(3)]
    decode = FlatAvro.decode

    def wrong(self: FlatAvro, framed: list[bytes]) -> dict[str, pa.Array] | None:
        found = decode(self, framed)
        return None if found is None else {**found, "took": pa.array([0, 1, 1])}

    monkeypatch.setattr(FlatAvro, "decode", wrong)
    with pytest.raises(DecodersDisagree, match=r"partition 0, offset 2, with schema id 7 .* its field\(s\) took differ"):
        rows(schema, bodies)


def test_the_way_without_c_is_compared_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record_of(("zero", "double"), ("many", {"type": "array", "items": "long"}))
    bodies = [written(schema, {"zero": 0.0, "many": [1, 2]})]
    decode = decoding._decoded
    for change in ({"zero": -0.0}, {"many": [2, 1]}, {"zero": None}):

        def wrong(payload: bytes, writer: Any, change: dict[str, Any] = change) -> Any:
            return {**decode(payload, writer), **change}

        with monkeypatch.context() as patch:
            patch.setattr(decoding, "_decoded", wrong)
            with pytest.raises(DecodersDisagree, match=next(iter(change))):
                rows(schema, bodies)


NOT_PLAIN: list[tuple[Any, bytes]] = [
    ("long", b"\x80\x00"),
    ("boolean", b"\x02"),
    (["null", "long"], b"\x01"),
    ("string", b"\x02\xff"),
    ("long", b"\x02\x02"),
    ("double", b"\0"),
    (MONEY, b"\x0a\x7f\xff\xff\xff\xff"),
]


@pytest.mark.parametrize(("kind", "body"), NOT_PLAIN)
def test_what_is_not_written_as_the_specification_says_is_no_news_of_a_decoder(kind: Any, body: bytes) -> None:
    with pytest.raises(NotPlain):
        PlainAvro(record_of(("f", kind))).decode(frame(7, body), SIZE)


def test_a_sample_is_taken_of_the_first_block_of_each_schema_and_of_every_eighth(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled: list[int] = []
    decode = PlainAvro.decode

    def noted(self: PlainAvro, framed: bytes, at: int) -> Any:
        sampled.append(1)
        return decode(self, framed, at)

    monkeypatch.setattr(PlainAvro, "decode", noted)
    schema = record_of(("page", "string"))
    text, body = json.dumps(schema), written(schema, {"page": "/"})
    decoder = BlockDecoder(pa.schema([*writer_columns(text).fields(), *SYSTEM_COLUMNS]), 0, lambda _: text, is_checked=True)
    counts = []
    for block in range(10):
        sampled.clear()
        decoder.decode([Record(at, 1_000, None, frame(7 + block // 9, body), ()) for at in range(100)])
        counts.append(len(sampled))
    assert counts == [8, 0, 0, 0, 0, 0, 0, 0, 8, 8]


@pytest.mark.parametrize("is_bound_reached", [False, True])
def test_each_hour_of_a_split_is_sampled_so_that_each_file_is(monkeypatch: pytest.MonkeyPatch, is_bound_reached: bool) -> None:
    """Fault: a file whose rows stood in blocks between those that were sampled had no record that was decoded twice."""
    if is_bound_reached:
        monkeypatch.setattr(decoding, "HOURS_KEPT", 1)
    sampled: list[int] = []
    decode = PlainAvro.decode

    def noted(self: PlainAvro, framed: bytes, at: int) -> Any:
        sampled.append(decode(self, framed, at)["took"])
        return decode(self, framed, at)

    monkeypatch.setattr(PlainAvro, "decode", noted)
    schema = record_of(("took", "long"))
    text, bodies = json.dumps(schema), [written(schema, {"took": at}) for at in range(6)]
    decoder = BlockDecoder(pa.schema([*writer_columns(text).fields(), *SYSTEM_COLUMNS]), 0, lambda _: text, is_checked=True)

    def block(*hours: int) -> list[int]:
        sampled.clear()
        decoder.decode([Record(at, hour * 3_600_000 + at, None, frame(7, bodies[at]), ()) for at, hour in enumerate(hours)])
        return sorted(sampled)

    assert block(0, 0, 0) == [0, 1, 2]
    assert block(0, 0, 1, 0, 2, 2) == ([0, 2, 4] if is_bound_reached else [2, 4])
    assert block(2, 1, -1) == ([0, 1, 2] if is_bound_reached else [2])
