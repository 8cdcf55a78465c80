"""The five codecs: round trips, other programs' output, and what must be refused."""

import gzip
import random
import zlib

import cramjam
import pyarrow
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from headrace.wire.batch.compression import Bomb, Codec, compress, decompress
from headrace.wire.errors import CorruptBatch, WireError

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@given(st.sampled_from(list(Codec)), st.binary(max_size=70_000))
@settings(max_examples=100)
def test_what_was_packed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), max_bytes=len(data)) == data
    assert decompress(codec, memoryview(bytearray(compress(codec, memoryview(data)))), max_bytes=len(data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_data_of_many_blocks_comes_back(codec: Codec) -> None:
    data = random.Random(1).randbytes(50_000) * 20
    assert decompress(codec, compress(codec, data), max_bytes=len(data)) == data


@pytest.mark.parametrize("codec", list(Codec))
def test_one_byte_above_the_bound_is_refused_and_the_bound_itself_is_not(codec: Codec) -> None:
    data = bytes(200_000)
    packed = compress(codec, data)
    assert decompress(codec, packed, max_bytes=200_000) == data
    with pytest.raises(Bomb, match="199999") as refused:
        decompress(codec, packed, max_bytes=199_999)
    assert refused.value.max_bytes == 199_999


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_without_unpacking_it(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    with pytest.raises(Bomb):
        decompress(codec, bomb, max_bytes=100_000)


def test_lz4_blocks_are_independent_as_apache_kafka_demands() -> None:
    """Found with Apache Kafka 4.1: 'Dependent block stream is unsupported', and every batch was refused."""
    frame = compress(Codec.LZ4, b"block " * 100_000)
    assert frame[:4] == bytes.fromhex("04224d18")
    flags = frame[4]
    assert flags >> 6 == 1, "frame format version 1"
    assert flags & 0x20, "block independence"


def test_a_snappy_length_that_lies_is_refused_before_anything_is_allocated() -> None:
    four_gigabytes = b"\xff\xff\xff\xff\x0f" + b"abc"
    with pytest.raises(Bomb):
        decompress(Codec.SNAPPY, four_gigabytes, max_bytes=1 << 20)


@pytest.mark.parametrize("codec", PACKED)
def test_cut_data_is_refused_as_corrupt(codec: Codec) -> None:
    packed = compress(codec, b"the same words again and again " * 50)
    for end in range(1, len(packed)):
        try:
            unpacked = decompress(codec, packed[:end], max_bytes=1 << 20)
        except WireError:
            continue
        # A xerial frame without its last block is whole in itself: the batch's record count finds it.
        assert codec is Codec.SNAPPY, f"{end} of {len(packed)} bytes of {codec.name} were accepted"
        assert end == 16
        assert unpacked == b""


@pytest.mark.parametrize("codec", PACKED)
def test_garbage_is_refused_as_corrupt(codec: Codec) -> None:
    rng = random.Random(3)
    packed = compress(codec, rng.randbytes(300))
    for _ in range(200):
        garbled = bytearray(packed)
        garbled[rng.randrange(len(garbled))] ^= 1 << rng.randrange(8)
        try:
            decompress(codec, garbled, max_bytes=1 << 20)
        except WireError:
            pass
    with pytest.raises(CorruptBatch):
        decompress(codec, b"\x01\x02\x03 no such stream", max_bytes=1 << 20)


def test_snappy_is_read_raw_as_librdkafka_may_write_it() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"raw snappy"))
    assert decompress(Codec.SNAPPY, raw, max_bytes=100) == b"raw snappy"


def test_snappy_begins_with_the_java_clients_header() -> None:
    assert compress(Codec.SNAPPY, b"x")[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def test_kafka_python_reads_what_we_pack() -> None:
    data = b"0123456789" * 9_000
    assert bytes(kafka_codec.gzip_decode(compress(Codec.GZIP, data))) == data
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, data), max_output_size=len(data)) == data


def test_pyarrow_reads_our_lz4_and_we_read_its() -> None:
    data = b"0123456789" * 9_000
    frames = pyarrow.Codec("lz4")
    assert bytes(frames.decompress(compress(Codec.LZ4, data), len(data))) == data
    assert decompress(Codec.LZ4, bytes(frames.compress(data)), max_bytes=len(data)) == data
    assert decompress(Codec.SNAPPY, bytes(pyarrow.Codec("snappy").compress(data)), max_bytes=len(data)) == data


def test_gzip_members_and_streamed_zstd_of_other_programs_are_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), max_bytes=7) == b"one two"
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(b"no size in the frame" * 9)
    assert decompress(Codec.ZSTD, streamed, max_bytes=1_000) == b"no size in the frame" * 9


def test_plain_zlib_is_not_gzip() -> None:
    with pytest.raises(CorruptBatch, match="gzip"):
        decompress(Codec.GZIP, zlib.compress(b"no gzip header"), max_bytes=100)
