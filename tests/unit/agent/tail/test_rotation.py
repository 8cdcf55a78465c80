"""Files that are written, rotated, truncated, compressed and deleted while they are read."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from headrace.runtime.clock import ManualClock
from tests.support.tailing import Tailing, settings

NOW_MS = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def later(tailing: Tailing, clock: ManualClock, ms: int = 6_000, times: int = 1) -> None:
    for _ in range(times):
        clock.advance(ms)
        tailing.run_dry()


def test_lines_are_read_as_they_come_and_a_line_without_its_end_is_not_yet_one(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\ntwo\nthr")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    assert tailing.lines() == ["one", "two"]
    write(log, "ee\n")
    later(tailing, clock)
    assert tailing.lines() == ["one", "two", "three"]
    later(tailing, clock, times=3)
    assert tailing.lines() == ["one", "two", "three"]


def test_a_renamed_file_is_read_to_its_end_and_its_rest_is_a_line(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    old = log.open("a")
    log.rename(tmp_path / "a.log.1")  # outside of the pattern
    write(log, "three\n")
    old.write("two\nrest")
    old.close()
    later(tailing, clock)
    assert sorted(tailing.lines()) == ["one", "three", "two"]
    later(tailing, clock)
    assert sorted(tailing.lines()) == ["one", "rest", "three", "two"]
    assert len(tailing.rows_of) == 2


def test_a_file_renamed_while_the_agent_is_down_is_found_by_its_inode(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    write(log, "two\n")
    log.rename(tmp_path / "a.log.1")
    write(log, "three\n")
    tailing.kill()
    later(tailing, clock)
    assert sorted(tailing.lines()) == ["one", "three", "two"]


def test_the_rest_of_a_file_that_was_rotated_before_it_was_met_is_a_line(tmp_path: Path, clock: ManualClock) -> None:
    write(tmp_path / "a.log.1", "one\nrest")
    write(tmp_path / "a.log", "two\nnot yet")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)
    later(tailing, clock, times=3)
    assert sorted(tailing.lines()) == ["one", "rest", "two"]


def test_of_two_files_that_had_one_inode_the_later_one_has_it_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"], copytruncate=True), clock)
    later(tailing, clock, 11_000, times=2)
    (tmp_path / "a.log.1").write_bytes(log.read_bytes())
    log.write_text("two\n")
    clock.advance(6_000)
    tailing.scan()
    tailing.read_one()
    tailing.scan()
    tailing.kill()  # before the first file's new inode was stored
    later(tailing, clock, times=4)
    assert tailing.lines() == ["one", "two"]


def test_a_truncated_file_begins_anew_and_is_told(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\ntwo\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    log.write_text("2\n")
    later(tailing, clock, times=2)
    assert tailing.lines() == ["one", "two", "2"]
    assert tailing.group.events["truncated"] == 1


def test_a_truncation_is_seen_though_the_file_is_longer_than_before(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    log.write_text("another one that is longer\n")
    later(tailing, clock, times=2)
    assert tailing.lines() == ["one", "another one that is longer"]
    assert tailing.group.events["truncated"] == 1


def test_a_truncation_to_the_same_length_is_seen(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    log.write_text("two\n")
    os.utime(log, ns=(1, 1))  # the clock of the file system is coarser than this test
    later(tailing, clock, times=2)
    assert tailing.lines() == ["one", "two"]


def test_a_writer_that_goes_on_at_its_old_place_leaves_a_hole_which_is_no_line(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    writer = log.open("wb")
    writer.write(b"x" * 300_000 + b"\n")
    writer.flush()
    tailing = Tailing(settings(tmp_path, most_line_bytes=1 << 20), clock)
    tailing.run_dry()
    os.truncate(log, 0)
    writer.write(b"after\n")
    writer.flush()
    later(tailing, clock, times=2)
    assert tailing.lines() == ["x" * 300_000, "after"]
    assert tailing.group.events["hole_bytes"] == 300_001


def test_truncated_while_the_agent_is_down(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\ntwo\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    log.write_text("three and more\n")
    tailing.kill()
    later(tailing, clock, times=2)
    assert tailing.lines() == ["one", "two", "three and more"]


def test_a_recycled_inode_is_not_taken_for_the_old_file(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "old content\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    inode = log.stat().st_ino
    tailing.kill()  # with the file open no inode is recycled
    tailing.group.close()
    # Whether the file system gives the inode away again is its own matter: a rewrite in place is the same to see.
    log.write_text("new content, longer\n")
    log.rename(tmp_path / "b.log")
    later(tailing, clock, times=3)
    assert (tmp_path / "b.log").stat().st_ino == inode
    assert tailing.lines() == ["old content", "new content, longer"]


@pytest.mark.parametrize(("suffix", "opener"), [("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open)])
def test_a_compressed_old_file_is_known_again_and_its_unread_rest_is_read(
    tmp_path: Path, clock: ManualClock, suffix: str, opener: object
) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)
    tailing.run_dry()
    write(log, "two\nrest")
    tailing.group.close()
    with opener(f"{log}.1.{suffix}", "wb") as file:  # type: ignore[operator]
        file.write(log.read_bytes())
    log.unlink()
    write(log, "three\n")
    tailing.kill()
    later(tailing, clock, times=3)
    assert sorted(tailing.lines()) == ["one", "rest", "three", "two"]
    assert len(tailing.rows_of) == 2
    tailing.kill()
    later(tailing, clock, times=5)
    assert len(tailing.rows) == 4


def test_a_file_that_is_compressed_while_it_is_open_is_read_once(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)
    tailing.run_dry()
    log.rename(tmp_path / "a.log.1")
    write(log, "two\n")
    later(tailing, clock)
    with gzip.open(tmp_path / "a.log.1.gz", "wb") as file:
        file.write(b"one\n")
    later(tailing, clock)
    (tmp_path / "a.log.1").unlink()
    later(tailing, clock, times=6)
    assert sorted(tailing.lines()) == ["one", "two"]
    tailing.kill()
    later(tailing, clock, times=6)
    assert sorted(tailing.lines()) == ["one", "two"]


def test_a_file_that_is_compressed_before_anything_of_it_was_read_is_read_once(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)
    tailing.scan()
    with gzip.open(tmp_path / "a.log.gz", "wb") as file:
        file.write(b"one\n")
    clock.advance(6_000)
    tailing.scan()
    log.unlink()
    later(tailing, clock, times=6)
    assert tailing.lines() == ["one"]


def test_a_file_that_is_compressed_while_its_first_lines_are_under_way_is_read_once(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    log.touch()
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)
    tailing.scan()
    write(log, "one\ntwo\n")
    clock.advance(6_000)
    tailing.scan()
    assert tailing.read_one()  # planned, and not settled: the agent's position is the file's beginning
    with gzip.open(tmp_path / "a.log.gz", "wb") as file:
        file.write(b"one\ntwo\n")
    log.unlink()
    tailing.kill()
    later(tailing, clock, times=6)
    assert tailing.lines() == ["one", "two"]


def test_a_compressed_file_that_nobody_knows_is_read_once(tmp_path: Path, clock: ManualClock) -> None:
    with gzip.open(tmp_path / "a.log.2.gz", "wb") as file:
        file.write(b"one\ntwo")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)
    later(tailing, clock, times=3)
    tailing.kill()
    later(tailing, clock, times=3)
    assert tailing.lines() == ["one", "two"]


def test_a_compressed_file_that_is_still_written_is_waited_for(tmp_path: Path, clock: ManualClock) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % number for number in range(2_000)))
    path = tmp_path / "a.log.gz"
    path.write_bytes(whole[: len(whole) // 2])
    os.utime(path, (NOW_MS / 1_000, NOW_MS / 1_000))
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/*"]), clock)
    tailing.scan()
    with pytest.raises(Exception, match="cut"):
        tailing.read_one()
    path.write_bytes(whole)
    later(tailing, clock, times=2)
    assert tailing.lines() == [f"line {number}" for number in range(2_000)]


def test_with_copytruncate_the_unread_rest_is_read_from_the_copy_and_the_copy_only_once(
    tmp_path: Path, clock: ManualClock
) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"], copytruncate=True), clock)
    later(tailing, clock, 100)
    later(tailing, clock, 11_000)
    write(log, "two\n")
    (tmp_path / "a.log.1").write_bytes(log.read_bytes())
    log.write_text("three\n")
    later(tailing, clock, times=4)
    assert tailing.group.events["copies_matched"] == 1
    tailing.kill()
    later(tailing, clock, times=4)
    assert sorted(tailing.lines()) == ["one", "three", "two"]


def test_a_deleted_file_that_is_open_is_read_to_its_end_and_forgotten(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    write(log, "two\nrest")
    log.unlink()
    later(tailing, clock, times=5)
    assert tailing.lines() == ["one", "two", "rest"]
    assert not tailing.stored
    assert tailing.group.file_count == 0


def test_a_file_deleted_while_the_agent_is_down_is_told_and_forgotten(tmp_path: Path, clock: ManualClock) -> None:
    log = tmp_path / "a.log"
    write(log, "one\n")
    tailing = Tailing(settings(tmp_path), clock)
    tailing.run_dry()
    log.unlink()
    tailing.kill()
    later(tailing, clock, times=5)
    assert tailing.lines() == ["one"]
    assert not tailing.stored


def test_a_new_file_and_one_in_a_new_folder_are_found(tmp_path: Path, clock: ManualClock) -> None:
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/**/*.log"]), clock)
    tailing.run_dry()
    write(tmp_path / "a.log", "one\n")
    (tmp_path / "x" / "y").mkdir(parents=True)
    write(tmp_path / "x" / "y" / "b.log", "two\n")
    write(tmp_path / "x" / ".hidden.log", "three\n")
    later(tailing, clock, times=2)
    assert sorted(tailing.lines()) == ["one", "two"]


def test_a_link_s_target_is_followed_through_its_own_rotation(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    target = tmp_path / "real" / "0.log"
    write(target, "one\n")
    (tmp_path / "links" / "pod.log").symlink_to(target)
    tailing = Tailing(settings(tmp_path / "links"), clock)
    tailing.run_dry()
    write(target, "two\n")
    target.rename(tmp_path / "real" / "0.log.old")
    write(target, "three\n")
    tailing.kill()
    later(tailing, clock, times=3)
    assert sorted(tailing.lines()) == ["one", "three", "two"]


def test_a_link_that_leads_in_a_circle_or_nowhere_does_no_harm(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "nowhere.log").symlink_to(tmp_path / "missing")
    (tmp_path / "pipe.log").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "fifo.log")
    write(tmp_path / "a.log", "one\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/**/*.log"]), clock)
    later(tailing, clock, times=2)
    assert tailing.lines() == ["one"]


def test_two_names_of_one_file_are_one_file(tmp_path: Path, clock: ManualClock) -> None:
    write(tmp_path / "a.log", "one\n")
    os.link(tmp_path / "a.log", tmp_path / "b.log")
    (tmp_path / "c.log").symlink_to("a.log")
    tailing = Tailing(settings(tmp_path), clock)
    later(tailing, clock, times=2)
    assert tailing.lines() == ["one"]


def test_start_at_the_end_leaves_out_what_was_there_also_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    old, cut, empty = tmp_path / "old.log", tmp_path / "cut.log", tmp_path / "empty.log"
    write(old, "before\n")
    write(cut, "bef")
    write(empty, "")
    with gzip.open(tmp_path / "older.log.gz", "wb") as file:
        file.write(b"long before\n")
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/*"], start="end"), clock)
    tailing.run_dry()
    tailing.kill()
    write(old, "after\n")
    write(cut, "ore\nafter too\n")
    write(empty, "first\n")
    write(tmp_path / "new.log", "new\n")
    later(tailing, clock, times=3)
    assert sorted(tailing.lines()) == ["after", "after too", "first", "new"]


def test_bounds_of_files_and_of_open_files_are_kept(tmp_path: Path, clock: ManualClock) -> None:
    for number in range(30):
        write(tmp_path / f"{number:02}.log", f"{number}\n")
    tailing = Tailing(settings(tmp_path, most_files=20, most_open_files=3), clock)
    later(tailing, clock, times=2)
    assert len(tailing.rows) == 20
    assert "raise most_files" in "".join(tailing.unopened.values())
    assert len(tailing.group._section.open_files) <= 3
    for line in tailing.lines()[:10]:
        (tmp_path / f"{int(line):02}.log").unlink()
    later(tailing, clock, times=9)
    assert sorted(tailing.lines()) == sorted(str(number) for number in range(30))
    assert not tailing.unopened
