"""CRC-32C against RFC 3720's examples and crcmod, and the patch against a full recompute."""

import random

import crcmod.predefined
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.batch import crc32c as room
from headrace.wire.batch.crc32c import crc32c, patched

crcmod_crc32c = crcmod.predefined.mkCrcFun("crc-32c")


def test_the_examples_of_rfc_3720_come_out() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=500), st.binary(max_size=500))
@settings(max_examples=100)
def test_it_agrees_with_crcmod_in_one_go_and_in_two(first: bytes, second: bytes) -> None:
    assert crc32c(first + second) == crcmod_crc32c(first + second)
    assert crc32c(second, crc32c(first)) == crcmod_crc32c(first + second)


def test_it_reads_every_kind_of_buffer() -> None:
    data = b"a pipeline that proves nothing was lost"
    assert {crc32c(data), crc32c(bytearray(data)), crc32c(memoryview(data)), crc32c(memoryview(bytearray(data)))} == {
        crcmod_crc32c(data)
    }


def test_the_portable_fallback_gives_the_same() -> None:
    fallback = room._portable()
    assert fallback(memoryview(b"123456789"), 0) == 0xE3069283
    assert fallback(b"6789", fallback(b"12345", 0)) == 0xE3069283


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), st.binary(max_size=3_000))
@settings(max_examples=200)
def test_the_patch_equals_a_full_recompute(before: bytes, change: int, after: bytes) -> None:
    field = 0x01020304
    old = before + field.to_bytes(4, "big") + after
    new = before + (field ^ change).to_bytes(4, "big") + after
    assert patched(crcmod_crc32c(old), change.to_bytes(4, "big"), len(after)) == crcmod_crc32c(new)


def test_the_patch_holds_for_large_tails() -> None:
    rng = random.Random(7)
    for size in (65_535, 65_536, 1_000_003):
        tail = rng.randbytes(size)
        old, new = b"\x00\x00\x00\x09" + tail, b"\x00\x0f\x42\x3f" + tail
        assert patched(crc32c(old), (9 ^ 999_999).to_bytes(4, "big"), size) == crc32c(new)


def test_a_corruption_before_the_patch_still_shows_after_it() -> None:
    data = bytearray(b"\x00\x00\x00\x09" + bytes(1_000))
    good = crc32c(data)
    data[500] ^= 1
    data[:4] = b"\x00\x00\x00\x0a"
    assert patched(good, (9 ^ 10).to_bytes(4, "big"), 1_000) != crc32c(data)
