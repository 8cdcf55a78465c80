"""Reports as JSON: what is written is read back, and whatever else stands on the topic is refused by name, never a crash."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.codec import decode, encode
from headrace.audit.model.errors import MalformedReport
from headrace.audit.model.messages import LOSS_NAMES, ProducerReport, ProducerWindow, RangeReport, RangeWindow

names = st.text("abcXYZ09._-/", min_size=1, max_size=30)
counts = st.integers(0, 1 << 40)
starts = st.integers(-1, 1 << 20).map(lambda at: at * 600_000)
producer_reports = st.builds(
    ProducerReport,
    instance=names,
    epoch=st.integers(0, 1 << 45),
    sequence=st.integers(0, 1 << 30),
    at_ms=st.integers(0, 1 << 45),
    state=st.sampled_from(["open", "closed"]),
    producer_ids=st.lists(st.integers(-1, 1 << 60), max_size=3).map(tuple),
    topics=st.lists(names, max_size=3).map(tuple),
    moved_past_ms=st.none() | starts,
    restates_from=st.none() | st.integers(0, 1 << 30),
    windows=st.lists(
        st.builds(
            ProducerWindow,
            topic=names,
            window_start_ms=starts,
            counts=st.dictionaries(st.integers(0, 1 << 31), counts, max_size=3).filter(lambda by: max(by, default=0) < 1 << 31),
            losses=st.dictionaries(st.sampled_from(LOSS_NAMES), counts, max_size=2),
        ),
        max_size=3,
    ).map(tuple),
)
range_reports = st.builds(
    lambda length, part, **words: RangeReport(to_offset=words["from_offset"] + length, part=part, parts=part + 1, **words),
    length=st.integers(0, 1 << 40),
    part=st.integers(0, 3),
    tier=st.sampled_from(["mirror", "warehouse", "consumer:request-rate"]),
    instance=names,
    at_ms=st.integers(0, 1 << 45),
    topic=names,
    partition=st.integers(0, 1 << 20),
    from_offset=st.integers(0, 1 << 60),
    windows=st.dictionaries(starts, st.builds(RangeWindow, count=counts, quarantined=counts, redelivered=counts), max_size=4),
    redelivered=counts,
)

PRODUCER: dict[str, Any] = {
    "v": 1,
    "kind": "producer",
    "tier": "producer",
    "instance": "host/app/1",
    "epoch": 5,
    "sequence": 0,
    "at_ms": 7,
    "state": "open",
    "producer_ids": [7],
    "topics": ["clicks"],
    "moved_past_ms": None,
    "windows": [{"topic": "clicks", "window_start_ms": 600_000, "counts": {"0": 3}, "losses": {"quarantined": 1}}],
}
RANGE: dict[str, Any] = {
    "v": 1,
    "kind": "range",
    "tier": "mirror",
    "instance": "host/mirror",
    "at_ms": 7,
    "topic": "clicks",
    "partition": 0,
    "from_offset": 0,
    "to_offset": 100,
    "windows": {"600000": {"count": 3, "quarantined": 0}},
    "redelivered": 0,
}


@settings(max_examples=100, deadline=None)
@given(producer_reports | range_reports)
def test_what_is_written_is_read_back(report: ProducerReport | RangeReport) -> None:
    assert decode(encode(report)) == report


def test_messages_read_as_the_contract_spells_them() -> None:
    producer = decode(json.dumps(PRODUCER).encode())
    assert isinstance(producer, ProducerReport)
    assert producer.windows[0] == ProducerWindow(
        topic="clicks", window_start_ms=600_000, counts={0: 3}, losses={"quarantined": 1}
    )
    told = decode(json.dumps(RANGE).encode())
    assert isinstance(told, RangeReport)
    assert dict(told.windows) == {600_000: RangeWindow(count=3)}
    assert json.loads(encode(producer)) == PRODUCER
    assert json.loads(encode(told)) == RANGE


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (PRODUCER | {"v": 2}, "v=2"),
        (PRODUCER | {"kind": "rumour"}, "rumour"),
        (PRODUCER | {"state": "ajar"}, "state"),
        (PRODUCER | {"epoch": "soon"}, "epoch"),
        (PRODUCER | {"epoch": True}, "epoch"),
        (PRODUCER | {"sequence": -1}, "sequence"),
        (PRODUCER | {"instance": ""}, "instance"),
        (PRODUCER | {"instance": "a\u0000b"}, "instance"),
        (PRODUCER | {"topics": "clicks"}, "topics"),
        (PRODUCER | {"windows": [7]}, "windows"),
        (PRODUCER | {"windows": [PRODUCER["windows"][0] | {"counts": {"zero": 1}}]}, "counts"),
        (PRODUCER | {"windows": [PRODUCER["windows"][0] | {"counts": {"-1": 1}}]}, "counts"),
        (PRODUCER | {"windows": [PRODUCER["windows"][0] | {"counts": {"0": 1 << 62}}]}, "counts"),
        (PRODUCER | {"windows": [PRODUCER["windows"][0] | {"losses": {"Bad Name": 1}}]}, "losses"),
        (RANGE | {"tier": "producer"}, "tier"),
        (RANGE | {"tier": "no such/tier"}, "tier"),
        (RANGE | {"to_offset": -1}, "to_offset"),
        (RANGE | {"from_offset": 101}, "to_offset=100"),
        (RANGE | {"from_offset": 1 << 63}, "from_offset"),
        (RANGE | {"windows": {"now": {"count": 1}}}, "now"),
        (RANGE | {"windows": {"0": {"count": -1}}}, "count"),
        (RANGE | {"windows": {"0": {"count": 1.5}}}, "count"),
        (RANGE | {"windows": {str(at): {"count": 1} for at in range(501)}}, "501 windows"),
        (RANGE | {"part": 2, "parts": 2}, "part=2"),
        ({name: value for name, value in RANGE.items() if name != "topic"}, "topic"),
        ([RANGE], "list"),
    ],
)
def test_a_malformed_report_is_refused_with_the_name_of_the_field(words: object, named: str) -> None:
    with pytest.raises(MalformedReport, match=named):
        decode(json.dumps(words).encode())


@pytest.mark.parametrize("value", [None, b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000, b'"\\ud800"'])
def test_bytes_that_are_no_report_are_refused(value: bytes | None) -> None:
    with pytest.raises(MalformedReport):
        decode(value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(base=st.sampled_from([PRODUCER, RANGE]), field=st.sampled_from([*PRODUCER, *RANGE]), value=anything)
def test_no_value_of_any_field_does_worse_than_being_refused(base: dict[str, Any], field: str, value: object) -> None:
    try:
        report = decode(json.dumps(base | {field: value}).encode())
    except MalformedReport:
        return
    assert decode(encode(report)) == report


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_do_worse_than_being_refused(value: bytes) -> None:
    with pytest.raises(MalformedReport):
        decode(value)
