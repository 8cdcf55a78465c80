"""Dump and repair: what is listed, cut, copied and left alone, and what is refused while a broker uses the folder."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.dump import dump
from headrace.broker.log.tools.repair import carry_out, plan
from headrace.cli.main import main
from tests.support.small_logs import NOW_MS, batch, claiming, fetched, open_log, values

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one closed log of four segments of two batches each, 69 bytes a batch."""
    log = open_log(tmp_path / "data" / "events-0", segment_bytes=150)
    for number in range(8):
        log.append(batch(b"%d" % number), NOW_MS)
    log.close()
    return tmp_path / "data"


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "events-0"


def append(path: Path, junk: bytes) -> None:
    with path.open("ab") as file:
        file.write(junk)


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def headrace(*words: object) -> int:
    return main(["log", *map(str, words)])


# -- check -----------------------------------------------------------------------------------------


def test_check_says_all_is_well(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headrace("check", data) == 0
    assert capsys.readouterr().out == "1 log, no problems\n"


def test_check_names_file_position_offset_what_and_what_to_do(
    data: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(folder / f"{138:020d}.log", 69 + 65)
    assert headrace("check", data, "--json") == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    damage = next(line for line in lines if line["kind"] == "bad_range")
    assert (damage["from_offset"], damage["to_offset"], damage["position"]) == (207, 276, 69)
    assert damage["file"].endswith(f"{138:020d}.log")
    assert "CRC" in damage["reason"]
    assert damage["what_to_do"]
    assert headrace("check", folder) == 1
    assert "PROBLEM: " in capsys.readouterr().out


def test_notes_alone_are_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("mine")
    assert headrace("check", folder) == 0
    assert "note: " in capsys.readouterr().out


def test_a_folder_without_logs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headrace("check", tmp_path) == 1
    assert headrace("check", tmp_path / "nowhere") == 1
    assert "give a partition's folder" in capsys.readouterr().err


# -- dump ------------------------------------------------------------------------------------------


def test_dump_shows_batches_from_any_offset_on(folder: Path) -> None:
    everything = [(line["next_offset"], line["base_offset"]) for line in dump(folder)]
    assert everything == [(69 * number, 69 * number - 1) for number in range(1, 9)]
    for offset in range(553):
        shown = [line["next_offset"] for line in dump(folder, from_offset=offset)]
        assert shown == [end for end, _ in everything if end > offset]  # type: ignore[operator]


def test_dump_tells_damage_where_it_stands_and_goes_on_behind_it(folder: Path) -> None:
    flip(folder / f"{138:020d}.log", 65)
    shown = [(line["kind"], line.get("base_offset", line.get("from_offset"))) for line in dump(folder, from_offset=69)]
    assert shown[:3] == [("batch", 137), ("damage", 138), ("batch", 275)]


def test_dump_shows_records_as_text_or_base64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "events-0"
    log = open_log(folder)
    log.append(batch("grüß".encode(), b"\xff\x00", b""), NOW_MS)
    end = log.log_end_offset
    log.append(claiming(5), NOW_MS)
    log.close()
    assert headrace("dump", folder, "--records") == 0
    out = capsys.readouterr().out
    assert 'value "grüß"' in out
    assert "value base64:/wA=" in out
    assert "records cannot be read" in out
    assert headrace("dump", folder, "--records", "--json", "--from-offset", end - 2, "--limit", 1) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["batch", "record", "record"]
    assert (lines[1]["offset"], lines[1]["value"], lines[1]["key"]) == (end - 2, {"base64": "/wA="}, None)


# -- repair ----------------------------------------------------------------------------------------


def test_a_torn_tail_is_cut_and_kept(data: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(folder / f"{414:020d}.log", b"torn")
    os.utime(folder / f"{414:020d}.log", ns=(5_000_000_000, 5_000_000_000))
    assert headrace("repair", data) == 0
    assert check(folder) == []
    assert (folder / f"{414:020d}.log").stat().st_mtime == 5
    (aside,) = data.glob("events-0.cut.*")
    assert [path.read_bytes() for path in aside.iterdir()] == [b"torn"]
    assert "kept in" in capsys.readouterr().out
    assert values(fetched(open_log(folder))) == [b"%d" % number for number in range(8)]
    assert plan(folder) == []


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(folder / f"{414:020d}.log", b"torn")
    before = contents(folder)
    assert headrace("repair", folder, "--dry-run") == 0
    assert contents(folder) == before
    out = capsys.readouterr().out
    assert "cut " in out
    assert "from byte 138 (offset 552) on" in out


def test_damage_in_the_middle_is_noted_for_the_next_start_and_left_as_it_is(folder: Path) -> None:
    path = folder / f"{138:020d}.log"
    flip(path, 65)
    damaged = path.read_bytes()
    steps = plan(folder)
    assert [step.what for step in steps] == ["note", "rebuild"]
    carry_out(folder, steps, aside=folder.parent / "aside", now_ms=NOW_MS)
    assert path.read_bytes() == damaged
    again = open_log(folder)
    assert [bad[:2] for bad in again.bad_ranges] == [(138, 207)]
    assert again.recovery.checked_bytes == 0


def test_a_copied_log_gets_its_sidecars_again(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy-0")
    for path in (tmp_path / "copy-0").glob("*.index"):
        path.unlink()
    steps = plan(tmp_path / "copy-0")
    assert [step.what for step in steps] == ["rebuild"]
    carry_out(tmp_path / "copy-0", steps, aside=tmp_path / "aside", now_ms=NOW_MS)
    assert open_log(tmp_path / "copy-0").recovery.checked_bytes == 0


def test_a_damaged_note_of_the_start_is_set_aside(folder: Path, tmp_path: Path) -> None:
    (folder / "log-start").write_bytes(b"garbage")
    carry_out(folder, plan(folder), aside=tmp_path / "aside", now_ms=NOW_MS)
    assert check(folder) == []
    assert (tmp_path / "aside" / "log-start").read_bytes() == b"garbage"


def test_leftovers_and_useless_sidecars_go_and_strangers_stay(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / f"{0:020d}.log.deleted").write_bytes(b"old")
    (folder / f"{138:020d}.index").write_bytes(b"garbage")
    steps = plan(folder)
    carry_out(folder, steps, aside=folder.parent / "aside", now_ms=NOW_MS)
    assert [problem.path.name for problem in check(folder)] == ["notes.txt"]
    assert not (folder.parent / "aside").exists()


def test_a_folder_that_a_broker_holds_is_not_repaired(data: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(folder / f"{414:020d}.log", b"torn")
    before = contents(folder)
    with (data / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for what in (data, folder):
            assert headrace("repair", what) == 1
            assert "a broker holds" in capsys.readouterr().err
            headrace("check", what)
            assert "a broker is writing here" in capsys.readouterr().err
    assert contents(folder) == before


def test_a_repair_that_stopped_after_its_copy_can_be_begun_again(folder: Path, tmp_path: Path) -> None:
    append(folder / f"{414:020d}.log", b"torn")
    steps = plan(folder)
    carry_out(folder, steps[:0], aside=tmp_path / "first", now_ms=NOW_MS)
    carry_out(folder, plan(folder), aside=tmp_path / "second", now_ms=NOW_MS)
    assert check(folder) == []


@pytest.mark.parametrize("length", range(0, 139, 3))
def test_a_repaired_log_is_the_one_that_a_start_makes_of_it(folder: Path, tmp_path: Path, length: int) -> None:
    os.truncate(folder / f"{414:020d}.log", length)
    shutil.copytree(folder, tmp_path / "other-0")
    carry_out(folder, plan(folder), aside=tmp_path / "aside", now_ms=NOW_MS)
    assert check(folder) == []
    assert fetched(open_log(folder)) == fetched(open_log(tmp_path / "other-0"))
