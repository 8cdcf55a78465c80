"""Opening after a crash or damage: whole batches stay, only the torn tail is cut, damage in the middle is never served."""

import os
import shutil
from pathlib import Path

import pytest

from headrace.broker.log import FolderFault
from headrace.broker.log import folder as folders
from headrace.broker.log.producer_state import ProducerStates
from headrace.broker.log.recovery import of_new_folder, recover
from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.problem import ProblemKind
from headrace.wire.batch.record_batch import BatchHeader
from tests.support.small_logs import (
    DAY_MS,
    MAY_2015_MS,
    NOW_MS,
    batch,
    claiming,
    fetched,
    headers,
    open_log,
    scrubbed,
    set_crc,
    values,
)

pytestmark = pytest.mark.usefixtures("no_fsync")

FIRST = f"{0:020d}.log"


def a_small_log(folder: Path) -> list[tuple[BatchHeader, bytes]]:
    """Leave a closed log of five small batches in one file, one of them with a hole behind it, and return them."""
    log = open_log(folder)
    for number in range(5):
        log.append(claiming(200) if number == 2 else batch(b"%d" % number, b"again"), NOW_MS)
    log.close()
    return fetched(log)


@pytest.mark.parametrize("flush", [True, False])
def test_a_new_folder_is_as_an_empty_one_that_was_looked_at(tmp_path: Path, flush: bool) -> None:
    assert of_new_folder(flush=flush) == recover(tmp_path, producers=ProducerStates(1), index_interval_bytes=1, flush=flush)


def test_a_folder_is_made_with_its_parents_and_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    assert folders.make(tmp_path / "a" / "b" / "c")
    assert not folders.make(tmp_path / "a" / "b" / "c")
    assert folders.make(tmp_path / "a" / "b" / "d")
    (tmp_path / "file").touch()
    for refused in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="file"):
            folders.make(refused)


def test_a_log_cut_at_any_byte_recovers_to_whole_batches_and_goes_on(tmp_path: Path) -> None:
    made = a_small_log(tmp_path / "whole")
    data = (tmp_path / "whole" / FIRST).read_bytes()
    for length in range(len(data) + 1):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / FIRST).write_bytes(data[:length])
        log = open_log(folder)
        whole = [(header, bytes_) for header, bytes_ in made if header.position + header.size_bytes <= length]
        assert fetched(log) == whole
        assert log.log_end_offset == (whole[-1][0].next_offset if whole else 0)
        assert check(folder) == []
        log.append(batch(b"after the crash"), NOW_MS)
        assert values(fetched(open_log(folder))[-1:]) == [b"after the crash"]
        shutil.rmtree(folder)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_byte_damaged_anywhere_costs_its_own_batch_and_no_other(tmp_path: Path, flip: int) -> None:
    made = a_small_log(tmp_path / "whole")
    data = (tmp_path / "whole" / FIRST).read_bytes()
    for at in range(len(data)):
        folder = tmp_path / str(at)
        folder.mkdir()
        damaged = bytearray(data)
        damaged[at] ^= flip
        (folder / FIRST).write_bytes(damaged)
        log = open_log(folder)
        hit = next((header for header, _ in made if header.position <= at < header.position + header.size_bytes), None)
        served = fetched(log)
        if hit is None or 12 <= at - hit.position < 16:
            # In a hole, or the leader epoch, which is under no CRC.
            assert [bytes_[:12] + bytes_[16:] for _, bytes_ in served] == [bytes_[:12] + bytes_[16:] for _, bytes_ in made]
        elif hit is made[-1][0]:
            assert served == made[:-1]
            assert log.recovery.cut_from_offset == log.log_end_offset == hit.position
        else:
            assert served == [entry for entry in made if entry[0] is not hit]
            assert [(bad.from_offset, bad.to_offset) for bad in log.bad_ranges] == [(hit.position, hit.next_offset)]
            assert log.log_end_offset == made[-1][0].next_offset
            assert (folder / FIRST).read_bytes() == damaged
        shutil.rmtree(folder)


def test_damage_in_a_closed_segments_last_batch_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    for number in range(8):
        log.append(batch(b"%d" % number), NOW_MS)
    log.close()
    made = fetched(log)
    first = log.segments[0]
    last = [header for header, _ in made if header.position < first.end_offset][-1]
    path = tmp_path / FIRST
    os.truncate(path, path.stat().st_size - 3)
    again = scrubbed(open_log(tmp_path, segment_bytes=200))
    assert [(bad.from_offset, bad.to_offset) for bad in again.bad_ranges] == [(last.position, first.end_offset)]
    assert fetched(again) == [entry for entry in made if entry[0] != last]
    assert fetched(again, from_offset=last.position)[0][0].position == first.end_offset
    assert path.stat().st_size == first.size_bytes - 3
    assert ProblemKind.BAD_RANGE in [problem.kind for problem in check(tmp_path)]


def test_a_zero_filled_tail_is_cut_and_is_no_loss_as_nothing_was_ever_whole_there(tmp_path: Path) -> None:
    made = a_small_log(tmp_path)
    path = tmp_path / FIRST
    size_bytes = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(200_000))
    log = open_log(tmp_path)
    assert fetched(log) == made
    assert path.stat().st_size == size_bytes
    assert (log.recovery.cut_bytes, log.recovery.cut_reason) == (0, None)


def test_zeros_with_a_torn_batch_before_them_are_cut_and_told(tmp_path: Path) -> None:
    made = a_small_log(tmp_path)
    with (tmp_path / FIRST).open("ab") as file:
        file.write(bytes(30) + b"torn" + bytes(200_000))
    log = open_log(tmp_path)
    assert fetched(log) == made
    assert log.recovery.cut_bytes == 200_034
    assert "magic 0" in (log.recovery.cut_reason or "")


def test_zeros_in_the_middle_are_a_bad_range_because_something_whole_follows(tmp_path: Path) -> None:
    made = a_small_log(tmp_path)
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    lost = made[1][0]
    data[lost.position : lost.position + lost.size_bytes] = bytes(lost.size_bytes)
    path.write_bytes(data)
    log = open_log(tmp_path)
    assert fetched(log) == [made[0], *made[2:]]
    assert log.bad_ranges[0][:2] == (lost.position, lost.next_offset)


def test_several_damaged_batches_in_a_row_and_apart_are_each_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(12):
        log.append(batch(b"%d" % number), NOW_MS)
    log.close()
    made = fetched(log)
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    for index in (0, 4, 5, 9):
        data[made[index][0].position + 65] ^= 1
    path.write_bytes(data)
    again = open_log(tmp_path)
    assert values(fetched(again)) == [b"%d" % number for number in range(12) if number not in (0, 4, 5, 9)]
    assert [(bad.from_offset, bad.to_offset) for bad in again.bad_ranges] == [
        (made[0][0].position, made[1][0].position),
        (made[4][0].position, made[6][0].position),
        (made[9][0].position, made[10][0].position),
    ]
    for offset in range(again.log_end_offset):
        assert again.read(offset, 1) is not None or offset >= made[11][0].position + 1


def test_a_batch_at_the_wrong_place_is_not_served_though_its_crc_holds(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in (b"a", b"b", b"c"):
        log.append(batch(value), NOW_MS)
    log.close()
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    size = len(data) // 3
    data[size : 2 * size] = data[:size]
    path.write_bytes(data)
    assert values(fetched(open_log(tmp_path))) == [b"a", b"c"]


def test_a_whole_batch_whose_offsets_are_not_its_bytes_is_not_served(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in (b"a", b"b", b"c"):
        log.append(batch(value), NOW_MS)
    log.close()
    path = tmp_path / FIRST
    data = path.read_bytes()
    # As a log of format 1 had it: the CRC holds, the last offset delta is the advance - 1.
    second = bytearray(data[69:138])
    second[:8], second[23:27] = (69).to_bytes(8, "big"), (68).to_bytes(4, "big")
    path.write_bytes(data[:69] + set_crc(second) + data[138:])
    again = open_log(tmp_path)
    assert values(fetched(again)) == [b"a", b"c"]
    assert "last offset delta 68" in again.bad_ranges[0].reason


def test_damage_is_found_behind_megabytes_that_look_like_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in (b"a", os.urandom(3 << 20), b"z"):
        log.append(batch(value), NOW_MS)
    log.close()
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    data[69 + 8] ^= 0x40
    path.write_bytes(data)
    again = open_log(tmp_path)
    assert values(fetched(again)) == [b"a", b"z"]
    assert len(again.bad_ranges) == 1


@pytest.mark.parametrize("place", [65_528, 65_529, 65_530, 65_535, 65_536, 65_537, 131_071])
def test_the_next_whole_batch_is_found_wherever_it_begins(tmp_path: Path, place: int) -> None:
    log = open_log(tmp_path)
    filler = batch(b"x" * 60_000)
    filler = batch(b"x" * (60_000 + place - len(filler)))
    assert len(filler) == place
    for made in (filler, batch(b"found")):
        log.append(made, NOW_MS)
    log.close()
    with (tmp_path / FIRST).open("r+b") as file:
        file.write(b"\xff" * 20)
    again = open_log(tmp_path)
    assert values(fetched(again)) == [b"found"]
    assert again.bad_ranges[0][:2] == (0, place)


def test_a_batch_that_reaches_into_the_next_segment_is_not_served(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    for value in (b"a", b"b"):
        log.append(batch(value), NOW_MS)
    log.close()
    os.rename(tmp_path / f"{69:020d}.log", tmp_path / f"{60:020d}.log")
    again = open_log(tmp_path)
    assert "reaches over 60" in again.bad_ranges[0].reason
    assert fetched(again) == []


def test_an_empty_last_segment_left_by_a_crash_in_a_roll_keeps_the_log_end(tmp_path: Path) -> None:
    made = a_small_log(tmp_path)
    end = made[-1][0].next_offset
    (tmp_path / f"{end:020d}.log").touch()
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert fetched(log) == made
    assert log.append(batch(b"next"), NOW_MS).next_offset == end + len(batch(b"next"))


def test_a_first_append_that_was_torn_in_a_new_segment_keeps_the_log_end(tmp_path: Path) -> None:
    made = a_small_log(tmp_path)
    end = made[-1][0].next_offset
    (tmp_path / f"{end:020d}.log").write_bytes(b"torn")
    log = open_log(tmp_path)
    assert log.log_end_offset == end
    assert log.recovery.cut_bytes == 4
    assert fetched(log) == made


def test_segments_whose_deletion_had_begun_are_removed_and_strangers_left_alone(tmp_path: Path) -> None:
    made = a_small_log(tmp_path)
    (tmp_path / f"{0:020d}.log.deleted").write_bytes(b"old")
    for name in ("notes.txt", "42.log", f"{7:020d}.log.bak", f"{0:019d}x.log"):
        (tmp_path / name).write_bytes(b"?")
    kinds = [problem.kind for problem in check(tmp_path)]
    assert sorted(kinds, key=lambda kind: kind.name) == [ProblemKind.LEFTOVER] + [ProblemKind.STRANGER] * 4
    log = open_log(tmp_path)
    assert fetched(log) == made
    assert not (tmp_path / f"{0:020d}.log.deleted").exists()
    assert (tmp_path / "notes.txt").exists()


def test_ages_are_the_files_and_outlive_the_cut_of_a_torn_tail(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=100)
    for days in (9, 5, 1):
        log.append(batch(b"years old", timestamp_ms=MAY_2015_MS), NOW_MS - days * DAY_MS)
    log.close()
    last = sorted(tmp_path.glob("*.log"))[-1]
    status = last.stat()
    with last.open("ab") as file:
        file.write(b"torn")
    os.utime(last, ns=(status.st_mtime_ns, status.st_mtime_ns))
    again = open_log(tmp_path)
    assert again.recovery.cut_bytes == 4
    for once_more in (again, open_log(tmp_path)):
        assert [NOW_MS - facts.last_append_ms for facts in once_more.segments] == [9 * DAY_MS, 5 * DAY_MS, 1 * DAY_MS]


def test_a_copied_folder_keeps_its_ages(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=100)
    for days in (9, 5):
        log.append(batch(b"a"), NOW_MS - days * DAY_MS)
    log.close()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert open_log(tmp_path / "copy").segments == log.segments


def test_the_time_of_the_active_segments_first_append_outlives_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_ms=2 * DAY_MS)
    log.append(batch(b"a"), NOW_MS - DAY_MS)
    log.append(batch(b"b"), NOW_MS)
    note = log.note_job()
    assert note is not None
    note.run()
    note.done()
    assert log.note_job() is None
    again = open_log(tmp_path, segment_ms=2 * DAY_MS)
    assert again.segments[0].first_append_ms == NOW_MS - DAY_MS
    again.append(batch(b"c"), NOW_MS + DAY_MS)
    assert len(again.segments) == 2


def test_a_note_that_is_written_late_says_nothing_of_the_segment_behind(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    log.append(batch(b"a"), NOW_MS - DAY_MS)
    early = log.note_job()
    assert early is not None
    log.append(batch(b"b"), NOW_MS)
    early.run()
    early.done()
    late = log.note_job()
    assert late is not None
    late.run()
    late.done()
    assert (log.note_job(), open_log(tmp_path).segments[-1].first_append_ms) == (None, NOW_MS)


@pytest.mark.parametrize("note", [None, b"", b"garbage", b"\xff\xfe", b"00000000000000000777 5"])
def test_without_that_note_the_segment_before_tells_the_age(tmp_path: Path, note: bytes | None) -> None:
    log = open_log(tmp_path, segment_bytes=64)
    log.append(batch(b"a"), NOW_MS - DAY_MS)
    log.append(batch(b"b"), NOW_MS)
    log.close()
    (tmp_path / "first-append").unlink()
    if note is not None:
        (tmp_path / "first-append").write_bytes(note)
    assert open_log(tmp_path).segments[-1].first_append_ms == NOW_MS - DAY_MS


def test_a_first_append_is_never_later_than_the_last(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    log.close()
    (tmp_path / "first-append").write_text(f"{0:020d} {NOW_MS + 99 * DAY_MS}\n")
    assert open_log(tmp_path).segments[0].first_append_ms == NOW_MS


def test_producers_are_remembered_from_the_batches_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    for sequence in range(8):
        log.append(batch(b"%d" % sequence, producer_id=5, epoch=1, sequence=sequence), NOW_MS)
    # No close: as after kill -9.
    again = open_log(tmp_path)
    for header in headers(log):
        assert again.producers.classify(header) == log.producers.classify(header)


@pytest.mark.parametrize(
    ("at", "junk"), [(8, b"\x7f\xff\xff\xff"), (6, b"\x55"), (7, b"\x01"), (16, b"\x00"), (23, b"\x00\x00\x00\x44")]
)
def test_a_header_that_changes_under_a_running_log_is_not_followed(tmp_path: Path, at: int, junk: bytes) -> None:
    log = open_log(tmp_path, index_interval_bytes=1 << 20)
    for number in range(6):
        log.append(batch(b"%d" % number), NOW_MS)
    with (tmp_path / FIRST).open("r+b") as file:
        file.seek(2 * 69 + at)
        file.write(junk)
    assert values(fetched(log, max_bytes=100)) == [b"0", b"1", b"3", b"4", b"5"]
    log.append(batch(b"later"), NOW_MS)
    assert values(fetched(log, max_bytes=100)) == [b"0", b"1", b"3", b"4", b"5", b"later"]
    assert [bad[:2] for bad in log.bad_ranges] == [(2 * 69, 3 * 69)]


def test_reading_goes_on_behind_damage_that_it_has_just_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=200)
    for number in range(8):
        log.append(batch(b"%d" % number), NOW_MS)
    # The fourth batch is a known batch start, so it is not checked before it is read.
    with (tmp_path / FIRST).open("r+b") as file:
        file.seek(3 * 69 + 8)
        file.write(b"\x7f")
    assert values(fetched(log, max_bytes=10)) == [b"0", b"1", b"2", b"4", b"5", b"6", b"7"]
    assert [bad[:2] for bad in log.bad_ranges] == [(3 * 69, 4 * 69)]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a file where the folder should be")
    with pytest.raises(FolderFault, match=r"events-0: cannot work with .*log"):
        open_log(tmp_path / "log")


def test_a_segment_that_cannot_be_read_stops_the_opening_and_nothing_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_small_log(tmp_path)
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"torn")
    size = (tmp_path / FIRST).stat().st_size

    def broken(fd: int, buffers: object, position: int) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", broken)
        with pytest.raises(FolderFault, match="Input/output error"):
            open_log(tmp_path)
    assert (tmp_path / FIRST).stat().st_size == size
