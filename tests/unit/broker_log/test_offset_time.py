"""Offsets by time: the first record in log order at or after it, in any segment, in any order of timestamps."""

import random
from pathlib import Path

import pytest

from headrace.broker.log import offset_time
from headrace.wire.compression import Codec
from headrace.wire.record_batch import iter_records

from .small_logs import MAY_2015_MS, NOW_MS, batch, fetched, open_log

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
            assert log_.offset_for_time(timestamp_ms) == expected
        largest = max(records, key=lambda record: record.timestamp_ms)
        assert log_.largest_timestamp() == (largest.offset, largest.timestamp_ms)


def test_an_empty_log_has_no_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert (log.offset_for_time(0), log.largest_timestamp()) == (None, None)


def test_years_old_events_are_found_by_their_own_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", b"b", timestamp_ms=MAY_2015_MS), NOW_MS)
    assert log.offset_for_time(MAY_2015_MS + 1) == (1, MAY_2015_MS + 1)
    assert log.offset_for_time(NOW_MS) is None


def test_a_batch_whose_records_cannot_be_read_is_found_by_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", timestamp_ms=5), NOW_MS)
    unreadable = batch(b"b", b"c", timestamp_ms=100)
    unreadable[22] |= 4  # says zstd
    log.append(unreadable, NOW_MS)
    assert log.offset_for_time(101) == (69, 101)


def test_a_batch_that_would_take_too_much_memory_is_found_by_its_first_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"x" * 100_000, b"y", timestamp_ms=100, codec=Codec.ZSTD), NOW_MS)
    assert log.offset_for_time(101) == (1, 101)
    monkeypatch.setattr(offset_time, "OPENED_BYTES", 10_000)
    assert log.offset_for_time(101) == (0, 101)


def test_a_batch_of_very_many_records_is_found_by_its_first_offset_unopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", b"b", b"c", timestamp_ms=100, codec=Codec.ZSTD), NOW_MS)
    assert log.offset_for_time(101) == (1, 101)
    monkeypatch.setattr(offset_time, "OPENED_RECORDS", 2)
    assert log.offset_for_time(101) == (0, 102)
