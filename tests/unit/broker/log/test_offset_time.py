"""Offsets by time: the first record in log order at that time or later, in any segment, with timestamps in any order."""

import random
from itertools import count
from pathlib import Path

import pytest

from headrace.broker.log import FolderFault, PartitionLog, offset_time
from headrace.broker.log.offset_time import RECORDS_A_STEP, Found
from headrace.broker.log.segment.segment_name import file_name
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.generators import run_to_end
from tests.support.small_logs import MAY_2015_MS, NOW_MS, batch, fetched, open_log

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_each_time_finds_the_first_record_then_or_later(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=1_000, flush_on_roll=False)
    chance = random.Random(11)
    for number in range(40):
        log.append(
            batch(b"a", b"b", b"c", timestamp_ms=1_000 + 10 * number + chance.randint(-100, 100), codec=Codec(number % 5)), NOW_MS
        )
    records = [record for _, data in fetched(log) for record in iter_records(data)]
    for log_ in (log, open_log(tmp_path, index_interval_bytes=1)):
        for timestamp_ms in range(850, 1_550, 7):
            expected = next(((r.offset, r.timestamp_ms) for r in records if r.timestamp_ms >= timestamp_ms), None)
            assert run_to_end(log_.offset_for_time(timestamp_ms)) == expected
        largest = max(records, key=lambda record: record.timestamp_ms)
        assert run_to_end(log_.largest_timestamp()) == (largest.offset, largest.timestamp_ms)


def test_an_empty_log_has_no_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert (run_to_end(log.offset_for_time(0)), run_to_end(log.largest_timestamp())) == (None, None)


def test_years_old_events_are_found_by_their_own_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", b"b", timestamp_ms=MAY_2015_MS), NOW_MS)
    assert run_to_end(log.offset_for_time(MAY_2015_MS + 1)) == (log.log_end_offset - 1, MAY_2015_MS + 1)
    assert run_to_end(log.offset_for_time(NOW_MS)) is None


def test_a_batch_whose_records_cannot_be_read_is_found_by_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", timestamp_ms=5), NOW_MS)
    unreadable = batch(b"b", b"c", timestamp_ms=100)
    unreadable[22] |= 4  # says zstd
    log.append(unreadable, NOW_MS)
    assert run_to_end(log.offset_for_time(101)) == (log.log_end_offset - 2, 101)


def test_a_batch_that_would_take_too_much_memory_is_found_by_its_first_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"x" * 100_000, b"y", timestamp_ms=100, codec=Codec.ZSTD), NOW_MS)
    end = log.log_end_offset
    assert run_to_end(log.offset_for_time(101)) == (end - 1, 101)
    monkeypatch.setattr(offset_time, "OPENED_BYTES", 10_000)
    assert run_to_end(log.offset_for_time(101)) == (end - 2, 101)


def test_a_batch_of_very_many_records_is_found_by_its_first_offset_unopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", b"b", b"c", timestamp_ms=100, codec=Codec.ZSTD), NOW_MS)
    end = log.log_end_offset
    assert run_to_end(log.offset_for_time(101)) == (end - 2, 101)
    monkeypatch.setattr(offset_time, "OPENED_RECORDS", 2)
    assert run_to_end(log.offset_for_time(101)) == (end - 3, 102)


def steps_of(search: Found) -> tuple[int, tuple[int, int] | None]:
    """Return how often a search pauses, and what it finds."""
    for number in count():
        try:
            next(search)
        except StopIteration as end:
            return number, end.value
    raise AssertionError("never")


def test_a_search_pauses_in_a_batch_of_many_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(*[b"x"] * (4 * RECORDS_A_STEP + 1), timestamp_ms=100, codec=Codec.ZSTD), NOW_MS)
    last = 4 * RECORDS_A_STEP
    found_last = (log.log_end_offset - 1, 100 + last)
    assert steps_of(log.offset_for_time(100 + last)) == (1 + 4, found_last), "at the segment, after each thousand"
    log.advance_start(log.log_end_offset - last, NOW_MS)
    pauses, found = steps_of(log.largest_timestamp())
    assert (pauses >= 2 * 4, found) == (True, found_last), "to know the largest, then to find it"


def test_of_many_searches_one_pauses_inside_its_batch_and_keeps_it_in_memory(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(*[b"x"] * (2 * RECORDS_A_STEP + 1), timestamp_ms=100, codec=Codec.ZSTD), NOW_MS)
    last = 2 * RECORDS_A_STEP
    found_last = (log.log_end_offset - 1, 100 + last)
    first = log.offset_for_time(100 + last)
    next(first)
    next(first)
    assert steps_of(log.offset_for_time(100 + last)) == (1, found_last), "at the segment alone"
    assert steps_of(first) == (1, found_last)
    cancelled = log.offset_for_time(100 + last)
    next(cancelled)
    next(cancelled)
    cancelled.close()
    assert steps_of(log.offset_for_time(100 + last)) == (1 + 2, found_last), "its place is free again"


@pytest.fixture
def four_closed(tmp_path: Path) -> PartitionLog:
    """A log of four segments of two records, 69 bytes and a millisecond apart, none of whose files is open."""
    log = open_log(tmp_path, segment_bytes=150)
    for number in range(8):
        log.append(batch(b"%d" % number, timestamp_ms=NOW_MS + number), NOW_MS)
    log.close()
    return open_log(tmp_path, segment_bytes=150)


@pytest.mark.parametrize("pauses", [0, 1])
def test_a_segment_that_is_deleted_in_a_pause_is_passed_over(four_closed: PartitionLog, pauses: int) -> None:
    search = four_closed.offset_for_time(NOW_MS + 1)
    for _ in range(pauses):
        next(search)
    four_closed.advance_start(4 * 69, NOW_MS)
    assert run_to_end(search) == (5 * 69 - 1, NOW_MS + 4)


def test_a_segment_that_is_gone_though_nobody_deleted_it_is_a_fault_of_the_folder(
    four_closed: PartitionLog, tmp_path: Path
) -> None:
    (tmp_path / file_name(0)).unlink()
    with pytest.raises(FolderFault, match="No such file"):
        run_to_end(four_closed.offset_for_time(NOW_MS))
