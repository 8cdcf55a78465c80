"""The checker: it reports nothing for a sound log, names each problem of another one, and changes nothing."""

import os
from pathlib import Path

import pytest

from headrace.broker.log.segment.sidecar import decode
from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.problem import ProblemKind
from headrace.wire.batch.record_batch import TIMESTAMPS_BOUNDED
from tests.support.small_logs import NOW_MS, batch, claiming, open_log, set_crc


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed log of four segments with two batches each, 138 bytes a segment."""
    log = open_log(tmp_path, segment_bytes=150)
    for number in range(8):
        log.append(batch(b"%d" % number), NOW_MS)
    log.close()
    return tmp_path


def problems(folder: Path) -> list[tuple[ProblemKind, int | None, int | None]]:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = check(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert all(str(problem) for problem in found)
    return [(problem.kind, problem.from_offset, problem.to_offset) for problem in found]


def test_a_sound_log_has_no_problem(folder: Path) -> None:
    assert problems(folder) == []


def test_a_folder_without_a_segment_is_no_log(tmp_path: Path) -> None:
    assert problems(tmp_path) == [(ProblemKind.NO_SEGMENT, None, None)]


def test_a_missing_segment_is_a_gap(folder: Path) -> None:
    (folder / f"{138:020d}.log").unlink()
    assert problems(folder) == [(ProblemKind.LEFTOVER, None, None), (ProblemKind.GAP, 138, 276)]


def test_a_torn_tail_and_bytes_behind_a_closed_segment_are_told_apart(folder: Path) -> None:
    for base_offset in (138, 414):
        with (folder / f"{base_offset:020d}.log").open("ab") as file:
            file.write(b"torn")
    assert problems(folder) == [(ProblemKind.BEYOND_LIMIT, 276, 280), (ProblemKind.TORN_TAIL, 552, 556)]


def test_damage_is_named_with_its_offsets(folder: Path) -> None:
    path = folder / f"{138:020d}.log"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    os.truncate(folder / f"{276:020d}.log", 100)
    assert problems(folder) == [
        (ProblemKind.BAD_RANGE, 138, 207),
        (ProblemKind.BAD_RANGE, 345, 414),
        (ProblemKind.SIDECAR_UNUSABLE, None, None),
    ]
    assert "CRC" in str(check(folder)[0])


def kinds(folder: Path) -> list[str]:
    return [str(problem) for problem in check(folder)]


def test_each_kind_says_what_to_do_and_what_is_harmless() -> None:
    assert all(kind.what_to_do for kind in ProblemKind)
    assert [kind.name for kind in ProblemKind if kind.is_harmless] == ["LEFTOVER", "STRANGER", "SIDECAR_UNUSABLE", "GAP"]


def test_a_file_that_cannot_be_half_written_by_us_is_a_stranger_and_one_that_can_a_leftover(folder: Path) -> None:
    for name in ("log-start.new", f"{138:020d}.index.new", f"{7:020d}.index", "notes"):
        (folder / name).write_bytes(b"?")
    found = {problem.path.name: problem.kind for problem in check(folder)}
    assert found.pop("notes") is ProblemKind.STRANGER
    assert set(found.values()) == {ProblemKind.LEFTOVER}
    assert len(found) == 3


def test_bytes_in_a_hole_are_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(claiming(500), NOW_MS)
    log.append(batch(b"z"), NOW_MS)
    log.close()
    assert problems(tmp_path) == []
    with (tmp_path / f"{0:020d}.log").open("r+b") as file:
        file.seek(300)
        file.write(b"x")
    assert (ProblemKind.HOLE_NOT_EMPTY, len(batch(b"a")), 500) in problems(tmp_path)


def test_a_producers_batch_that_is_missing_or_twice_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = [
        log.append(batch(b"x", producer_id=9, epoch=1, sequence=sequence), NOW_MS).next_offset for sequence in (0, 1, 1, 4, 5)
    ]
    log.append(batch(b"x", producer_id=9, epoch=2, sequence=0), NOW_MS)
    log.append(batch(b"x", producer_id=9, epoch=1, sequence=6), NOW_MS)
    log.append(batch(b"x", producer_id=9, epoch=3, sequence=6), NOW_MS)
    log.close()
    found = [problem for problem in check(tmp_path) if problem.kind is ProblemKind.SEQUENCE]
    assert [problem.from_offset for problem in found[:2]] == [ends[1], ends[2]]
    assert "wrote sequence 1 at offset" in found[0].reason
    assert "epoch 1 after epoch 2" in found[2].reason
    assert "begins epoch 3 with sequence 6" in found[3].reason
    assert len(found) == 4


def test_a_producer_whose_batch_was_lost_to_damage_is_not_told_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(4):
        log.append(batch(b"x", producer_id=9, epoch=1, sequence=sequence), NOW_MS)
    log.close()
    path = tmp_path / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 4 + 65] ^= 1
    path.write_bytes(data)
    assert [problem.kind for problem in check(tmp_path)] == [ProblemKind.BAD_RANGE]


def test_times_that_cannot_be_are_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    before_1970 = batch(b"x")
    before_1970[35:43] = (-5).to_bytes(8, "big", signed=True)
    backwards = batch(b"x")
    backwards[21:23] = TIMESTAMPS_BOUNDED.to_bytes(2, "big")
    backwards[35:43] = (NOW_MS - 5).to_bytes(8, "big")
    for made in (before_1970, backwards):
        log.append(set_crc(made), NOW_MS)
    log.close()
    assert [problem.kind for problem in check(tmp_path)] == [ProblemKind.TIMESTAMP] * 2


def test_a_note_of_the_start_that_says_nothing_is_told(folder: Path) -> None:
    (folder / "log-start").write_bytes(b"garbage")
    assert [problem.kind for problem in check(folder)] == [ProblemKind.START_NOTE]
    open_log(folder).advance_start(500, NOW_MS)
    assert check(folder) == []
    for path in folder.glob("*.log"):
        os.truncate(path, 0)
    assert "log ends at 414" in str(check(folder)[-1])


def test_a_copied_folders_sidecars_are_about_other_files_and_no_problem(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("copy")
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert check(copy) == []


def test_a_sidecar_that_would_be_believed_and_is_wrong_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=100)
    for sequence in range(6):
        log.append(batch(b"%d" % sequence, producer_id=9, epoch=1, sequence=sequence), NOW_MS)
    log.close()
    path = tmp_path / f"{0:020d}.index"
    sidecar = decode(path.read_bytes())
    offsets, peaks, _ = sidecar.starts.arrays()
    offsets[1] += 1
    path.write_bytes(sidecar.encode())
    assert "it names" in str(check(tmp_path)[0])
    offsets[1] -= 1
    peaks[-1] -= 1
    path.write_bytes(sidecar.encode())
    assert "largest timestamp" in str(check(tmp_path)[0])
    peaks[-1] += 1
    offsets.append(10_000)
    peaks.append(peaks[-1])
    path.write_bytes(sidecar.encode())
    assert [problem.kind for problem in check(tmp_path)] == [ProblemKind.SIDECAR_WRONG]


def test_progress_adds_up_to_what_is_there(folder: Path) -> None:
    told: list[int] = []
    check(folder, progress=told.append)
    assert sum(told) == sum(path.stat().st_size for path in folder.glob("*.log"))
