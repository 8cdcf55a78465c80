"""A load's record is read once, and again when it is another: whatever was noted, the answer is that of the records."""

import json
import os
import random
from pathlib import Path

import pytest

from headrace.spark.errors import WarehouseError
from headrace.spark.publish import load_ranges as subject
from headrace.spark.publish.load_ranges import LoadRanges, load_ranges
from headrace.spark.warehouse.load_record import LoadRecord, read_records
from tests.support.stored_rows import span

LONG_AGO_S = 1_700_000_000


def record(folder: Path, run: str, to_offset: int, *, at_s: int = LONG_AGO_S, refused: int = 0) -> None:
    words = {0: refused} if refused else {}
    LoadRecord(run=run, ranges=(span(0, 0, to_offset), span(1, 5, 9)), row_count=1, refused=words).write(folder)
    os.utime(folder / f"{run}.json", (at_s, at_s))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose records were read."""
    found: list[str] = []

    def noting(folder: Path, runs: list[str]) -> list[LoadRecord]:
        found.extend(runs)
        return read_records(folder, runs)

    monkeypatch.setattr(subject, "read_records", noting)
    return found


def test_a_record_is_read_once(tmp_path: Path, read: list[str]) -> None:
    """Fault: a count of a table with ten thousand loads read ten thousand records, of an object store by a request each."""
    for number in range(50):
        record(tmp_path, f"r{number:02}", number)
    runs = [f"r{number:02}" for number in range(50)]
    first = load_ranges(tmp_path, runs)
    assert (first["r07"], read) == (LoadRanges((span(0, 0, 7), span(1, 5, 9)), {}), runs)
    record(tmp_path, "r50", 50, refused=3)
    read.clear()
    second = load_ranges(tmp_path, [*runs, "r50"])
    assert (read, second) == (["r50"], first | {"r50": LoadRanges((span(0, 0, 50), span(1, 5, 9)), {0: 3})})
    read.clear()
    assert (load_ranges(tmp_path, [*runs, "r50"]), read) == (second, [])
    assert (load_ranges(tmp_path, [*runs, "r50"], again=True), len(read)) == (second, 51)


def test_a_record_so_young_that_it_may_change_unseen_is_read_again(tmp_path: Path, read: list[str]) -> None:
    LoadRecord(run="r", ranges=(span(0, 0, 1),), row_count=1).write(tmp_path)
    for _ in range(2):
        load_ranges(tmp_path, ["r"])
    assert read == ["r", "r"]


def test_one_that_is_damaged_or_gone_is_noticed_though_it_was_noted(tmp_path: Path) -> None:
    for run in ("a", "b"):
        record(tmp_path, run, 5)
    load_ranges(tmp_path, ["a", "b"])
    (tmp_path / "a.json").unlink()
    assert [*load_ranges(tmp_path, ["a", "b"])] == ["b"]
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(WarehouseError, match="is not a load's record"):
        load_ranges(tmp_path, ["b"])


@pytest.mark.parametrize("words", ["", "[]", '{"v": 2}', '{"v": 1, "loads": {"r": [1, 2]}}', '{"v": 1, "loads": {"r": 5}}'])
def test_notes_that_cannot_be_read_are_made_anew(tmp_path: Path, words: str) -> None:
    record(tmp_path, "r", 5)
    (tmp_path / "ranges.json").write_text(words)
    assert load_ranges(tmp_path, ["r"])["r"].ranges == (span(0, 0, 5), span(1, 5, 9))
    assert [*json.loads((tmp_path / "ranges.json").read_text())["loads"]] == ["r"]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_to_records_the_answer_is_what_they_say_now(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"r{number}" for number in range(6)]
    for at in range(60):
        name = rng.choice(names)
        match rng.randrange(5):
            case 0:
                (tmp_path / f"{name}.json").unlink(missing_ok=True)
            case 1:
                (tmp_path / "ranges.json").unlink(missing_ok=True)
            case _:
                record(tmp_path, name, rng.randrange(1, 9), at_s=LONG_AGO_S + at, refused=rng.randrange(2))
        wanted = rng.sample(names, rng.randrange(len(names) + 1))
        expected = {one.run: LoadRanges.of(one) for one in read_records(tmp_path, sorted(wanted))}
        assert load_ranges(tmp_path, wanted) == expected
