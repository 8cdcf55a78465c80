"""One commit holds files, offsets and counts; of two loads one wins; what nobody committed is never seen."""

from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from headrace.audit.model.messages import Stretch
from headrace.spark.errors import NoSuchTable, WarehouseError
from headrace.spark.load.staging import StagingFolder, sweep
from headrace.spark.warehouse.hours import hour_name, hour_of_name
from headrace.spark.warehouse.query import query
from headrace.spark.warehouse.store import local_path
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.other_hands import roll_back, run_that_died
from tests.support.stored_rows import EVENT, HOUR_MS, span, store, write_rows

ROWS = [(0, 0, 5), (0, 1, HOUR_MS + 5), (1, 0, 6)]


def existing(warehouse: Warehouse, topic: str = "clicks") -> int:
    """Return the rows that are visible, by a reader of its own: DuckDB on the files that the table names."""
    files = [file.file_path for file in warehouse.existing_table(topic).files(LOADS)]
    return int(duckdb.sql(f"select count(*) from read_parquet({files!r})").fetchall()[0][0]) if files else 0


def test_a_commit_holds_files_offsets_and_counts_together(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    ranges = [span(0, 0, 100), span(1, 0, 50), span(2, 0, 0)]
    assert store(warehouse, "r1", ROWS, ranges, quarantined={1: {600_000: [Stretch(7, 2)]}})
    table = warehouse.existing_table("clicks")
    assert table.offsets() == {0: 100, 1: 50, 2: 0}
    assert table.row_counts_by_hour() == {0: 2, 1: 1}
    assert existing(warehouse) == 3
    (load,) = [run.record for run in table.runs()]
    assert (load.run, load.ranges, load.row_count) == ("r1", tuple(ranges), 3)
    assert load.quarantined == {1: {600_000: (Stretch(7, 2),)}}


def test_of_two_loads_from_the_same_offsets_one_commits(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r0", ROWS, [span(0, 0, 100)])
    first, second = warehouse.existing_table("clicks"), warehouse.existing_table("clicks")
    assert store(warehouse, "r1", [(0, 100, 7)], [span(0, 100, 200)], table=first)
    assert not store(warehouse, "r2", [(0, 100, 7)], [span(0, 100, 200)], table=second)
    assert existing(warehouse) == 4
    assert warehouse.existing_table("clicks").offsets() == {0: 200}


def test_of_two_first_loads_one_commits(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    first, second = warehouse.table_with("clicks", EVENT), warehouse.table_with("clicks", EVENT)
    assert store(warehouse, "r1", ROWS, [span(0, 0, 100)], table=first)
    assert not store(warehouse, "r2", ROWS, [span(0, 0, 100)], table=second)
    assert not store(warehouse, "r3", ROWS, [span(0, 50, 150)])
    assert existing(warehouse) == 3


def test_a_publish_in_between_does_not_refuse_a_load(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r0", ROWS, [span(0, 0, 100)])
    loading, gate = warehouse.existing_table("clicks"), warehouse.existing_table("clicks")
    gate.commit_publish(number=1, add=gate.files_by_hour(LOADS)[0], remove=[])
    assert store(warehouse, "r1", [(0, 100, 7)], [span(0, 100, 200)], table=loading)
    assert warehouse.existing_table("clicks").row_counts_by_hour(MAIN) == {0: 2}
    assert existing(warehouse) == 4


def test_a_folder_s_name_may_hold_blanks_and_percent_signs(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "my data%20here")
    assert store(warehouse, "r1", ROWS, [span(0, 0, 100)])
    assert existing(warehouse) == 3
    assert len(warehouse.existing_table("clicks").iceberg.scan().use_ref(LOADS).to_arrow()) == 3
    assert len(list(query(warehouse, "SELECT * FROM clicks_all").rows)) == 3


def test_offsets_without_rows_are_a_commit_too(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    assert store(warehouse, "r1", [], [span(0, 0, 70)], quarantined={0: {0: [Stretch(3, 1)]}})
    table = warehouse.existing_table("clicks")
    assert (table.offsets(), existing(warehouse), len(table.runs())) == ({0: 70}, 0, 1)


def test_a_new_column_is_null_in_older_rows(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", ROWS, [span(0, 0, 100)])
    store(warehouse, "r2", [(0, 100, 7)], [span(0, 100, 200)], agent="x")
    found = warehouse.existing_table("clicks").iceberg.scan().use_ref(LOADS).to_arrow().to_pylist()
    assert sorted(str(row["agent"]) for row in found) == ["None", "None", "None", "x"]


def test_an_event_may_have_a_field_for_the_hour(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", ROWS, [span(0, 0, 100)], hour=7, _hour=8)
    assert list(query(warehouse, "select distinct hour, _hour from clicks_all").rows) == [(7, 8)]
    assert warehouse.existing_table("clicks").row_counts_by_hour() == {0: 2, 1: 1}


def test_orphans_of_dead_runs_are_swept_and_nothing_else(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    data = warehouse.data_folder("clicks")
    dead, living = StagingFolder(warehouse, "clicks").open(), StagingFolder(warehouse, "clicks").open()
    write_rows(dead.path, ROWS)
    write_rows(living.path, ROWS)
    committed = StagingFolder(warehouse, "clicks").open()
    store(warehouse, committed.name, ROWS, [span(0, 0, 100)])
    committed.close(discard=False)
    dead.close(discard=False, is_decided=False)
    for swept in (1, 0):
        assert sweep(warehouse, "clicks") == swept
        assert sorted(folder.name for folder in data.iterdir()) == sorted([living.name, committed.name])
    assert existing(warehouse) == 3
    living.close(discard=True)
    assert [folder.name for folder in data.iterdir()] == [committed.name]


def test_files_of_a_load_whose_snapshot_has_expired_are_kept(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "expired", ROWS, [span(0, 0, 100)])
    run_that_died(warehouse, "expired")
    somebody = warehouse.existing_table("clicks").iceberg
    load = somebody.metadata.snapshot_by_name(LOADS)
    assert load is not None
    with somebody.transaction() as transaction, transaction.update_snapshot(branch=LOADS).fast_append():
        pass
    somebody.maintenance.expire_snapshots().by_id(load.snapshot_id).commit()
    assert warehouse.existing_table("clicks").offsets() == {0: 100}
    assert sweep(warehouse, "clicks") == 0
    assert existing(warehouse) == 3


@pytest.mark.parametrize("name", ["a/b", "", "..", "x" * 250, "a b"])
def test_a_name_that_is_no_topic_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WarehouseError, match=r"is not a topic's name"):
        Warehouse(tmp_path).table(name)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert Warehouse(tmp_path).topics() == []
    with pytest.raises(NoSuchTable, match="no table yet"):
        Warehouse(tmp_path).existing_table("clicks")


@pytest.mark.parametrize(
    ("hour", "name"),
    [
        (0, "1970-01-01T00"),
        (397_834, "2015-05-21T10"),
        (-1, "1969-12-31T23"),
        (70_389_528, "10000-01-01T00"),
        ((1 << 61) // 3_600_000, "73071226-02-26T19"),
    ],
)
def test_hours_have_names(hour: int, name: str) -> None:
    assert (hour_name(hour), hour_of_name(name)) == (name, hour)


@pytest.mark.parametrize("uri", ["file:///w/a.parquet", "file:/w/a.parquet", "/w/a.parquet"])
def test_paths_of_java_engines_are_found_too(uri: str) -> None:
    """Fault: files that Spark had compacted on `main` were not found, and their hour was withdrawn."""
    assert local_path(uri) == Path("/w/a.parquet")


def test_files_that_only_main_still_names_are_kept(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", ROWS, [span(0, 0, 100)])
    before = warehouse.existing_table("clicks").snapshot_id(LOADS)
    store(warehouse, "r2", [(0, 100, 7)], [span(0, 100, 200)])
    run_that_died(warehouse, "r2")
    table = warehouse.existing_table("clicks")
    table.commit_publish(number=1, add=table.files_by_hour(LOADS)[0], remove=[])
    rolled_back = table.snapshot_id(LOADS)
    roll_back(warehouse, before)
    assert rolled_back is not None
    warehouse.existing_table("clicks").iceberg.maintenance.expire_snapshots().by_id(rolled_back).commit()
    assert sweep(warehouse, "clicks") == 0
    assert warehouse.existing_table("clicks").row_counts_by_hour(MAIN) == {0: 3}


def test_expiring_snapshots_never_takes_a_branch(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    for number in range(3):
        store(warehouse, f"r{number}", [(0, number * 100, 7)], [span(0, number * 100, number * 100 + 100)])
        table = warehouse.existing_table("clicks")
        table.commit_publish(number=number + 1, add=table.files_by_hour(LOADS)[0][-1:], remove=[])
    table.iceberg.refresh().maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()
    after = warehouse.existing_table("clicks")
    assert (after.offsets(), existing(warehouse)) == ({0: 300}, 3)
    assert len(after.iceberg.metadata.snapshots) == 2
    assert after.snapshot_id(MAIN) != after.snapshot_id(LOADS)


def test_an_event_s_own_instant_beyond_the_year_9999_is_committed(tmp_path: Path) -> None:
    """Fault: pyiceberg's statistics raise OverflowError, so that one event stops its topic's loads for ever."""
    warehouse = Warehouse(tmp_path)
    far = pa.scalar(8_000_000_000_000_000_000, pa.timestamp("us", "UTC"))
    inner = pa.scalar({"at": far}, pa.struct([pa.field("at", far.type)]))
    assert store(warehouse, "r1", [(0, 0, 5)], [span(0, 0, 100)], at=far, inner=inner)
    assert existing(warehouse) == 1


def test_a_warehouse_of_an_older_headrace_is_refused(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", ROWS, [span(0, 0, 100)])
    with warehouse.existing_table("clicks").iceberg.transaction() as transaction:
        transaction.set_properties({"headrace.offsets": "{}"})
    with pytest.raises(WarehouseError, match="older Headrace"):
        warehouse.table("clicks")
