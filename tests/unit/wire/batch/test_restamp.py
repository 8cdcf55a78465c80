"""Another producer in the header: every other byte stays, and the CRC is what an independent library computes again."""

import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.batch.batch_builder import BatchBuilder
from headrace.wire.batch.batch_header import HEADER_SIZE, crc_matches, read_header
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record import iter_records
from headrace.wire.batch.restamp import NEUTRAL, Stamp, crc_under, needs_rebuilding, placed_at, rebuilt, restamped, stamp_of

independent_crc = crcmod.predefined.mkCrcFun("crc-32c")
RECORD = st.tuples(st.integers(0, 1 << 41), st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=300))
STAMP = st.builds(
    Stamp,
    st.integers(-1, (1 << 63) - 1),
    st.integers(-1, (1 << 15) - 1),
    st.integers(-1, (1 << 31) - 1),
    st.booleans(),
)


def batch_of(records: list[tuple[int, bytes | None, bytes | None]], codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder(codec, producer_id=7, producer_epoch=1, base_sequence=40)
    for timestamp_ms, key, value in records:
        builder.append(timestamp_ms, key, value, [("h", b"x")])
    return builder.build()


@given(
    records=st.lists(RECORD, min_size=1, max_size=20),
    codec=st.sampled_from(Codec),
    stamps=st.lists(STAMP, min_size=1, max_size=4),
)
def test_the_patched_crc_is_what_an_independent_library_computes(
    records: list[tuple[int, bytes | None, bytes | None]], codec: Codec, stamps: list[Stamp]
) -> None:
    batch = batch_of(records, codec)
    for stamp in stamps:
        header = read_header(batch)
        made = restamped(header, memoryview(batch), stamp)
        whole = made.front + bytes(made.records)
        assert made.crc == independent_crc(whole[21:]) == read_header(whole).crc == crc_under(header, stamp)
        assert whole[HEADER_SIZE:] == batch[HEADER_SIZE:]
        assert stamp_of(read_header(whole)) == stamp
        assert (whole[8:12], whole[23:43], whole[57:61]) == (batch[8:12], batch[23:43], batch[57:61])
        assert list(iter_records(whole)) == list(iter_records(batch))
        batch = whole


@given(records=st.lists(RECORD, min_size=1, max_size=5), stamp=STAMP)
def test_the_neutral_crc_is_the_same_for_every_copy(records: list[tuple[int, bytes | None, bytes | None]], stamp: Stamp) -> None:
    batch = batch_of(records)
    made = restamped(read_header(batch), memoryview(batch), stamp)
    assert crc_under(read_header(made.front), NEUTRAL) == crc_under(read_header(batch), NEUTRAL)


def test_a_damaged_batch_stays_damaged() -> None:
    batch = bytearray(batch_of([(1, b"k", b"value")]))
    batch[-3] ^= 1
    made = restamped(read_header(batch), memoryview(batch), Stamp(9, 0, 0, True))
    whole = made.front + bytes(made.records)
    assert not crc_matches(whole, 0, len(whole))


def test_a_batch_is_placed_without_touching_what_the_crc_covers() -> None:
    batch = batch_of([(1, None, b"a"), (2, None, b"b")])
    made = placed_at(restamped(read_header(batch), memoryview(batch), NEUTRAL), 12_345)
    whole = made.front + bytes(made.records)
    assert read_header(whole).base_offset == 12_345
    assert crc_matches(whole, 0, len(whole))


def thinned(codec: Codec) -> bytes:
    """Return a batch as compaction leaves it: the middle record gone, the header's span kept."""
    builder = BatchBuilder(codec)
    for number in range(3):
        builder.append(1_000 + number, b"k%d" % number, b"v%d" % number)
    whole = bytearray(builder.build())
    assert codec is Codec.NONE
    records = bytes(whole[HEADER_SIZE:])
    size = 1 + (records[0] >> 1)
    whole[HEADER_SIZE:] = records[:size] + records[2 * size :]
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    whole[57:61] = (2).to_bytes(4, "big")
    whole[17:21] = independent_crc(bytes(whole[21:])).to_bytes(4, "big")
    return bytes(whole)


def test_a_batch_with_holes_is_made_anew_and_says_where_its_records_were() -> None:
    batch = thinned(Codec.NONE)
    header = read_header(batch)
    assert needs_rebuilding(header)
    made, deltas = rebuilt(header, batch)
    assert deltas == [0, 2]
    assert not needs_rebuilding(read_header(made))
    found = [(one.offset, one.timestamp_ms, one.key, one.value) for one in iter_records(made)]
    assert found == [(0, 1_000, b"k0", b"v0"), (1, 1_002, b"k2", b"v2")]


def test_a_batch_with_the_brokers_time_is_made_anew_with_the_times_that_consumers_read() -> None:
    batch = bytearray(batch_of([(1, None, b"a"), (2, None, b"b")]))
    batch[22] |= 0x08
    batch[35:43] = (99).to_bytes(8, "big")
    header = read_header(batch)
    assert needs_rebuilding(header)
    made, deltas = rebuilt(header, bytes(batch))
    assert deltas == [0, 1]
    assert [one.timestamp_ms for one in iter_records(made)] == [99, 99]
    assert not read_header(made).is_log_append_time


@pytest.mark.parametrize("codec", Codec)
def test_ordinary_batches_are_not_made_anew(codec: Codec) -> None:
    assert not needs_rebuilding(read_header(batch_of([(1, None, b"a")], codec)))
