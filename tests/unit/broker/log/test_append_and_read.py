"""Append and read: offsets are byte positions, regions hold whole batches, each record is found from any offset."""

import os
from pathlib import Path

import pytest

from headrace.broker.log import BatchRefused, LogUnusable, OffsetOutOfRange
from headrace.wire.batch.record_batch import HEADER_SIZE, iter_batches, read_header
from tests.support.small_logs import NOW_MS, batch, fetched, held_open, open_log, values

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_a_batchs_last_record_stands_right_before_the_next_batchs_position(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    first, second = batch(b"a", b"b"), batch(b"c")
    end = len(first) + len(second)
    assert log.append(first, NOW_MS) == (len(first) - 2, len(first), None)
    assert log.append(second, NOW_MS) == (end - 1, end, None)
    assert log.log_end_offset == end == os.path.getsize(tmp_path / "log" / f"{0:020d}.log")
    assert values(fetched(log)) == [b"a", b"b", b"c"]


def test_segments_are_named_by_their_base_offset_in_twenty_digits(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    first = log.append(batch(b"a"), NOW_MS)
    log.append(batch(b"b"), NOW_MS)
    names = sorted(path.name for path in tmp_path.glob("*.log"))
    assert names == ["00000000000000000000.log", f"{first.next_offset:020d}.log"]


@pytest.mark.parametrize("max_bytes", [1, 100, 250, 1_000, 1 << 20])
@pytest.mark.parametrize("segment_bytes", [64, 500, 1 << 20])
def test_a_fetch_loop_reads_every_record_once(tmp_path: Path, segment_bytes: int, max_bytes: int) -> None:
    log = open_log(tmp_path, segment_bytes=segment_bytes, flush_on_roll=False)
    sent = [b"%d" % number for number in range(60)]
    for at in range(0, 60, 3):
        log.append(batch(*sent[at : at + 3]), NOW_MS)
    assert values(fetched(log, max_bytes=max_bytes)) == sent


def test_every_offset_is_answered_by_the_batch_that_it_lies_in(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400, flush_on_roll=False)
    for number in range(12):
        log.append(batch(b"%d" % number, b"again"), NOW_MS)
    found = [header for header, _ in fetched(log)]
    for offset in range(log.log_end_offset):
        (expected,) = [h for h in found if h.position <= offset < h.next_offset]
        piece = log.read(offset, 1)
        assert piece is not None
        assert read_header(piece.read()) == expected
    assert log.log_end_offset == found[-1].base_offset + 2, "no offset stands between the last record and the end"
    assert log.read(log.log_end_offset, 1 << 20) is None


def test_a_batch_larger_than_asked_for_comes_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    large = batch(b"x" * 5_000)
    log.append(large, NOW_MS)
    piece = log.read(0, 10)
    assert piece is not None
    assert len(piece) == piece.length == len(large)


def test_a_batch_larger_than_a_segment_gets_one_to_itself(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    for value in (b"a", b"x" * 1_000, b"b"):
        log.append(batch(value), NOW_MS)
    assert len(log.segments) == 3
    assert values(fetched(log)) == [b"a", b"x" * 1_000, b"b"]


def test_a_read_stops_before_what_may_not_be_seen_yet(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = [log.append(batch(b"%d" % number), NOW_MS).next_offset for number in range(8)]
    for up_to in range(log.log_end_offset + 50):
        piece = log.read(0, 1 << 20, up_to)
        seen = [header.next_offset for header, _ in iter_batches(piece.read())] if piece is not None else []
        offset = seen[-1] if seen else 0
        while offset < up_to and (piece := log.read(offset, 1 << 20, up_to)) is not None:
            seen += [header.next_offset for header, _ in iter_batches(piece.read())]
            offset = seen[-1]
        assert seen == [end for end in ends if end <= up_to]


def test_reading_outside_of_the_log_names_the_offsets_that_are_there(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    assert log.read(log.log_end_offset, 100) is None
    for offset in (-1, log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange, match=r"events-0: offset .* holds 0 to 69") as caught:
            log.read(offset, 100)
        assert (caught.value.offset, caught.value.log_end_offset) == (offset, 69)


def test_a_closed_log_opens_again_with_all_it_had(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    sent = [b"%d" % number for number in range(20)]
    for value in sent:
        log.append(batch(value), NOW_MS)
    end = log.log_end_offset
    log.close()
    with pytest.raises(LogUnusable, match="it is closed"):
        log.append(batch(b"late"), NOW_MS)
    again = open_log(tmp_path, segment_bytes=300)
    assert again.log_end_offset == end == again.flushed_offset
    assert again.recovery.cut_bytes == 0
    again.append(batch(b"more"), NOW_MS)
    assert values(fetched(again)) == [*sent, b"more"]


def test_a_buffer_that_is_not_exactly_one_batch_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    empty = batch(b"a")
    empty[57:61] = bytes(4)
    for wrong in (batch(b"a") + b"x", memoryview(batch(b"a"))[:-1], empty):
        with pytest.raises(BatchRefused, match="send one whole batch"):
            log.append(wrong, NOW_MS)
    assert log.log_end_offset == 0


def test_a_batch_is_appended_from_a_view_into_a_larger_buffer_without_touching_the_rest(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = batch(b"a"), batch(b"b")
    frame = bytearray(b"head" + first + second + b"tail")
    log.append(memoryview(frame)[4 : 4 + len(first)], NOW_MS)
    log.append(memoryview(frame)[4 + len(first) : -4], NOW_MS)
    assert bytes(frame[:4] + frame[-4:]) == b"headtail"
    assert values(fetched(log)) == [b"a", b"b"]


def test_the_leader_epoch_is_written_into_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS, leader_epoch=7)
    assert [header.leader_epoch for header, _ in fetched(log)] == [7]


def test_a_segment_rolls_when_its_first_append_is_old_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_ms=1_000)
    for at_ms in (0, 500, 999, 1_000, 1_001, 2_100):
        log.append(batch(b"a"), NOW_MS + at_ms)
    assert [(facts.first_append_ms - NOW_MS, facts.last_append_ms - NOW_MS) for facts in log.segments] == [
        (0, 999),
        (1_000, 1_001),
        (2_100, 2_100),
    ]


def test_few_files_are_open_however_many_segments_are_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    for number in range(50):
        log.append(batch(b"%d" % number), NOW_MS)
    assert len(fetched(log)) == 50
    assert len(held_open(tmp_path)) <= 2


def test_the_sparse_list_of_batch_starts_grows_with_bytes_and_not_with_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=1_000)
    for _ in range(500):
        log.append(batch(b"a"), NOW_MS)
    starts = log._segments.active.index.starts
    assert len(starts) <= log.log_end_offset // 1_000 + 1
    assert log.log_end_offset > HEADER_SIZE * 500


def test_the_ends_remembered_for_readers_are_bounded(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=1 << 20)
    for number in range(300):
        log.append(batch(b"%d" % number), NOW_MS)
    assert len(fetched(log, max_bytes=1)) == 300
    assert len(log._segments.active.index.reader_offsets) == 64
