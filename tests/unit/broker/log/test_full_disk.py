"""A full disk: the append fails with its reason, the log is unchanged, and later appends work."""

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker.log import AppendFailed, LogUnusable
from headrace.broker.log.tools.check import check
from tests.support.small_logs import NOW_MS, batch, fetched, open_log, values

PWRITE = os.pwrite
FIRST = f"{0:020d}.log"
Write = Callable[[int, bytes, int], int]


def full(fd: int, data: bytes, position: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def filling_up_after(room_bytes: int) -> Write:
    """Return a pwrite that writes `room_bytes` and then nothing, like a disk that fills up during a write."""
    left = room_bytes

    def write(fd: int, data: bytes, position: int) -> int:
        nonlocal left
        if left == 0:
            return full(fd, data, position)
        part = memoryview(data)[:left]
        left -= len(part)
        return PWRITE(fd, part, position)

    return write


def in_pieces(fd: int, data: bytes, position: int) -> int:
    return PWRITE(fd, memoryview(data)[:10], position)


def taking_nothing(fd: int, data: bytes, position: int) -> int:
    return 0


@pytest.mark.parametrize("write", [full, taking_nothing, filling_up_after(1), filling_up_after(40), filling_up_after(68)])
def test_a_failed_or_short_write_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", producer_id=4, epoch=0, sequence=0), NOW_MS)
    before = (tmp_path / FIRST).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write)
        with pytest.raises(AppendFailed, match=r"cannot append 69 bytes at offset 69 .* The log is unchanged") as caught:
            log.append(batch(b"b", producer_id=4, epoch=0, sequence=1), NOW_MS + 60_000)
    assert caught.value.retriable
    assert (tmp_path / FIRST).read_bytes() == before
    assert (tmp_path / FIRST).stat().st_mtime_ns == NOW_MS * 1_000_000, "a failed append makes nothing younger"
    assert check(tmp_path) == []
    assert log.segments[0].last_append_ms == NOW_MS
    again = batch(b"b", producer_id=4, epoch=0, sequence=1)
    log.append(again, NOW_MS)
    assert values(fetched(log)) == [b"a", b"b"] == values(fetched(open_log(tmp_path)))


def test_a_write_in_pieces_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", in_pieces)
        log.append(batch(b"a" * 100), NOW_MS)
    assert values(fetched(log)) == [b"a" * 100]


def test_a_disk_that_cannot_even_cut_back_ends_all_appends_until_the_next_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)

    def broken(fd: int, length: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", filling_up_after(40))
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(LogUnusable, match="then cutting back failed"):
            log.append(batch(b"b"), NOW_MS)
    with pytest.raises(LogUnusable):
        log.append(batch(b"b"), NOW_MS)
    assert values(fetched(log)) == [b"a"]
    again = open_log(tmp_path)
    assert again.recovery.cut_bytes == 40
    assert values(fetched(again)) == [b"a"]


def test_a_new_segment_that_cannot_be_made_leaves_the_old_one_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    log.append(batch(b"a"), NOW_MS)
    (tmp_path / f"{69:020d}.log").write_bytes(b"somebody else's")
    with pytest.raises(AppendFailed, match="File exists"):
        log.append(batch(b"b"), NOW_MS)
    (tmp_path / f"{69:020d}.log").unlink()
    assert log.append(batch(b"b"), NOW_MS).next_offset == 69 + 69


def test_a_real_limit_of_the_system_is_met_in_the_same_way(tmp_path: Path) -> None:
    script = """
        import resource, sys
        from pathlib import Path
        from headrace.broker.log import AppendFailed
        from tests.support.small_logs import NOW_MS, batch, fetched, open_log, values

        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
        log = open_log(Path(sys.argv[1]))
        appended = 0
        try:
            while True:
                log.append(batch(b"%d" % appended), NOW_MS)
                appended += 1
        except AppendFailed as error:
            print(error.errno, log.log_end_offset)
        assert appended > 10
        assert values(fetched(log)) == [b"%d" % number for number in range(appended)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        log.append(batch(b"room again"), NOW_MS)
        print(len(fetched(log)) - appended)
    """
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    (code, end), (more,) = (line.split() for line in done.stdout.splitlines())
    assert int(code) == errno.EFBIG
    assert int(end) <= 1_000
    assert more == "1"
    assert check(tmp_path) == []
