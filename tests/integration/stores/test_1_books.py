"""Commits, counts, publishes and sweeps are the same wherever the warehouse lives. Loads write as loads do, without Spark."""

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.errors import WarehouseError
from headrace.spark.load.staging import StagingFolder, sweep
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.query import query
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.stored_rows import EVENT, HOUR_MS, record, span, store, write_rows
from tests.support.stored_table import Stored
from tests.support.warehouse_worlds import World

TOPIC = "clicks"


def test_hours_are_loaded_counted_published_and_read_by_others(world: World) -> None:
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 5)
    stored.load(1, 3)
    stored.audit.incomplete = {1}
    assert stored.publish().published == (hour_name(0),)
    assert world.rows(TOPIC, MAIN) == [(0, offset) for offset in range(5)]
    assert world.rows(TOPIC) == [(0, offset) for offset in range(8)]
    assert stored.count() == 0, "an unchanged file was read again"
    stored.audit.incomplete = set()
    other = Stored(world.settings, TOPIC)
    other.audit = stored.audit
    assert other.publish().published == (hour_name(1),)
    assert list(query(world.warehouse(), "SELECT count(*), max(_offset) FROM clicks").rows) == [(8, 7)]
    assert [hour.faults for hour in verify(world.warehouse(), TOPIC)] == [(), ()]
    assert len(stored.rows(MAIN)) == 8


def test_of_two_loads_of_the_same_offsets_one_commits(world: World) -> None:
    first, second = world.warehouse().table_with(TOPIC, EVENT), world.warehouse().table_with(TOPIC, EVENT)
    rows = [(0, offset, offset) for offset in range(4)]
    assert store(world.warehouse(), "r1", rows, [span(0, 0, 4)], table=first)
    assert not store(world.warehouse(), "r2", rows, [span(0, 0, 4)], table=second)
    assert not store(world.warehouse(), "r3", rows, [span(0, 0, 4)])
    assert world.rows(TOPIC) == [(0, offset) for offset in range(4)]
    assert world.warehouse().existing_table(TOPIC).offsets() == {0: 4}


def test_a_publish_between_does_not_refuse_a_load(world: World) -> None:
    """Fault: to a REST catalog the same sequence number is a bad request, and the load ended with an error."""
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 2)
    loading = world.warehouse().existing_table(TOPIC)
    stored.publish()
    assert store(world.warehouse(), "later", [(0, 2, HOUR_MS)], [span(0, 2, 3)], table=loading)
    assert (len(world.rows(TOPIC)), len(world.rows(TOPIC, MAIN))) == (3, 2)


def test_a_file_that_is_gone_is_told_and_its_hour_withdrawn(world: World) -> None:
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 2)
    stored.load(1, 2)
    stored.publish()
    gone = world.named(TOPIC)[0]
    hour = int(gone.parent.name.partition("=")[2])
    gone.unlink()
    assert stored.count() == 1
    ((name, reason),) = stored.publish().withdrawn
    assert (name, "is gone" in reason) == (hour_name(hour), True)
    assert len(world.rows(TOPIC, MAIN)) == 2


def test_a_file_with_other_content_is_told_and_its_hour_withdrawn(world: World) -> None:
    """A store without times of its own fineness: a file of the same size and of the same second is found by its checksum."""
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 2)
    stored.publish()
    table = world.warehouse().existing_table(TOPIC)
    path = table.path_of(table.files(MAIN)[0])
    rows = pq.ParquetFile(world.file(path)).read()
    altered = pa.BufferOutputStream()
    pq.write_table(rows.set_column(0, "path", pa.array(["/9", "/1"])), altered)
    path.write_bytes(altered.getvalue().to_pybytes())
    assert [bool(hour.faults) for hour in verify(world.warehouse(), TOPIC)] == [True]
    (withdrawn,) = stored.publish().withdrawn
    assert "is not the file that was proven" in withdrawn[1]


def test_orphans_of_dead_runs_are_swept_and_nothing_else(world: World) -> None:
    warehouse = world.warehouse()
    dead, living = StagingFolder(warehouse, TOPIC).open(), StagingFolder(warehouse, TOPIC).open()
    rows = [(0, offset, offset) for offset in range(3)]
    for folder in (dead, living):
        write_rows(folder.path / "rows-0", rows)
    committed = StagingFolder(warehouse, TOPIC).open()
    assert store(warehouse, committed.name, rows, [span(0, 0, 3)])
    committed.close(discard=False, is_decided=False)  # killed after its commit
    dead.close(discard=False, is_decided=False)
    assert sweep(world.warehouse(), TOPIC) == 1
    assert sweep(world.warehouse(), TOPIC) == 0
    assert {path.relative_to(world.file(warehouse.data_folder(TOPIC))).parts[0] for path in world.stored(TOPIC)} == {
        living.name,
        committed.name,
    }
    assert len(world.rows(TOPIC)) == 3
    living.close(discard=True)
    assert world.stored(TOPIC) == world.named(TOPIC)


def test_a_load_that_stood_still_while_it_was_swept_can_never_commit(world: World) -> None:
    """Fault: a sweep deletes the files of a load that is only slow, and its commit then names files that are gone."""
    warehouse = world.warehouse()
    rows = [(0, offset, offset) for offset in range(3)]
    assert store(warehouse, "first", rows, [span(0, 0, 3)])
    asleep = StagingFolder(warehouse, TOPIC).open()
    table, stale = warehouse.existing_table(TOPIC), warehouse.existing_table(TOPIC)
    files = write_rows(asleep.path / "rows-0", [(0, 3, 5)])
    said = record(asleep.name, files, [span(0, 3, 4)])
    assert asleep._lease is not None
    asleep._lease.leave()  # as if it had not been heard of for a minute
    world.warehouse().existing_table(TOPIC).retire([asleep.name])
    assert not table.commit_load(record=said, files=files, event_columns=table.event_columns()), "its files are still there"
    assert sweep(world.warehouse(), TOPIC) == 1
    assert not stale.commit_load(record=said, files=files, event_columns=table.event_columns()), "and now they are not"
    assert not table.commit_load(record=said, files=files, event_columns=table.event_columns())
    assert not warehouse.existing_table(TOPIC).commit_load(record=said, files=files, event_columns=table.event_columns())
    assert len(world.rows(TOPIC)) == 3
    assert warehouse.existing_table(TOPIC).offsets() == {0: 3}
    assert store(world.warehouse(), "again", [(0, 3, 5)], [span(0, 3, 4)])
    assert len(world.rows(TOPIC)) == 4


def test_a_sweep_that_comes_after_the_commit_keeps_what_was_committed(world: World) -> None:
    warehouse = world.warehouse()
    assert store(warehouse, "first", [(0, 0, 5)], [span(0, 0, 1)])
    late = StagingFolder(warehouse, TOPIC).open()
    sweeping = warehouse.existing_table(TOPIC)
    files = write_rows(late.path / "rows-0", [(0, 1, 5)])
    mine = warehouse.existing_table(TOPIC)
    assert mine.commit_load(record=record(late.name, files, [span(0, 1, 2)]), files=files, event_columns=mine.event_columns())
    assert sweeping.retire([late.name, "another"]) == {late.name}, "the sweep believed a table that had moved on"
    assert len(world.rows(TOPIC)) == 2


def test_expiring_snapshots_leaves_every_row_and_every_proof(world: World) -> None:
    stored = Stored(world.settings, TOPIC)
    for hour in range(3):
        stored.load(hour, 2)
        stored.publish()
    table = world.warehouse().existing_table(TOPIC).iceberg
    table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()
    after = world.warehouse().existing_table(TOPIC)
    assert len(after.iceberg.metadata.snapshots) == 2
    assert (after.offsets(), len(world.rows(TOPIC)), len(world.rows(TOPIC, MAIN))) == ({0: 6}, 6, 6)
    assert not any(hour.faults for hour in verify(world.warehouse(), TOPIC))
    run_died = StagingFolder(world.warehouse(), TOPIC).open()
    run_died.close(discard=False, is_decided=False)
    sweep(world.warehouse(), TOPIC)
    assert world.stored(TOPIC) == world.named(TOPIC, LOADS)


def test_publishes_at_once_come_one_after_another(world: World) -> None:
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 2)
    with world.warehouse().locked(f"publish-{TOPIC}"):
        waiting = world.warehouse()
        waiting.leases._wait_s = 0.3
        stored.warehouse = waiting
        with pytest.raises(WarehouseError, match="has been at it"):
            stored.publish()
    assert stored.publish().published == (hour_name(0),)
