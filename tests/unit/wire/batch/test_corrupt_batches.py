"""Batches that lie: each is refused as `CorruptBatch`, quickly, and never takes the reader down."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.batch.compression import Codec, compress
from headrace.wire.batch.record_batch import (
    HEADER_SIZE,
    crc_matches,
    is_surely_between,
    iter_batches,
    iter_records,
    iter_timestamps,
    read_header,
)
from headrace.wire.errors import CorruptBatch
from tests.unit.wire.records import batch_of, is_refused_at_every_prefix, small_batch


def with_records(records: bytes, count: int, attributes: int = 0) -> bytes:
    """Return a batch around any bytes at all."""
    length = HEADER_SIZE - 12 + len(records)
    return struct.pack(">qiibIHiqqqhii", 0, length, -1, 2, 0, attributes, max(0, count - 1), 0, 0, -1, -1, -1, count) + records


@pytest.mark.parametrize(
    ("at", "field", "says"),
    [
        (16, b"\x01", "magic 1"),
        (16, b"\x00", "magic 0"),
        (8, b"\x00\x00\x00\x30", "length 48"),
        (8, b"\xff\xff\xff\xff", "length -1"),
        (57, b"\xff\xff\xff\xff", "-1 records"),
        (23, b"\x80\x00\x00\x00", "offset delta -2147483648"),
        (0, b"\xff" * 8, "base offset -1"),
    ],
)
def test_an_absurd_header_is_refused(at: int, field: bytes, says: str) -> None:
    batch = bytearray(small_batch())
    batch[at : at + len(field)] = field
    with pytest.raises(CorruptBatch, match=says):
        read_header(batch)
    with pytest.raises(CorruptBatch, match=says):
        list(iter_batches(batch))


def test_a_header_is_refused_at_every_prefix() -> None:
    is_refused_at_every_prefix(small_batch()[:HEADER_SIZE], read_header)
    with pytest.raises(CorruptBatch, match="there are 0"):
        read_header(small_batch(), 5_000)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_refused_at_every_prefix(codec: Codec) -> None:
    batch = small_batch(codec)
    is_refused_at_every_prefix(batch, lambda cut: list(iter_records(cut)))
    is_refused_at_every_prefix(batch, lambda cut: list(iter_timestamps(cut)))
    assert not any(crc_matches(batch[:end], 0, len(batch)) for end in range(len(batch)))


def test_records_cut_inside_a_batch_that_claims_to_be_whole_are_refused() -> None:
    records = batch_of([(5, b"key", b"value", (("name", b"x"), ("null", None)))] * 2)[HEADER_SIZE:]
    for end in range(len(records)):
        cut = with_records(records[:end], 2)
        with pytest.raises(CorruptBatch):
            list(iter_records(cut))
        with pytest.raises(CorruptBatch):
            list(iter_timestamps(cut))


@pytest.mark.parametrize(
    ("records", "count"),
    [
        (b"", 2**31 - 1),
        (b"\x00" * 50, 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f\x00\x00\x00\x01\x01\x00", 1),
        (b"\x01\x00\x00\x00\x01\x01\x00", 1),
        (b"\x80" * 11 + b"\x00", 1),
        (b"\x0c\x00\x00\x00\xfe\xff\xff\xff\x0f", 1),
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x03\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x01\x7e", 1),
        (b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f", 1),
        (b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01", 1),
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 2),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 0),
    ],
    ids=[
        "two billion records in no bytes",
        "two billion records in fifty bytes",
        "a record longer than the batch",
        "a record of a negative length",
        "a varint without an end",
        "a key of two billion bytes",
        "a key of -2 bytes",
        "a value of -2 bytes",
        "sixty-three headers in no bytes",
        "a billion headers",
        "a header name that is not UTF-8",
        "two records with one offset",
        "a record more than the header counts",
    ],
)
def test_lying_records_are_refused(records: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        list(iter_records(with_records(records, count)))


def test_a_bomb_inside_a_batch_is_refused_under_the_readers_bound() -> None:
    bomb = with_records(compress(Codec.ZSTD, bytes(1 << 20)), 1, attributes=int(Codec.ZSTD))
    assert len(bomb) < 300
    with pytest.raises(CorruptBatch, match="more than 1000 bytes"):
        list(iter_records(bomb, max_decompressed_bytes=1_000))
    with pytest.raises(CorruptBatch, match="more than 1000 bytes"):
        list(iter_timestamps(bomb, max_decompressed_bytes=1_000))


def test_every_flipped_bit_under_the_crc_is_noticed() -> None:
    batch = bytearray(small_batch(count=1))
    for bit in range(17 * 8, len(batch) * 8):
        batch[bit // 8] ^= 1 << bit % 8
        assert not crc_matches(batch, 0, len(batch))
        batch[bit // 8] ^= 1 << bit % 8
    assert crc_matches(batch, 0, len(batch))


@given(st.binary(max_size=300), st.integers(0, 2**31 - 1), st.sampled_from([0, 1, 2, 3, 4]))
@settings(max_examples=200)
def test_any_bytes_at_all_are_read_or_refused(records: bytes, count: int, codec: int) -> None:
    for read in (iter_records, iter_timestamps):
        try:
            list(read(with_records(records, count, codec), max_decompressed_bytes=1 << 20))
        except CorruptBatch:
            pass
    batch = with_records(records, count, codec)
    header = read_header(batch)
    if is_surely_between(header, batch, header.base_timestamp_ms - 100, header.base_timestamp_ms + 100):
        assert all(abs(time_ms - header.base_timestamp_ms) <= 100 for time_ms in iter_timestamps(batch))


def test_garbled_batches_are_read_or_refused() -> None:
    rng = random.Random(11)
    whole = batch_of([(1_000 + index, b"k", b"v" * index, (("h", b"x"),)) for index in range(9)])
    for _ in range(3_000):
        batch = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            batch[rng.randrange(8, len(batch))] = rng.randrange(256)
        try:
            list(iter_records(batch, max_decompressed_bytes=1 << 20))
            list(iter_timestamps(batch, max_decompressed_bytes=1 << 20))
        except CorruptBatch:
            pass


@pytest.mark.parametrize("codec", list(Codec))
def test_a_cut_batch_is_surely_between_nothing(codec: Codec) -> None:
    batch = small_batch(codec)
    assert is_surely_between(read_header(batch), batch, 0, 1 << 40)
    assert not any(is_surely_between(read_header(batch), batch[:end], 0, 1 << 40) for end in range(len(batch)))
