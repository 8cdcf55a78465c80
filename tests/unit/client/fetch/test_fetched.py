from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.fetch.fetched import FetchedPartition, parse
from headrace.wire.batch.record_batch import HEADER_SIZE, iter_batches
from tests.unit.client.batches import byte_log, dense_log

LOGS = st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=4), min_size=1, max_size=6)


@given(LOGS, st.sampled_from([dense_log, byte_log]))
def test_a_sound_answer_is_all_batches_and_nothing_else(values: list[list[bytes]], lay_out) -> None:  # type: ignore[no-untyped-def]
    log = lay_out(values)
    batches, corrupt, tail = parse(memoryview(log), 0)
    assert b"".join(bytes(batch) for _, batch in batches) == log
    assert [header.record_count for header, _ in batches] == [len(each) for each in values]
    assert not corrupt
    assert tail is None


@given(LOGS, st.data())
def test_a_cut_last_batch_is_left_for_the_next_fetch(values: list[list[bytes]], data: st.DataObject) -> None:
    log = byte_log(values)
    starts = [header.position for header, _ in iter_batches(log)]
    cut = data.draw(st.integers(starts[1] if len(starts) > 1 else len(log), len(log)))
    batches, corrupt, tail = parse(memoryview(log)[:cut], 0)
    assert all(header.position + header.size_bytes <= cut for header, _ in batches)
    assert len(batches) == sum(1 for start, end in zip(starts, [*starts[1:], len(log)], strict=True) if end <= cut and start >= 0)
    assert not corrupt
    assert tail is None


@settings(max_examples=200)
@given(LOGS, st.sampled_from([dense_log, byte_log]), st.data())
def test_a_damaged_batch_is_a_range_up_to_the_next_sound_one(values: list[list[bytes]], lay_out, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    log = bytearray(lay_out(values))
    sound = list(iter_batches(bytes(log)))
    victim = data.draw(st.integers(0, len(sound) - 1))
    at = sum(header.size_bytes for header, _ in sound[:victim])
    size = sound[victim][0].size_bytes
    # From the magic on: what is before it no CRC covers, and a length that is too long looks like a cut answer.
    damage = data.draw(st.integers(16, size - 1))
    log[at + damage] ^= data.draw(st.integers(1, 255))
    batches, corrupt, tail = parse(memoryview(bytes(log)), 0)
    kept = [header.base_offset for header, _ in sound if header is not sound[victim][0]]
    assert [header.base_offset for header, _ in batches] == kept
    begin = sound[victim - 1][0].next_offset if victim else 0
    if victim + 1 < len(sound):
        assert [(bad.from_offset, bad.to_offset) for bad in corrupt] == [(begin, sound[victim][0].next_offset)]
        assert tail is None
    else:
        assert tail is not None
        assert tail.from_offset == begin
    assert not any(bad.from_offset >= bad.to_offset for bad in corrupt)


@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_taken_apart_without_a_crash(garbage: bytes) -> None:
    batches, _, _ = parse(garbage, 0)
    assert sum(len(batch) for _, batch in batches) <= len(garbage)


def test_a_batch_that_goes_back_behind_the_one_before_it_is_not_believed() -> None:
    log = dense_log([[b"one", b"two"]])
    batches, corrupt, tail = parse(log + log, 0)
    assert len(batches) == 1
    assert not corrupt
    assert tail is not None


@pytest.mark.parametrize("missing", [None, b"", b"\0" * (HEADER_SIZE - 1)])
def test_no_records_are_no_batches(missing: bytes | None) -> None:
    assert parse(missing, 5) == ([], [], None)


def _fetched(batches: Sequence[Sequence[bytes]], requested: int) -> FetchedPartition:
    parsed = parse(byte_log(batches), requested)
    return FetchedPartition(
        topic="clicks", partition=0, requested_offset=requested, high_watermark=0, log_start_offset=0, batches=parsed.batches
    )


def test_the_way_on_is_behind_the_last_batch_or_where_one_stood() -> None:
    assert _fetched([[b"a"], [b"b"]], 0).next_offset == len(byte_log([[b"a"], [b"b"]]))
    assert _fetched([], 7).next_offset == 7
