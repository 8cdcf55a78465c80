"""A fetch's bytes split into batches in C, against the same in Python and against kafka-python's walk."""

import random
import struct
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from headrace.client.fetch import fetched
from headrace.client.fetch.fetched import parse
from headrace.runtime.native import load
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record_batch import BatchHeader, read_header
from tests.unit.client.batches import byte_log, dense_log

native: Any = load()
pytestmark = pytest.mark.needs("native")

LOGS = st.lists(st.lists(st.binary(max_size=30) | st.just(bytes(2_000)), min_size=1, max_size=4), min_size=1, max_size=8)
LAYOUTS = st.sampled_from([dense_log, byte_log])
DAMAGE = st.lists(
    st.tuples(st.integers(0, 4_000), st.sampled_from(["flip", "drop", "insert", "cut"]), st.integers(1, 255)), max_size=3
)


def both(log: bytes, requested_offset: int) -> None:
    with mock.patch.object(fetched, "native", None):
        plain = parse(memoryview(log), requested_offset)
    fast = parse(memoryview(log), requested_offset)
    assert fast == plain
    for (header, view), (_, reference) in zip(fast.batches, plain.batches, strict=True):
        assert type(header) is BatchHeader
        assert header == read_header(view)
        assert view.obj is reference.obj


@settings(max_examples=400, deadline=None)
@given(values=LOGS, lay_out=LAYOUTS, damage=DAMAGE, requested=st.integers(0, 3_000))
def test_both_find_the_same_batches_and_the_same_damage(
    values: list[list[bytes]], lay_out: Any, damage: list[tuple[int, str, int]], requested: int
) -> None:
    log = bytearray(lay_out(values))
    for place, how, byte in damage:
        at = place % max(1, len(log))
        match how:
            case "flip" if log:
                log[at] ^= byte
            case "drop":
                del log[at : at + 1]
            case "insert":
                log[at:at] = bytes([byte])
            case "cut":
                del log[at:]
            case _:
                pass
    both(bytes(log), requested)


@settings(max_examples=100, deadline=None)
@given(
    values=LOGS,
    field=st.sampled_from([(0, 8), (8, 4), (16, 1), (23, 4), (57, 4)]),
    number=st.sampled_from([-1, 0, 1, 48, 49, 1 << 30, (1 << 31) - 1, (1 << 63) - 1, (1 << 63) - 2, -(1 << 63)]),
    data=st.data(),
)
def test_both_say_the_same_of_absurd_headers(
    values: list[list[bytes]], field: tuple[int, int], number: int, data: st.DataObject
) -> None:
    """With the CRC made right, so that the number itself is looked at.

    Fault: an answer whose batch claims the largest offset there is ended the walk in C with an OverflowError.
    """
    log = bytearray(dense_log(values))
    starts, at = [], 0
    while at < len(log):
        starts.append(at)
        at += read_header(log, at).size_bytes
    at = data.draw(st.sampled_from(starts))
    size = read_header(log, at).size_bytes
    place, width = field
    log[at + place : at + place + width] = (number % (1 << 8 * width)).to_bytes(width, "big")
    log[at + 17 : at + 21] = crc_of(log[at + 21 : at + size])
    both(bytes(log), 0)


def crc_of(data: bytes | bytearray) -> bytes:
    return crc32c(data).to_bytes(4, "big")


@settings(max_examples=100, deadline=None)
@given(values=LOGS, lay_out=LAYOUTS)
def test_kafka_python_walks_over_the_same_batches(values: list[list[bytes]], lay_out: Any) -> None:
    log = lay_out(values)
    theirs, records = [], MemoryRecords(log)
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        theirs.append((batch.base_offset, batch.records_count, batch.crc, batch.max_timestamp, batch.attributes))
    batches: list[tuple[BatchHeader, memoryview]] = []
    at, _ = native.sound_batches(memoryview(log), 0, 0, BatchHeader, batches)
    assert at == len(log)
    assert [(one.base_offset, one.record_count, one.crc, one.max_timestamp_ms, one.attributes) for one, _ in batches] == theirs


def test_every_size_has_its_crc() -> None:
    """The CRC in C works in lanes: sizes around their borders, against the package `crc32c`, and with any one bit turned."""
    draw = random.Random(7)
    for size in (*range(70), *range(460, 560), *range(1_480, 1_600), *range(3_000, 3_120), 100_000):
        covered = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + draw.randbytes(size)
        batch = bytearray(struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered)) + covered)
        assert native.sound_batches(memoryview(batch), 0, 0, BatchHeader, []) == (len(batch), 1)
        batch[draw.randrange(27, len(batch))] ^= 1 << draw.randrange(8)
        assert native.sound_batches(memoryview(batch), 0, 0, BatchHeader, []) == (0, 0)


def test_what_was_found_may_outlive_the_answer_and_keeps_nothing_else() -> None:
    log = memoryview(byte_log([[b"x"], [b"y"]]))
    batches: list[tuple[BatchHeader, memoryview]] = []
    native.sound_batches(log, 0, 0, BatchHeader, batches)
    kept = bytes(batches[1][1])
    log.release()
    assert bytes(batches[1][1]) == kept
