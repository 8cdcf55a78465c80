"""Apache Iceberg itself (Java, 1.12.0, in Spark) reads our tables and maintains them, and nothing is lost."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schema_registry.model.column_names import OF_ICEBERG
from headrace.spark.publish.publish_job import Gate
from headrace.spark.publish.verify import verify
from headrace.spark.source.columns import SYSTEM_COLUMNS
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.proofs import COMPACTED, Proof
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.clients.iceberg.engine import IcebergEngine, StatementFailed
from tests.support.other_hands import delete_rows
from tests.support.stored_table import Stored

PROOFS = "warehouse.headrace.proofs"
LATER = "TIMESTAMP '2100-01-01 00:00:00'"
LONG_AGO = "TIMESTAMP '2021-01-01 00:00:00'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("warehouse")
    Stored(found, "first").load(0, 1)  # makes the catalog
    return found


@pytest.fixture(scope="module")
def engine(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergEngine]:
    """One JVM for all tests: its start takes most of the time."""
    with IcebergEngine(folder, tmp_path_factory.mktemp("spark") / "spark.log") as engine:
        yield engine


@pytest.fixture
def stored(folder: Path, request: pytest.FixtureRequest) -> Stored:
    """A table of the test's own, with hour 0 (offsets 0 to 2) published and hour 1 (offsets 3 to 6) not proven."""
    found = Stored(folder, re.sub(r"\W", "_", request.node.name.removeprefix("test_"))[-60:])
    found.load(0, 3)
    found.load(1, 4)
    found.audit.incomplete = {1}
    assert found.publish().published == (hour_name(0),)
    return found


def name(stored: Stored) -> str:
    return f"warehouse.warehouse.{stored.topic}"


def seen(engine: IcebergEngine, stored: Stored, branch: str | None = None) -> list[int]:
    """Return the offsets that Spark reads: of the branch, or of what it reads when asked for the table."""
    version = f" VERSION AS OF '{branch}'" if branch else ""
    return sorted(row[-1] for row in engine.sql(f"SELECT *, _offset FROM {name(stored)}{version}"))


def maintain(engine: IcebergEngine, stored: Stored) -> list[str]:
    """Expire every snapshot but the branches' heads and remove orphans, table by table; return the orphans' names."""
    stored.age()
    orphans = []
    for table in (name(stored), PROOFS):
        engine.sql(f"CALL warehouse.system.expire_snapshots(table => '{table}', older_than => {LATER}, retain_last => 1)")
        found = engine.sql(f"CALL warehouse.system.remove_orphan_files(table => '{table}', older_than => {LONG_AGO})")
        orphans += [Path(row[0]).name for row in found]
    return orphans


def assert_same_in_both(engine: IcebergEngine, stored: Stored, *, main: range, loads: range) -> None:
    assert seen(engine, stored) == stored.rows(MAIN) == list(main)
    assert seen(engine, stored, LOADS) == stored.rows(LOADS) == list(loads)


def test_a_reader_sees_proven_hours_and_everything_by_branch(engine: IcebergEngine, stored: Stored) -> None:
    """Fault: any other reader of the same table sees unproven rows. Fault: a column `_partition` is Iceberg's own name."""
    assert_same_in_both(engine, stored, main=range(3), loads=range(7))
    columns = [row[0] for row in engine.sql(f"DESCRIBE {name(stored)}")]
    assert set(SYSTEM_COLUMNS.names) < set(columns)
    assert engine.sql(f"SELECT hour_name, revision, verdict FROM {PROOFS} WHERE topic = '{stored.topic}'") == [
        [hour_name(0), 1, "COMPLETE"]
    ]


def test_maintenance_loses_nothing_and_loads_and_publishes_go_on(engine: IcebergEngine, stored: Stored) -> None:
    """Fault: the next load deletes rows that the table names, once the snapshot that added them has expired."""
    stray = stored.warehouse.data_folder(stored.topic) / "run-0" / "stray.parquet"
    pq.write_table(pa.table({"path": ["/stray"]}), stray)
    before = proofs(stored)
    assert maintain(engine, stored) == ["stray.parquet"]
    assert engine.sql(f"SELECT count(*) FROM {name(stored)}.snapshots") == [[2]]
    assert_same_in_both(engine, stored, main=range(3), loads=range(7))
    assert stored.count() == 0, "what the count and the loads wrote down is gone"
    assert proofs(stored) == before
    stored.audit.incomplete = set()
    stored.load(2, 5)
    assert stored.publish().published == (hour_name(1), hour_name(2))
    assert_same_in_both(engine, stored, main=range(12), loads=range(12))
    assert maintain(engine, stored) == []
    assert_same_in_both(engine, stored, main=range(12), loads=range(12))
    assert faults(stored) == []


def test_a_withdrawn_hour_keeps_its_files_on_the_other_branch(engine: IcebergEngine, stored: Stored) -> None:
    stored.audit.altered = {0: 1}
    assert [hour for hour, _ in stored.publish().withdrawn] == [hour_name(0)]
    assert maintain(engine, stored) == []
    assert_same_in_both(engine, stored, main=range(0), loads=range(7))
    assert faults(stored) == []


def test_late_rows_are_a_new_revision_after_maintenance(engine: IcebergEngine, stored: Stored) -> None:
    maintain(engine, stored)
    stored.load(0, 2)
    assert stored.publish().published == (hour_name(0),)
    assert maintain(engine, stored) == []
    assert seen(engine, stored) == stored.rows(MAIN) == [0, 1, 2, 7, 8]
    assert [one.revision for one in proofs(stored)[0]] == [1, 2]
    assert faults(stored) == []


def test_compaction_of_what_readers_see_is_a_proof_of_its_own(engine: IcebergEngine, stored: Stored) -> None:
    stored.load(0, 2)
    stored.publish()
    before = stored.rows(MAIN)
    engine.sql(f"CALL warehouse.system.rewrite_data_files(table => '{name(stored)}', options => map('rewrite-all', 'true'))")
    engine.sql(f"CALL warehouse.system.rewrite_manifests(table => '{name(stored)}')")
    assert stored.publish().withdrawn == ()
    assert proofs(stored)[0][-1].verdict == COMPACTED
    assert maintain(engine, stored) == []
    assert seen(engine, stored) == stored.rows(MAIN) == before
    assert seen(engine, stored, LOADS) == stored.rows(LOADS) == list(range(9))
    stored.load(0, 1)
    assert stored.publish().published == (hour_name(0),)
    assert seen(engine, stored) == stored.rows(MAIN) == [*before, 9]
    assert faults(stored) == []


@pytest.mark.situation(
    "warehouse",
    "another engine writes a delete file on `main` (merge-on-read)",
    shown="as for removed rows, in each hour that it touches; `headrace query` refuses the topic",
    when="with the next publish",
    do="`--restore HOUR`, or `audit erased`",
)
@pytest.mark.parametrize("by", ["pos", "_offset"])
def test_rows_that_a_delete_file_takes_are_counted_as_spark_reads_them(engine: IcebergEngine, stored: Stored, by: str) -> None:
    """Fault: a delete file on `main` (merge-on-read) stopped every publish of the topic."""
    stored.audit.incomplete = set()
    stored.publish()
    if by == "pos":
        engine.sql(f"ALTER TABLE {name(stored)} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        engine.sql(f"DELETE FROM {name(stored)} WHERE _offset IN (1, 4, 5)")
    else:  # Spark writes none, but reads them
        delete_rows(stored.warehouse, MAIN, 0, [1], by=by, topic=stored.topic)
        delete_rows(stored.warehouse, MAIN, 1, [4, 5], by=by, topic=stored.topic)
    assert engine.sql(f"SELECT sum(record_count) FROM {name(stored)}.delete_files") == [[3]]
    stored.load(2, 2)
    done = stored.publish()
    assert done.published == (hour_name(2),)
    assert [hour for hour, _ in done.pending] == [hour_name(0), hour_name(1)]
    assert seen(engine, stored) == [0, 2, 3, 6, 7, 8]
    assert [(proofs(stored)[hour][-1].verdict, proofs(stored)[hour][-1].row_count) for hour in (0, 1, 2)] == [
        ("REMOVED", 2),
        ("REMOVED", 2),
        ("COMPLETE", 2),
    ]
    assert [fault for fault in faults(stored) if "REMOVED" not in fault] == []
    stored.load(0, 1)
    assert stored.publish().published == (hour_name(0),)
    assert seen(engine, stored) == [0, 2, 3, 6, 7, 8, 9]
    gate = Gate(stored.warehouse, stored.topic, stored.audit.ask, restore=[0, 1])
    assert gate.publish(wait_ms=0).published == (hour_name(0), hour_name(1))
    assert seen(engine, stored) == list(range(10)), "what is added again is younger than the delete files"
    assert faults(stored) == []


@pytest.mark.parametrize("reserved", OF_ICEBERG)
def test_names_that_we_refuse_in_events_are_refused_by_iceberg(engine: IcebergEngine, reserved: str) -> None:
    engine.sql(f"CREATE OR REPLACE TABLE warehouse.warehouse.names (a INT, `{reserved}` INT) USING iceberg")
    with pytest.raises(StatementFailed, match="reserved for Iceberg metadata columns"):
        engine.sql("SELECT * FROM warehouse.warehouse.names")


def faults(stored: Stored) -> list[str]:
    """Return what `headrace audit verify-table` would find."""
    return [fault for hour in verify(stored.warehouse, stored.topic) for fault in hour.faults]


def proofs(stored: Stored) -> dict[int, list[Proof]]:
    last = stored.warehouse.existing_table(stored.topic).last_publish
    return stored.warehouse.proofs(stored.topic).read(up_to_publish=last)
