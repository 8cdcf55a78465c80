"""The proofs are recomputed from tables and files alone, and each difference is named."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.cli.main import main
from headrace.spark.publish.verify import HourCheck, verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.topic_table import MAIN
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.other_hands import compact, files, rewrite, roll_back
from tests.support.stored_rows import HOUR_MS, span, store

from .test_publish_job import BALANCED, ROWS, publish, table


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Two published hours, the first with two revisions."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    found = Warehouse(tmp_path / "warehouse")
    store(found, "r1", ROWS, [span(0, 0, 100), span(1, 0, 50)])
    publish(found)
    store(found, "r2", [(0, 100, 9), (0, 101, 9)], [span(0, 100, 200)])
    publish(found, ((0, "COMPLETE", 4), (HOUR_MS, "COMPLETE", 1)))
    return found


def faults(warehouse: Warehouse) -> dict[str, HourCheck]:
    return {one.hour: one for one in verify(warehouse, "clicks") if one.faults}


def test_what_nobody_touched_is_as_it_was_proven(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert faults(warehouse) == {}
    assert main(["audit", "verify-table", "clicks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        [hour_name(0), "revision", "2", "COMPLETE", "4", "rows", "OK"],
        [hour_name(1), "revision", "1", "COMPLETE", "1", "rows", "OK"],
    ]


def test_a_swapped_row_is_named_with_its_file(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(files(warehouse)[-1], lambda rows: pa.concat_tables([rows.slice(0, 1), rows.slice(0, 1)]))
    (found,) = faults(warehouse).values()
    assert found.hour == hour_name(0)
    assert any("SHA-256 was" in fault for fault in found.faults)
    assert any("1 records of partition 0 are there more than once, first offset 100" in fault for fault in found.faults)
    assert main(["audit", "verify-table", "clicks", "--json"]) == 1
    assert [bool(one["faults"]) for one in json.loads(capsys.readouterr().out)] == [True, False]


def test_a_changed_value_and_a_missing_file_are_named(warehouse: Warehouse) -> None:
    rewrite(files(warehouse)[1], lambda rows: rows.set_column(0, "path", pa.array(["/changed"])))
    files(warehouse)[0].unlink()
    found = faults(warehouse)
    assert any("digest was" in fault for fault in found[hour_name(1)].faults)
    assert any("is gone" in fault for fault in found[hour_name(0)].faults)


def test_rows_on_main_without_a_proof_are_named_and_a_compaction_is_not(warehouse: Warehouse) -> None:
    first = table(warehouse).snapshot_id(MAIN)
    compact(warehouse, MAIN, 0, lambda rows: rows.set_column(0, "path", pa.array(["/x"] * len(rows))))
    (found,) = faults(warehouse).values()
    assert any("is on main, but in no proof" in fault for fault in found.faults)
    roll_back(warehouse, first, MAIN)
    compact(warehouse, MAIN, 0)
    assert faults(warehouse) == {}
    publish(warehouse, ((0, "COMPLETE", 4), (HOUR_MS, "COMPLETE", 1)))
    assert faults(warehouse) == {}
    for path in files(warehouse):
        if path.parent.name.endswith("=0"):
            path.unlink()  # what orphan removal does to files that only earlier revisions name
    assert faults(warehouse) == {}


def test_a_withdrawn_hour_is_sound_without_files(warehouse: Warehouse) -> None:
    files(warehouse)[1].unlink()
    publish(warehouse, BALANCED, counts=False)
    found = {one.hour: one for one in verify(warehouse, "clicks")}
    assert (found[hour_name(1)].verdict, found[hour_name(1)].row_count, found[hour_name(1)].faults) == ("WITHDRAWN", 0, ())
    assert table(warehouse).row_counts_by_hour(MAIN) == {0: 4}
