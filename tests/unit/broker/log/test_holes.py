"""A batch may hold more records than bytes: each record gets an offset, and a hole in the file follows the batch."""

import os
from pathlib import Path

import pytest

from headrace.broker.log.tools.check import check
from headrace.wire.batch.record_batch import iter_records
from tests.support.small_logs import NOW_MS, batch, claiming, fetched, more_records_than_bytes, open_log

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_a_batch_takes_as_many_offsets_as_it_has_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    dense = more_records_than_bytes(3_000)
    assert log.append(dense, NOW_MS) == (0, 3_000, None)
    assert log.append(batch(b"next"), NOW_MS).next_offset == 3_000 + len(batch(b"next"))
    offsets = [record.offset for _, data in fetched(log) for record in iter_records(data)]
    assert offsets == [*range(3_000), log.log_end_offset - 1]


def test_no_region_crosses_a_hole(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    log.append(more_records_than_bytes(), NOW_MS)
    for number in range(10):
        log.append(batch(b"%d" % number), NOW_MS)
    first = log.read(0, 1 << 20)
    assert first is not None
    assert first.position + first.length <= 69 + len(more_records_than_bytes())
    assert sum(header.record_count for header, _ in fetched(log, max_bytes=1 << 20)) == 3_011


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_holes_between_and_at_the_ends_of_segments_lose_and_double_nothing(tmp_path: Path, max_bytes: int) -> None:
    log = open_log(tmp_path, segment_bytes=7_000)
    expected = 0
    for number in range(30):
        if number % 3 == 2:
            log.append(batch(b"%d" % number), NOW_MS)
            expected += 1
        else:
            log.append(more_records_than_bytes(3_000 + number), NOW_MS)
            expected += 3_000 + number
    assert len(log.segments) > 3
    offsets = [record.offset for _, data in fetched(log, max_bytes=max_bytes) for record in iter_records(data)]
    assert len(offsets) == len(set(offsets)) == expected
    assert check(tmp_path) == []


def test_a_hole_at_the_end_counts_for_the_log_end_after_a_restart_though_the_file_ends_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    dense = more_records_than_bytes()
    log.append(dense, NOW_MS)
    log.close()
    assert os.path.getsize(tmp_path / f"{0:020d}.log") == len(dense)
    again = open_log(tmp_path)
    assert again.log_end_offset == 3_000
    assert again.recovery.cut_bytes == 0
    assert again.append(batch(b"next"), NOW_MS).next_offset == 3_000 + len(batch(b"next"))
    assert len(fetched(again)) == 2


def test_an_offset_in_a_hole_belongs_to_the_batch_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    size = len(more_records_than_bytes())
    log.append(more_records_than_bytes(), NOW_MS)
    assert log.read(3_000, 100) is None
    log.append(batch(b"next"), NOW_MS)
    # Up to the last record it is the dense batch, although its bytes end before that.
    for offset, position in ((size - 1, 0), (size, 0), (2_999, 0), (3_000, 3_000)):
        assert fetched(log, from_offset=offset)[0][0].position == position


def test_a_hole_takes_no_room_on_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        log.append(claiming(1_000_000), NOW_MS)
    log.close()
    status = os.stat(tmp_path / f"{0:020d}.log")
    assert log.log_end_offset == 3_000_000 < status.st_size + 1_000_000
    assert status.st_blocks * 512 < 1_000_000
