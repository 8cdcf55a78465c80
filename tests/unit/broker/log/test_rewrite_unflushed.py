"""A start writes again exactly what no flush is known to have reached, and changes nothing in it."""

import os
from pathlib import Path

import pytest

from headrace.broker.log import FolderFault, flush_mark
from tests.support.small_logs import NOW_MS, batch, claiming, fetched, open_log, values

PWRITE = os.pwrite
FIRST = f"{0:020d}.log"
LONG_AGO_MS = NOW_MS - 3_600_000


class Writes:
    """Records what is written into segment files: name, position, bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, int, int]] = []
        monkeypatch.setattr(os, "pwrite", self._write)

    def _write(self, fd: int, data: bytes, position: int) -> int:
        self.done.append((Path(os.readlink(f"/proc/self/fd/{fd}")).name, position, len(data)))
        return PWRITE(fd, data, position)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


def three_batches(folder: Path, **settings: int | bool) -> None:
    """Leave a log as a kill leaves it: one batch flushed and indexed, one only indexed, one neither."""
    log = open_log(folder, **settings)
    log.append(batch(b"a"), LONG_AGO_MS)
    log.flush()
    log.append(batch(b"b"), LONG_AGO_MS)
    checkpoint = log.checkpoint_job()
    assert checkpoint is not None
    checkpoint.run()
    log.append(batch(b"c"), LONG_AGO_MS)
    os.utime(folder / FIRST, ns=(LONG_AGO_MS * 1_000_000, LONG_AGO_MS * 1_000_000))


def test_only_what_no_flush_is_known_to_have_reached_is_written_again(tmp_path: Path, writes: Writes) -> None:
    three_batches(tmp_path, index_interval_bytes=1)
    writes.done.clear()
    log = open_log(tmp_path, index_interval_bytes=1)
    assert writes.done == [(FIRST, 69, 138), (FIRST, 138, 69)], "the window that is looked at, as far as the file goes"
    assert (log.flushed_offset, values(fetched(log))) == (207, [b"a", b"b", b"c"])
    log.close()
    writes.done.clear()
    open_log(tmp_path)
    assert writes.done == [], "after a clean stop"


def test_a_log_that_waits_for_no_disk_writes_nothing_again_unless_a_flush_had_failed(tmp_path: Path, writes: Writes) -> None:
    three_batches(tmp_path)
    writes.done.clear()
    assert open_log(tmp_path, flush_at_open=False).flushed_offset == 69
    assert writes.done == []
    flush_mark.leave(tmp_path)
    assert open_log(tmp_path, flush_at_open=False).flushed_offset == 207
    assert writes.done != []
    assert not (tmp_path / flush_mark.NAME).exists()


def test_what_is_written_again_is_no_younger_for_it(tmp_path: Path) -> None:
    three_batches(tmp_path)
    assert open_log(tmp_path).segments[0].last_append_ms == LONG_AGO_MS
    assert (tmp_path / FIRST).stat().st_mtime_ns == LONG_AGO_MS * 1_000_000


def test_holes_stay_holes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        log.append(claiming(8 << 20), NOW_MS)
    before = (tmp_path / FIRST).stat().st_blocks
    again = open_log(tmp_path)
    assert again.flushed_offset == log.log_end_offset == 3 * (8 << 20)
    assert (tmp_path / FIRST).stat().st_blocks - before < 3 * 2 * 512, "at most a window behind each batch"


def test_a_batch_longer_than_a_window_is_written_again_whole(tmp_path: Path, writes: Writes) -> None:
    open_log(tmp_path).append(batch(b"x" * 900_000), NOW_MS)
    writes.done.clear()
    size = (tmp_path / FIRST).stat().st_size
    open_log(tmp_path)
    covered = 0
    for _, position, length in sorted(writes.done):
        assert position <= covered
        covered = max(covered, position + length)
    assert covered == size


def test_a_disk_that_takes_a_part_at_a_time_is_given_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_batches(tmp_path)
    before = (tmp_path / FIRST).read_bytes()
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: PWRITE(fd, memoryview(data)[:10], position))
    assert values(fetched(open_log(tmp_path))) == [b"a", b"b", b"c"]
    assert (tmp_path / FIRST).read_bytes() == before


def test_a_disk_that_takes_nothing_is_named_and_the_next_start_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_batches(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, position: 0)
        with pytest.raises(FolderFault, match="the file takes no more bytes"):
            open_log(tmp_path)
    assert values(fetched(open_log(tmp_path))) == [b"a", b"b", b"c"]
