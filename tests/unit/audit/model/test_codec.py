"""Reports as JSON: what is written is read back, and whatever else is on the topic is refused by name, never a crash."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.codec import decode, encode
from headrace.audit.model.errors import MalformedReport
from headrace.audit.model.messages import (
    LOSS_NAMES,
    MAX_STRETCHES,
    SKIP_REASONS,
    Hold,
    KnownDifference,
    ProducerReport,
    ProducerWindow,
    PublishedHour,
    RangeReport,
    RangeWindow,
    Renumbered,
    Report,
    Retirement,
    SentRanges,
    Skipped,
    Stretch,
    TierChange,
)

names = st.text("abcXYZ09._-/", min_size=1, max_size=30)
counts = st.integers(0, 1 << 40)
starts = st.integers(-1, 1 << 20).map(lambda at: at * 600_000)
crcs = st.none() | st.integers(0, (1 << 32) - 1)
stretches = st.builds(Stretch, st.integers(0, 1 << 60), st.integers(1, 1 << 30), crcs)
ranges = st.lists(stretches, max_size=3).map(tuple)
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
    only_between_ms=st.none() | st.tuples(starts, starts).map(lambda pair: (min(pair), max(pair))),
    holds=st.none()
    | st.lists(st.builds(lambda at, n, count: Hold(at, at + n, count), starts, st.integers(1, 1 << 40), counts), max_size=32).map(
        tuple
    ),
    windows=st.lists(
        st.builds(
            ProducerWindow,
            topic=names,
            window_start_ms=starts,
            sent=st.lists(
                st.builds(
                    SentRanges,
                    partition=st.integers(0, (1 << 31) - 1),
                    producer_id=st.integers(0, 1 << 60),
                    producer_epoch=st.integers(0, (1 << 15) - 1),
                    acknowledged=ranges,
                    uncertain=ranges,
                    renumbered=st.lists(
                        st.builds(Renumbered, stretches, st.integers(0, 1 << 60), st.integers(0, 99), st.integers(0, 1 << 30)),
                        max_size=2,
                    ).map(tuple),
                ),
                max_size=2,
            ).map(tuple),
            losses=st.dictionaries(st.sampled_from(LOSS_NAMES), counts, max_size=2),
        ),
        max_size=3,
    ).map(tuple),
)
range_windows = st.builds(RangeWindow, held=ranges, quarantined=ranges, altered=ranges, redelivered=counts)
range_reports = st.builds(
    RangeReport,
    tier=st.sampled_from(["mirror", "warehouse", "consumer:request-rate"]),
    instance=names,
    at_ms=st.integers(0, 1 << 45),
    topic=names,
    partition=st.integers(0, 1 << 20),
    from_offset=st.just(0),
    to_offset=st.integers(1 << 61, 1 << 62),
    windows=st.dictionaries(starts, range_windows, max_size=4),
    skipped=st.lists(
        st.builds(
            lambda start, length, reason: Skipped(start, start + length, reason),
            st.integers(0, 1 << 40),
            st.integers(0, 1 << 40),
            st.sampled_from(SKIP_REASONS),
        ),
        max_size=2,
    ).map(tuple),
)
known = st.builds(
    KnownDifference,
    topic=names,
    window_start_ms=starts,
    tier=st.sampled_from(["live", "mirror"]),
    kind=st.sampled_from(["lost", "erased"]),
    missing=counts,
    doubled=counts,
    altered=counts,
    at_ms=counts,
    by=names,
    reason=names,
)
tier_changes = st.builds(
    TierChange,
    topic=names,
    tier=st.sampled_from(["consumer:fraud", "consumer:a.b-c_d"]),
    change=st.sampled_from(["add", "remove"]),
    from_ms=starts,
    at_ms=counts,
    by=names,
    reason=names,
)
published = st.builds(
    PublishedHour,
    topic=names,
    instance=names,
    at_ms=counts,
    revision=st.integers(1, 1 << 20),
    verdict=st.sampled_from(["COMPLETE", "REMOVED", "DIFFERS", "WITHDRAWN"]),
    row_count=counts,
    missing=counts,
    doubled=counts,
    reason=names,
    windows=st.dictionaries(starts, counts, min_size=1, max_size=6),
)
retirements = st.builds(Retirement, instance=names, epoch=st.integers(0, 1 << 45), at_ms=counts, by=names, reason=names)

SENT: dict[str, Any] = {
    "partition": 0,
    "producer_id": 7,
    "producer_epoch": 0,
    "acknowledged": [0, 3, 99, 0, 2, 98],
    "renumbered": [[5, 2, 97, 8, 0, 0]],
}
PRODUCER: dict[str, Any] = {
    "v": 2,
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
    "windows": [{"topic": "clicks", "window_start_ms": 600_000, "sent": [SENT], "losses": {"quarantined": 1}}],
}
RANGE: dict[str, Any] = {
    "v": 2,
    "kind": "range",
    "tier": "mirror",
    "instance": "host/mirror",
    "at_ms": 7,
    "topic": "clicks",
    "partition": 0,
    "from_offset": 0,
    "to_offset": 100,
    "windows": {"600000": {"held": [10, 3, 99, 7, 2, -1]}},
    "skipped": [[50, 60, "expired"]],
}
TIER: dict[str, Any] = {
    "v": 2,
    "kind": "tier",
    "topic": "clicks",
    "tier": "consumer:fraud",
    "change": "add",
    "from_ms": 600_000,
    "at_ms": 7,
    "by": "anna",
    "reason": "billing depends on it",
}


@settings(max_examples=100, deadline=None)
@given(producer_reports | range_reports | known | published | retirements | tier_changes)
def test_what_is_written_is_read_back(report: Report) -> None:
    assert decode(encode(report)) == report


def test_messages_read_as_the_contract_spells_them() -> None:
    producer = decode(json.dumps(PRODUCER).encode())
    assert isinstance(producer, ProducerReport)
    (sent,) = producer.windows[0].sent
    assert sent.acknowledged == (Stretch(0, 3, 99), Stretch(3, 2, 98))
    assert sent.renumbered == (Renumbered(Stretch(5, 2, 97), 8, 0, 0),)
    told = decode(json.dumps(RANGE).encode())
    assert isinstance(told, RangeReport)
    assert dict(told.windows) == {600_000: RangeWindow(held=(Stretch(10, 3, 99), Stretch(20, 2)))}
    assert told.skipped == (Skipped(50, 60, "expired"),)
    assert json.loads(encode(producer)) == PRODUCER
    assert json.loads(encode(told)) == RANGE
    assert json.loads(encode(decode(json.dumps(TIER).encode()))) == TIER


def with_sent(**changed: Any) -> dict[str, Any]:
    return PRODUCER | {"windows": [PRODUCER["windows"][0] | {"sent": [SENT | changed]}]}


def test_fields_that_the_format_had_once_are_skipped_whatever_they_hold() -> None:
    """`contains_from` and `refused` were in the format, and nobody sent them."""
    old = PRODUCER | {"contains_from": 3, "windows": [PRODUCER["windows"][0] | {"sent": [SENT | {"refused": [0, 1, 5]}]}]}
    assert decode(json.dumps(old).encode()) == decode(json.dumps(PRODUCER).encode())
    assert decode(json.dumps(old | {"contains_from": "once"}).encode()) == decode(json.dumps(PRODUCER).encode())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (TIER | {"tier": "mirror"}, "not a group"),
        (TIER | {"tier": "sink:files"}, "not a group"),
        (TIER | {"tier": "consumer:"}, "not a group"),
        (TIER | {"change": "rename"}, "change"),
        (TIER | {"from_ms": 1 << 62}, "from_ms"),
        (TIER | {"by": ""}, "by"),
        (PRODUCER | {"v": 1}, "v=1"),
        (PRODUCER | {"kind": "rumour"}, "rumour"),
        (PRODUCER | {"state": "ajar"}, "state"),
        (PRODUCER | {"epoch": "soon"}, "epoch"),
        (PRODUCER | {"epoch": True}, "epoch"),
        (PRODUCER | {"sequence": -1}, "sequence"),
        (PRODUCER | {"instance": ""}, "instance"),
        (PRODUCER | {"instance": "a\u0000b"}, "instance"),
        (PRODUCER | {"topics": "clicks"}, "topics"),
        (PRODUCER | {"windows": [7]}, "windows"),
        (with_sent(partition=-1), "partition"),
        (with_sent(producer_epoch=1 << 15), "producer_epoch"),
        (with_sent(acknowledged=[0, 3]), "acknowledged"),
        (with_sent(acknowledged=[0, 0, 5]), "cannot be"),
        (with_sent(acknowledged=[-1, 2, 5]), "cannot be"),
        (with_sent(acknowledged=[0, 1, 1 << 32]), "cannot be"),
        (with_sent(uncertain=[0, 1.5, 5]), "uncertain"),
        (with_sent(renumbered=[[0, 1, 5]]), "renumbered"),
        (with_sent(renumbered=[[0, 1, 5, True, 0, 0]]), "renumbered"),
        (with_sent(uncertain=[0, 1, 5] * (MAX_STRETCHES + 1)), "uncertain"),
        (PRODUCER | {"only_between_ms": [5, 1]}, "only_between_ms"),
        (PRODUCER | {"holds": [[5, 5, 0]]}, "holds"),
        (PRODUCER | {"holds": [[1, 5]]}, "holds"),
        (PRODUCER | {"holds": [[1, 5, -1]]}, "holds"),
        (PRODUCER | {"holds": [[1, 5, 0]] * 33}, "holds"),
        (PRODUCER | {"only_between_ms": [False, True]}, "only_between_ms"),
        (PRODUCER | {"windows": [PRODUCER["windows"][0] | {"losses": {"Bad Name": 1}}]}, "losses"),
        (RANGE | {"tier": "producer"}, "tier"),
        (RANGE | {"tier": "no such/tier"}, "tier"),
        (RANGE | {"tier": "live"}, "tier"),  # found by fuzzing: it stopped the collector
        (RANGE | {"tier": "offline"}, "tier"),
        (RANGE | {"to_offset": -1}, "to_offset"),
        (RANGE | {"from_offset": 101}, "to_offset=100"),
        (RANGE | {"from_offset": 1 << 63}, "from_offset"),
        (RANGE | {"windows": {"now": {}}}, "now"),
        (RANGE | {"windows": {"0": {"held": [-1, 1, 5]}}}, "held"),
        (RANGE | {"windows": {"0": {"held": [99, 2, 5]}}}, "outside"),
        (RANGE | {"windows": {"0": {"redelivered": -1}}}, "redelivered"),
        (RANGE | {"windows": {str(at): {} for at in range(501)}}, "501 windows"),
        (RANGE | {"skipped": [[1, 2, "weather"]]}, "skipped"),
        (RANGE | {"skipped": [[2, 1, "expired"]]}, "skipped"),
        (RANGE | {"skipped": [[False, 1, "expired"]]}, "skipped"),
        (RANGE | {"skipped": [[99, 101, "expired"]]}, "outside"),
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
