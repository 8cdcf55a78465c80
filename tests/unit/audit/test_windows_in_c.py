"""A batch's records counted by window in C, against the same count in Python and against kafka-python's reading."""

import gc
import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from headrace.audit import counter
from headrace.audit.counter import WindowCounter
from headrace.runtime.native import load
from headrace.wire.batch.compression import Codec, compress
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record_batch import BatchHeader, read_header
from headrace.wire.varint import zigzag

native: Any = load()
pytestmark = pytest.mark.needs("native")

W = 600_000
NOW = 1_431_857_103_000
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
DELTAS = st.integers(0, 50) | st.integers(-3 * W, 3 * W) | INT64 | st.sampled_from([63, 64, -64, -65, 8191, 8192, -8192, -8193])
BASES = st.integers(NOW, NOW + W) | st.integers(-3, 3) | INT64
BODIES = st.binary(max_size=20) | st.just(bytes(200)) | st.just(bytes(20_000))


def stored(
    deltas: Sequence[int],
    bodies: Sequence[bytes],
    *,
    base_ms: int,
    max_ms: int,
    attributes: int,
    count: int,
    base_offset: int = 0,
) -> bytes:
    """Return a batch as any producer may write it: its header says what the test says, its records have these deltas."""
    records = b"".join(
        zigzag(len(record)) + record
        for index, delta in enumerate(deltas)
        for record in [
            b"\0"
            + zigzag(delta)
            + zigzag(index)
            + b"\1"
            + zigzag(len(bodies[index % len(bodies)]))
            + bodies[index % len(bodies)]
            + b"\0"
        ]
    )
    if (attributes & 7) < len(Codec):
        records = compress(Codec(attributes & 7), records)
    return whole(base_offset, struct.pack(">hiqqqhii", attributes, count - 1, base_ms, max_ms, 7, 3, 17, count) + records)


def whole(base_offset: int, covered: bytes) -> bytes:
    return struct.pack(">qiibI", base_offset, 9 + len(covered), -1, 2, crc32c(covered)) + covered


def counted(batch: bytes, module: Any, from_offset: int, to_offset: int | None) -> tuple[Any, ...]:
    """Return all that a counter says of the batch, with the module in C or without one."""
    with mock.patch.object(counter, "native", module):
        one = WindowCounter(W)
        added = one.add(read_header(batch), memoryview(batch), from_offset=from_offset, to_offset=to_offset)
        return added, one.entry_count, one.opened_batches, one.unreadable_batches, one.take()


OFFSETS = st.integers(0, 40)
ATTRIBUTES = st.sampled_from([0, 0, 1, 2, 3, 4, 5, 0x08, 0x80, 0x0A, 0x10])


@settings(max_examples=400, deadline=None)
@given(
    deltas=st.lists(DELTAS, min_size=1, max_size=30),
    bodies=st.lists(BODIES, min_size=1, max_size=3),
    base_ms=BASES,
    max_ms=BASES,
    attributes=ATTRIBUTES,
    miscounted=st.sampled_from([0, 0, 0, 1, -1]),
    base_offset=st.sampled_from([0, 5, (1 << 63) - 3]),
    edges=st.tuples(OFFSETS, st.none() | OFFSETS),
)
def test_both_counts_say_the_same(
    deltas: list[int],
    bodies: list[bytes],
    base_ms: int,
    max_ms: int,
    attributes: int,
    miscounted: int,
    base_offset: int,
    edges: tuple[int, int | None],
) -> None:
    count = max(1, len(deltas) + miscounted)
    batch = stored(deltas, bodies, base_ms=base_ms, max_ms=max_ms, attributes=attributes, count=count, base_offset=base_offset)
    assert counted(batch, native, *edges) == counted(batch, None, *edges)


@settings(max_examples=600, deadline=None)
@given(
    deltas=st.lists(DELTAS, min_size=1, max_size=8),
    body=st.binary(max_size=9),
    codec=st.sampled_from([0, 0, 0, 0, 1, 3, 4]),
    damage=st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from(["flip", "drop", "insert", "cut"]), st.integers(0, 255)), max_size=3
    ),
)
def test_both_counts_say_the_same_of_damaged_bytes(
    deltas: list[int], body: bytes, codec: int, damage: list[tuple[int, str, int]]
) -> None:
    sound = stored(deltas, [body], base_ms=NOW, max_ms=NOW, attributes=codec, count=len(deltas))
    covered, records = sound[21:61], bytearray(sound[61:])
    for place, how, byte in damage:
        at = place % max(1, len(records))
        match how:
            case "flip" if records:
                records[at] ^= byte
            case "drop":
                del records[at : at + 1]
            case "insert":
                records[at:at] = bytes([byte])
            case "cut":
                del records[at:]
            case _:
                pass
    batch = whole(0, covered + records)
    assert counted(batch, native, 0, None) == counted(batch, None, 0, None)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=60), count=st.integers(1, 5), base_ms=BASES)
def test_both_counts_say_the_same_of_any_bytes(data: bytes, count: int, base_ms: int) -> None:
    batch = whole(0, struct.pack(">hiqqqhii", 0, count - 1, base_ms, NOW, -1, -1, -1, count) + data)
    assert counted(batch, native, 0, None) == counted(batch, None, 0, None)


@settings(max_examples=200, deadline=None)
@given(
    moments=st.lists(st.integers(0, 3 * W) | st.integers(0, 1 << 42), min_size=1, max_size=30),
    bodies=st.lists(BODIES, min_size=1, max_size=3),
    codec=st.sampled_from([0, 1, 2, 3, 4]),
)
def test_it_counts_what_kafka_python_reads(moments: list[int], bodies: list[bytes], codec: int) -> None:
    deltas = [moment - moments[0] for moment in moments]
    batch = stored(deltas, bodies, base_ms=moments[0], max_ms=max(moments), attributes=codec, count=len(deltas), base_offset=100)
    expected: dict[int, list[int]] = {}
    for record in DefaultRecordBatch(batch):
        expected.setdefault(record.timestamp // W * W, []).append(record.offset)
    taken = counted(batch, native, 0, None)[-1]
    found = {window: [one.first + at for one in entries for at in range(one.count)] for window, entries in taken.items()}
    assert found == expected


def test_a_foreign_batch_of_one_window_is_walked_in_c_alone() -> None:
    """With every way of Python's taken out, so that this test fails where C gives up and nobody would notice but the clock."""
    for codec in (0, 1, 2, 3, 4):
        batch = stored([0, 5, W - 1, 3 * W, -1], [b"x" * 300], base_ms=2 * W, max_ms=5 * W, attributes=codec, count=5)
        with mock.patch.object(counter, "is_surely_between", None), mock.patch.object(counter, "_times", None):
            assert counted(batch, native, 0, None)[0] == 5


@given(st.lists(st.integers(-(1 << 65), 1 << 65) | st.binary(max_size=8) | st.none(), max_size=7))
def test_other_arguments_are_refused_or_obeyed(words: list[Any]) -> None:
    for call in (native.window_runs, native.sound_batches):
        try:
            call(*words)
        except (TypeError, ValueError, OverflowError, BufferError):
            pass


def test_nothing_is_kept_of_what_was_counted() -> None:
    sound = stored([0, 5, W], [b"x" * 300], base_ms=2 * W, max_ms=5 * W, attributes=0, count=3)
    damaged = whole(3, sound[21:-1])

    def some() -> None:
        for _ in range(3_000):
            batches: list[Any] = []
            native.sound_batches(memoryview(sound + damaged + sound[:-1]), 0, 0, BatchHeader, batches)
            assert len(batches) == 2
            assert native.window_runs(sound, 61, 3, 0, 2 * W, W) == [(2 * W, 0, 2), (3 * W, 2, 1)]
            assert native.window_runs(damaged, 61, 3, 0, 2 * W, W) is None

    some()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        some()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
