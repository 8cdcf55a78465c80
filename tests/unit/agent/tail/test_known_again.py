"""A file is known again under another name, in another form and after a restart, and no other one is taken for it.

Found by the search in `test_any_order.py`. A recycled inode is played by a file whose content is replaced while the agent has it
closed: whether a file system gives an inode away again is its own matter.
"""

import gzip
import os
from pathlib import Path

import pytest

from headrace.agent.tail import folders
from headrace.runtime.clock import ManualClock
from tests.support.tailing import Tailing, settings

NOW_MS = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def tailing(tmp_path: Path, clock: ManualClock) -> Tailing:
    return Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock)


def later(tailing: Tailing, clock: ManualClock, times: int = 4) -> None:
    for _ in range(times):
        clock.advance(6_000)
        tailing.run_dry()


def test_a_file_that_is_met_together_with_its_compressed_copy_is_read_once(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    (tmp_path / "a.log.1").write_text("one\n")
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"one\n"))
    tailing.run_dry()
    (tmp_path / "a.log.1").unlink()
    later(tailing, clock)
    assert tailing.lines() == ["one"]


def test_a_compressed_file_with_the_inode_of_a_known_one_is_read_from_its_own_beginning(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\n")
    tailing.run_dry()
    tailing.group.close()
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress(b"one\n"))
    log.write_bytes(gzip.compress(b"twenty\nthree\n"))
    log.rename(tmp_path / "a.log.1.gz")
    tailing.kill()  # the position still has the inode of the plain file: it led into the middle of a line
    later(tailing, clock)
    assert sorted(tailing.lines()) == ["one", "three", "twenty"]


def test_a_longer_compressed_file_with_the_inode_of_a_known_one_is_read_from_its_own_beginning(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"old {number}\n" for number in range(1_000)))
    tailing.run_dry()
    log.rename(tmp_path / "a.log.1")
    log.touch()
    later(tailing, clock)
    tailing.kill()
    later(tailing, clock)
    tailing.group.close()
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress((tmp_path / "a.log.1").read_bytes()))
    (tmp_path / "a.log.1").write_bytes(gzip.compress(b"".join(b"another %d\n" % number for number in range(1_000))))
    (tmp_path / "a.log.1").rename(tmp_path / "a.log.1.gz")
    tailing.kill()
    later(tailing, clock)
    assert tailing.lines() == [f"{what} {number}" for what in ("old", "another") for number in range(1_000)]


def test_an_unfinished_line_is_none_in_a_file_that_has_the_inode_of_a_rotated_one(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    log = tmp_path / "a.log"
    log.touch()
    tailing.run_dry()
    log.rename(tmp_path / "a.log.1")
    log.touch()
    later(tailing, clock)
    log.rename(tmp_path / "a.log.2")
    (tmp_path / "a.log.1").rename(log)
    log.write_text("begun")
    later(tailing, clock)
    assert tailing.lines() == []
    with log.open("a") as file:
        file.write(" and ended\n")
    later(tailing, clock)
    assert tailing.lines() == ["begun and ended"]


def test_an_unfinished_line_is_none_in_a_file_that_one_listing_of_its_folder_lacks(
    tmp_path: Path, clock: ManualClock, tailing: Tailing, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\nbegun")
    later(tailing, clock)
    (tmp_path / "a.log.1").touch()
    with monkeypatch.context() as patch:
        patch.setattr(folders, "_entries", lambda folder: ())
        later(tailing, clock)
    with log.open("a") as file:
        file.write(" and ended\n")
    later(tailing, clock)
    assert tailing.lines() == ["one", "begun and ended"]


def test_the_rest_of_a_rotated_file_is_a_line_also_after_a_restart(tmp_path: Path, clock: ManualClock, tailing: Tailing) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "a.log.1").write_text("one\nrest")
    tailing.run_dry()
    tailing.kill()
    later(tailing, clock)
    assert tailing.lines() == ["one", "rest"]


def test_a_compressed_file_that_is_renamed_between_look_and_read_is_read(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"one\n"))
    tailing.scan()
    tailing.group.close()
    (tmp_path / "a.log.1.gz").rename(tmp_path / "a.log.2.gz")
    tailing.read_one()
    later(tailing, clock)
    assert tailing.lines() == ["one"]


def test_empty_files_that_are_gone_are_not_remembered(tmp_path: Path, clock: ManualClock, tailing: Tailing) -> None:
    log = tmp_path / "a.log"
    for _ in range(10):
        log.touch()
        later(tailing, clock, 1)
        log.unlink()
        later(tailing, clock)
    assert tailing.group.file_count == 0


def test_a_compressed_file_that_was_seen_when_it_was_still_empty_is_known_for_a_copy(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    """Fault: with nothing in it there was nobody it could be a copy of, and that was remembered: all lines came twice."""
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n")
    tailing.run_dry()
    log.rename(tmp_path / "a.log.1")
    log.touch()
    compressed = tmp_path / "a.log.1.gz"
    compressed.touch()
    os.utime(compressed, (NOW_MS / 1_000, NOW_MS / 1_000))
    later(tailing, clock, 1)
    compressed.write_bytes(gzip.compress(b"one\ntwo\n"))
    (tmp_path / "a.log.1").unlink()
    later(tailing, clock)
    assert tailing.lines() == ["one", "two"]


def test_a_file_that_was_empty_at_the_last_look_is_known_for_the_original_of_its_compressed_copy(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    """Fault: filled, rotated and compressed between two scans, it had no fingerprint: all lines came twice, from both."""
    log = tmp_path / "a.log"
    log.touch()
    tailing.run_dry()
    log.write_text("one\ntwo\n")
    log.rename(tmp_path / "a.log.1")
    log.touch()
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    clock.advance(1_000)
    tailing.run_dry()
    (tmp_path / "a.log.1").unlink()
    later(tailing, clock)
    assert tailing.lines() == ["one", "two"]


def test_a_compressed_file_does_not_wait_for_an_unfinished_line_that_only_begins_alike(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    """Fault: the fingerprint of a short file is its first byte, and a file with nothing read was waited for."""
    (tmp_path / "a.log").write_text("10.")
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"1.\n"))
    later(tailing, clock)
    assert tailing.lines() == ["1."]
    assert not tailing.unopened


def test_a_compressed_file_is_a_copy_though_the_inode_of_its_original_holds_something_else_when_the_agent_begins_anew(
    tmp_path: Path, clock: ManualClock
) -> None:
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"]), clock, tries_again=True)
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n")
    tailing.scan()
    assert tailing.read_one()  # planned, and not settled
    tailing.group.close()
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    log.write_text("state of logs\n")
    log.rename(tmp_path / "state")
    tailing.kill()
    later(tailing, clock)
    assert tailing.lines() == ["one", "two"]


def test_a_file_with_the_inode_of_a_known_one_and_its_compressed_copy_are_read_once_when_both_are_met_at_a_start(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    """Fault: the copy was compared with what had had the inode before, and with nothing else."""
    log = tmp_path / "a.log"
    log.write_text("one\n")
    tailing.run_dry()
    tailing.group.close()
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress(b"one\n"))
    log.write_text("three\nfour\n")
    log.rename(tmp_path / "a.log.1")
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"three\nfour\n"))
    tailing.kill()
    later(tailing, clock, 2)
    (tmp_path / "a.log.1").unlink()
    later(tailing, clock)
    assert sorted(tailing.lines()) == ["four", "one", "three"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_compressed_file_in_which_was_nothing_is_not_the_one_that_takes_its_place(
    tmp_path: Path, clock: ManualClock, tailing: Tailing, is_killed: bool
) -> None:
    """Fault: with its name and a recycled inode it was taken for the same file, and its copy of known lines was read."""
    old, log = tmp_path / "a.log.1.gz", tmp_path / "a.log"
    old.write_bytes(gzip.compress(b""))
    log.write_text("one\n")
    later(tailing, clock)
    tailing.group.close()
    old.write_bytes(gzip.compress(b"one\n"))
    log.unlink()
    if is_killed:
        tailing.kill()
    later(tailing, clock)
    assert tailing.lines() == ["one"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_compressed_file_that_is_cut_for_good_is_read_as_far_as_it_goes_told_and_holds_no_window(
    tmp_path: Path, clock: ManualClock, tailing: Tailing, is_first: bool
) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    whole = gzip.compress("\n".join([*lines, ""]).encode())
    path = tmp_path / "a.log.1.gz"
    if not is_first:
        tailing.run_dry()
    path.write_bytes(whole[: len(whole) // 2])
    os.utime(path, (NOW_MS / 1_000, NOW_MS / 1_000))
    tailing.tries_again = True
    later(tailing, clock, 1)
    assert tailing.unreadable  # it may still be being written
    later(tailing, clock, 12)
    assert not tailing.unreadable
    assert not tailing.unopened
    found = tailing.lines()
    assert 1_000 < len(found) < 5_000
    assert found == lines[: len(found)]
    assert tailing.group.events["damaged"] > 0
    tailing.kill()
    later(tailing, clock)
    assert tailing.lines() == found
    path.write_bytes(whole)  # repaired
    later(tailing, clock)
    assert tailing.lines() == lines


def test_a_compressed_file_without_a_readable_byte_is_told_and_holds_no_window(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    (tmp_path / "a.log").write_text("one\n")
    path = tmp_path / "a.log.1.gz"
    path.write_bytes(b"no gzip at all")
    os.utime(path, (NOW_MS / 1_000, NOW_MS / 1_000))
    later(tailing, clock, 1)
    assert str(path) in tailing.unopened
    later(tailing, clock, 12)
    assert not tailing.unopened
    assert tailing.group.events["damaged"] == 1
    assert tailing.lines() == ["one"]


def test_a_file_that_cannot_be_opened_at_first_is_not_known_by_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """Fault: the agent knew it without a fingerprint, so that nothing told its compressed copy: all lines came twice."""
    tailing = Tailing(settings(tmp_path, paths=[f"{tmp_path}/a.log*"], most_open_files=1), clock, tries_again=True)
    deleted, log = tmp_path / "a.log.9", tmp_path / "a.log"
    deleted.write_text("deleted\n")
    tailing.scan()
    deleted.unlink()
    clock.advance(1_000)
    tailing.scan()  # it is kept open until it is read: there is no room for another one
    log.write_text("one\ntwo\n")
    clock.advance(1_000)
    tailing.scan()
    assert str(log) in tailing.unopened
    clock.advance(500)
    tailing.scan()
    assert str(log) in tailing.unopened, "no window is sealed, however seldom the file is looked at"
    later(tailing, clock, 3)
    assert tailing.read_one() is False
    tailing.kill()
    tailing.group.close()
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    log.unlink()
    later(tailing, clock)
    assert sorted(tailing.lines()) == ["deleted", "one", "two"]


def test_a_file_of_which_nothing_is_settled_is_known_again_by_what_was_planned(
    tmp_path: Path, clock: ManualClock, tailing: Tailing
) -> None:
    """Fault: a settled position has the fingerprint of a first byte, which a file with its recycled inode had as well."""
    log = tmp_path / "a.log"
    log.write_text("1.")
    tailing.run_dry()
    log.write_text("1.\n2.\n3.\n")
    clock.advance(6_000)
    tailing.scan()
    assert tailing.read_one()
    tailing.group.close()
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.write_text("10.\n11.\n12.\n13.\n")
    tailing.tries_again = True
    tailing.kill()
    later(tailing, clock)
    assert sorted(map(float, tailing.lines())) == [1, 2, 3, 10, 11, 12, 13]
