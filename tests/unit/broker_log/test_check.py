"""The invariant checker: silent on a sound log, and it names each thing that is wrong without changing anything."""

import os
from pathlib import Path

import pytest

from headrace.broker.log import ProblemKind, check

from .small_logs import NOW_MS, batch, open_log


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
    assert problems(folder) == [(ProblemKind.GAP, 138, 276)]


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
    assert problems(folder) == [(ProblemKind.BAD_RANGE, 138, 207), (ProblemKind.BAD_RANGE, 345, 414)]
    assert "CRC" in str(check(folder)[0])
