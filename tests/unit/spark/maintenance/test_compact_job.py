"""A compaction changes files and nothing else: rows, proofs, what the audit was told and what is loaded stay as they were."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.errors import CompactionUnproven
from headrace.spark.maintenance import compact_job
from headrace.spark.maintenance.compact_job import CompactJob
from headrace.spark.maintenance.merged_files import Sums
from headrace.spark.publish.count_job import needs_count
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.proofs import COMPACTED, Proof
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.other_hands import compact as rewritten_by_others
from tests.support.other_hands import delete_rows, files, rewrite, roll_back
from tests.support.stored_rows import HOUR_MS, span, store
from tests.support.stored_table import Stored

from .worlds import TOPIC, compact, contents, file_counts


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Two hours of three files each, published; the fourth load has rows of both hours."""
    found = Stored(tmp_path, TOPIC)
    for hour in (0, 1):
        for _ in range(2):
            found.load(hour, 4)
    rows = [(0, 16, 9), (0, 17, HOUR_MS + 9)]
    assert store(found.warehouse, "run-16", rows, [span(0, 16, 18)])
    found.publish()
    return found


def proofs(stored: Stored) -> dict[int, Proof]:
    table = stored.warehouse.existing_table(TOPIC)
    return {hour: some[-1] for hour, some in stored.warehouse.proofs(TOPIC).read(up_to_publish=table.last_publish).items()}


def is_sound(stored: Stored) -> bool:
    """Count, publish and verify find nothing to tell, and nothing is withdrawn or shut."""
    assert not needs_count(stored.warehouse.existing_table(TOPIC)), "something would be reported again"
    return is_sound_after_a_count(stored)


def is_sound_after_a_count(stored: Stored) -> bool:
    before = proofs(stored)
    done = stored.publish()
    assert (done.withdrawn, done.shut, done.pending, done.published, done.revisions) == ((), (), (), (), ())
    assert proofs(stored) == before
    faults = [fault for one in verify(stored.warehouse, TOPIC) for fault in one.faults]
    assert faults == []
    return True


def test_the_rows_are_the_same_in_fewer_files_on_both_branches(stored: Stored) -> None:
    before, offsets = contents(stored), stored.warehouse.existing_table(TOPIC).offsets()
    told = dict(stored.audit._told)
    assert file_counts(stored) == file_counts(stored, MAIN) == {0: 3, 1: 3}
    done = compact(stored)
    assert (done.hours, done.files_before, done.files_after, done.left) == ([hour_name(0), hour_name(1)], 6, 2, {})
    assert file_counts(stored) == file_counts(stored, MAIN) == {0: 1, 1: 1}
    assert contents(stored) == contents(stored, MAIN) == before
    assert stored.warehouse.existing_table(TOPIC).offsets() == offsets
    assert stored.audit._told == told
    assert is_sound(stored)
    assert compact(stored).hours == []


@pytest.mark.situation("warehouse", "small files are merged by `headrace compact`")
def test_the_proof_links_to_the_one_before_and_names_the_new_files(stored: Stored) -> None:
    before = proofs(stored)
    compact(stored)
    for hour, proof in proofs(stored).items():
        assert (proof.verdict, proof.revision, proof.previous) == (COMPACTED, 2, 1)
        assert (proof.row_count, proof.digest, proof.offsets) == (
            before[hour].row_count,
            before[hour].digest,
            before[hour].offsets,
        )
        main = stored.warehouse.existing_table(TOPIC).files_by_hour(MAIN)[hour]
        assert [file.path for file in proof.files] == [file.file_path for file in main]


def test_rows_of_a_new_file_are_sorted_by_time_and_files_reach_the_target_size(tmp_path: Path) -> None:
    stored = Stored(tmp_path, TOPIC)
    for load in range(6):
        rows = [(0, load * 100 + n, (load * 37 + n * 53) % 1_000) for n in range(100)]
        store(stored.warehouse, f"run-{load}", rows, [span(0, load * 100, load * 100 + 100)])
    stored.publish()
    before = contents(stored)
    size = sum(file.file_size_in_bytes for file in stored.warehouse.existing_table(TOPIC).files(MAIN))
    assert compact(stored, target_bytes=size // 2 + 1).files_after == 2
    for path in files(stored.warehouse):
        times = pq.ParquetFile(path).read()["_timestamp"].cast("int64").to_pylist()
        assert times == sorted(times)
        assert len(times) == 300
    assert contents(stored) == before


def test_a_small_buffer_bounds_the_memory_and_changes_nothing_else(stored: Stored) -> None:
    before = contents(stored)
    compact(stored, buffer_bytes=64)
    assert contents(stored) == before
    assert file_counts(stored) == {0: 1, 1: 1}


def test_hours_that_are_not_closed_wait_unless_they_are_named(stored: Stored) -> None:
    assert compact(stored, now_hour=2, closed_after_ms=HOUR_MS).hours == [hour_name(0)]
    assert compact(stored, now_hour=2, hours={1}).hours == [hour_name(1)]
    assert is_sound(stored)


def test_an_hour_that_is_not_published_is_compacted_on_loads_and_published_then(tmp_path: Path) -> None:
    stored = Stored(tmp_path, TOPIC)
    for _ in range(3):
        stored.load(0, 4)
    stored.audit.incomplete = {0}
    stored.publish()
    before = contents(stored)
    assert compact(stored).hours == [hour_name(0)]
    assert (contents(stored), contents(stored, MAIN)) == (before, [])
    stored.audit.incomplete = set()
    assert stored.publish().published == (hour_name(0),)
    assert contents(stored, MAIN) == before
    assert is_sound(stored)


def test_late_rows_that_wait_are_not_merged_with_published_ones(stored: Stored) -> None:
    stored.audit.incomplete = {0}
    stored.load(0, 2)
    stored.count()
    seen = contents(stored, MAIN)
    compact(stored)
    assert contents(stored, MAIN) == seen
    assert file_counts(stored) == {0: 2, 1: 1}
    stored.audit.incomplete = set()
    assert stored.publish().published == (hour_name(0),)
    assert len(contents(stored, MAIN)) == len(seen) + 2
    assert compact(stored).hours == [hour_name(0)]
    assert file_counts(stored, MAIN) == {0: 1, 1: 1}
    assert is_sound(stored)


def test_columns_that_came_later_are_null_and_no_digest_changes(tmp_path: Path) -> None:
    stored = Stored(tmp_path, TOPIC)
    inner = pa.scalar({"a": 1}, pa.struct([pa.field("a", pa.int64())]))
    wider = pa.scalar({"a": 2, "b": "x"}, pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())]))
    tags = pa.scalar([{"k": 1}], pa.list_(pa.field("element", pa.struct([pa.field("k", pa.int64())]))))
    pairs = pa.scalar([("k", 1)], pa.map_(pa.string(), pa.int64()))
    store(stored.warehouse, "r1", [(0, 0, 5)], [span(0, 0, 1)])
    store(stored.warehouse, "r2", [(0, 1, 6)], [span(0, 1, 2)], inner=inner, tags=tags, pairs=pairs)
    store(stored.warehouse, "r3", [(0, 2, 7)], [span(0, 2, 3)], inner=wider, agent="y")
    stored.publish()
    before = stored.warehouse.existing_table(TOPIC).iceberg.scan().to_arrow().sort_by("_offset").to_pylist()
    assert compact(stored).hours == [hour_name(0)]
    (path,) = files(stored.warehouse, MAIN)
    assert pq.ParquetFile(path).read().sort_by("_offset").to_pylist() == before
    assert is_sound(stored)


@pytest.mark.situation(
    "warehouse",
    "small files are merged by `headrace compact`",
    shown="the verdict stays; `verify-table` says COMPACTED",
    when="–",
    do="nothing",
)
def test_a_count_that_has_lost_its_state_reports_the_same_as_before(stored: Stored) -> None:
    """Fault: rows of merged files belong to no load's folder: their loads were not found, or reported as without rows."""
    before = dict(stored.audit._told)
    compact(stored)
    (stored.warehouse.folder / "loads" / TOPIC / "counted.json").unlink()
    assert stored.count() == 5
    assert {key: one.windows for key, one in stored.audit._told.items()} == {key: one.windows for key, one in before.items()}
    assert is_sound(stored)


def test_loads_are_known_after_their_snapshots_have_expired(stored: Stored) -> None:
    runs = [run.record.run for run in stored.warehouse.existing_table(TOPIC).runs()]
    compact(stored)
    iceberg = stored.warehouse.existing_table(TOPIC).iceberg
    heads = {ref.snapshot_id for ref in iceberg.metadata.refs.values()}
    old = [one.snapshot_id for one in iceberg.metadata.snapshots if one.snapshot_id not in heads]
    iceberg.maintenance.expire_snapshots().by_ids(old).commit()
    assert [run.record.run for run in stored.warehouse.existing_table(TOPIC).runs()] == runs
    assert is_sound(stored)
    stored.load(0, 3)
    stored.publish()
    compact(stored)
    assert is_sound(stored)


def test_a_count_reads_only_the_loads_that_a_changed_file_concerns(stored: Stored) -> None:
    """Fault: one rewritten file made the count read every load of the table."""
    for hour in range(2, 6):
        stored.load(hour, 4)
    stored.publish()
    rewritten_by_others(stored.warehouse, LOADS, 0)
    assert stored.count() == 5, "the loads between its first and its last offset, and not the four behind"
    assert stored.count() == 0
    assert not needs_count(stored.warehouse.existing_table(TOPIC))


def test_a_damaged_or_missing_file_leaves_its_hour_as_it_is(stored: Stored) -> None:
    damaged, gone = files(stored.warehouse, MAIN)[0], files(stored.warehouse, MAIN)[-1]
    rewrite(damaged, lambda rows: rows.slice(1))
    counts = file_counts(stored)
    assert list(compact(stored).left) == [hour_name(int(damaged.parent.name.rpartition("=")[2]))]
    gone_hour = int(gone.parent.name.rpartition("=")[2])
    assert file_counts(stored)[0] == counts[0] or gone_hour == 0
    assert not list((stored.warehouse.data_folder(TOPIC)).glob("compacted-*/1970-01-01T00/*/*"))


def test_files_that_do_not_hold_what_was_read_are_never_committed(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    before, counts = contents(stored), file_counts(stored)
    add = Sums.add
    calls: list[int] = []

    def forgets_a_row(self: Sums, rows: object) -> None:
        calls.append(1)
        add(self, rows.where(rows.offsets != 2))  # type: ignore[attr-defined]

    monkeypatch.setattr(Sums, "add", forgets_a_row)
    assert list(compact(stored).left) == [hour_name(0)]
    monkeypatch.undo()
    assert calls
    assert contents(stored) == before
    assert file_counts(stored)[0] == counts[0]
    assert is_sound(stored)


def test_a_load_beside_a_compaction_loses_nothing(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(stored)
    commit = compact_job.commit_compaction

    def with_a_load_first(*words: object, **more: object) -> bool:
        stored.load(0, 3)
        return commit(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(compact_job, "commit_compaction", with_a_load_first)
    assert compact(stored).left == {}
    assert contents(stored)[: len(before)] == before
    assert len(contents(stored)) == len(before) + 3
    assert stored.warehouse.existing_table(TOPIC).offsets() == {0: 21}
    assert stored.publish().published == (hour_name(0),)
    assert is_sound(stored)


def test_a_rollback_of_main_during_a_compaction_is_not_undone(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: pyiceberg asks for the head of only one of two branches that a transaction changes."""
    stored.load(2, 2)
    stored.publish()
    commit = compact_job.commit_compaction
    rolled: list[int] = []

    def with_a_rollback_first(table: object, **more: object) -> bool:
        iceberg = stored.warehouse.existing_table(TOPIC).iceberg
        head = iceberg.metadata.snapshot_by_name(MAIN)
        assert head is not None
        assert head.parent_snapshot_id is not None
        rolled.append(head.parent_snapshot_id)
        iceberg.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()
        return commit(table, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(compact_job, "commit_compaction", with_a_rollback_first)
    compact(stored)
    seen = {row[2] for row in contents(stored, MAIN)}
    assert not seen & {18, 19}, "the rows that the operator rolled back are there again"
    assert len(contents(stored, MAIN)) == 18


def test_a_compaction_that_was_taken_for_dead_never_commits(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(stored)
    commit = compact_job.commit_compaction

    def swept_first(table: object, **more: object) -> bool:
        stored.warehouse.existing_table(TOPIC).retire([str(more["folder"])])
        return commit(table, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(compact_job, "commit_compaction", swept_first)
    assert set(compact(stored).left) == {hour_name(0), hour_name(1)}
    monkeypatch.undo()
    assert contents(stored) == before
    assert is_sound(stored)
    assert compact(stored).left == {}
    assert is_sound(stored)


def test_after_a_rollback_of_loads_over_a_compaction_nothing_is_doubled_and_the_next_one_heals(stored: Stored) -> None:
    before, head = contents(stored), stored.warehouse.existing_table(TOPIC).snapshot_id(LOADS)
    compact(stored)
    roll_back(stored.warehouse, head)
    assert file_counts(stored) == {0: 3, 1: 3}
    assert file_counts(stored, MAIN) == {0: 1, 1: 1}
    stored.count()
    assert is_sound(stored)
    assert contents(stored, MAIN) == contents(stored) == before
    assert set(compact(stored).hours) == {hour_name(0), hour_name(1)}
    assert file_counts(stored) == file_counts(stored, MAIN) == {0: 1, 1: 1}
    assert contents(stored, MAIN) == contents(stored) == before
    assert is_sound(stored)


def test_after_a_rollback_of_loads_over_a_compaction_and_a_load_its_rows_are_loaded_again(stored: Stored) -> None:
    head = stored.warehouse.existing_table(TOPIC).snapshot_id(LOADS)
    stored.load(0, 2)
    stored.publish()
    whole = contents(stored)
    compact(stored)
    roll_back(stored.warehouse, head)
    stored.count()
    store(stored.warehouse, "again", [(0, 18, 18), (0, 19, 19)], [span(0, 18, 20)])
    stored.publish()
    assert [row[2] for row in contents(stored)] == [row[2] for row in whole]
    assert [row[2] for row in contents(stored, MAIN)] == [row[2] for row in whole]
    compact(stored)
    assert file_counts(stored) == file_counts(stored, MAIN) == {0: 1, 1: 1}
    assert is_sound(stored)


def test_after_a_rollback_of_main_over_a_compaction_readers_see_the_same_rows(stored: Stored) -> None:
    before = contents(stored)
    compact(stored)
    iceberg = stored.warehouse.existing_table(TOPIC).iceberg
    head = iceberg.metadata.snapshot_by_name(MAIN)
    assert head is not None
    assert head.parent_snapshot_id is not None
    iceberg.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()
    done = stored.publish()
    assert (done.withdrawn, [one.verdict for one in done.revisions]) == ((), [COMPACTED, COMPACTED])
    assert contents(stored, MAIN) == before
    compact(stored)
    assert file_counts(stored) == file_counts(stored, MAIN) == {0: 1, 1: 1}
    assert contents(stored, MAIN) == contents(stored) == before
    assert is_sound(stored)


def test_rows_that_somebody_removed_do_not_come_back_under_another_name(stored: Stored) -> None:
    rewritten_by_others(stored.warehouse, MAIN, 0, lambda rows: rows.slice(1))
    stored.publish()
    seen = contents(stored, MAIN)
    for _ in range(2):
        compact(stored)
        assert stored.publish().published == ()
        assert contents(stored, MAIN) == seen
    assert file_counts(stored)[0] == 3


def test_rows_that_a_delete_file_takes_do_not_come_back_in_a_younger_file(stored: Stored) -> None:
    """Before a publish has taken note of it, and after."""
    delete_rows(stored.warehouse, MAIN, 0, [1])
    seen = stored.rows(MAIN)
    for _ in range(2):
        assert hour_name(0) not in compact(stored).hours
        assert stored.rows(MAIN) == seen
        stored.publish()
    assert file_counts(stored) == {0: 3, 1: 1}, "the other hour is compacted"


def test_a_delete_file_beside_a_compaction_is_not_undone(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = compact_job.commit_compaction

    def late(*arguments: object, **words: object) -> bool:
        delete_rows(stored.warehouse, MAIN, 0, [1])
        return commit(*arguments, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(compact_job, "commit_compaction", late)
    assert compact(stored).hours == []
    assert 1 not in stored.rows(MAIN)


def test_manifests_of_many_loads_are_merged(tmp_path: Path) -> None:
    stored = Stored(tmp_path, TOPIC)
    for hour in range(6):
        stored.load(hour, 1)
    stored.publish()
    before = contents(stored)
    assert compact(stored, most_manifests=5).manifests_merged == 6
    after = stored.warehouse.existing_table(TOPIC)
    head = after.iceberg.metadata.snapshot_by_name(LOADS)
    assert head is not None
    assert len(head.manifests(after.iceberg.io)) == 1
    assert contents(stored) == before
    assert (after.offsets(), len(after.runs())) == ({0: 6}, 6)
    assert is_sound(stored)


def test_a_bounded_run_says_how_many_hours_are_left(stored: Stored) -> None:
    done = compact(stored, most_hours=1)
    assert (done.hours, done.more) == ([hour_name(0)], 1)
    assert compact(stored, most_hours=1).hours == [hour_name(1)]


def test_without_a_table_there_is_nothing_to_compact(tmp_path: Path) -> None:
    stored = Stored(tmp_path, TOPIC)
    assert CompactJob(stored.warehouse, TOPIC).run().hours == []


def test_the_error_says_what_stays() -> None:
    assert "its files stay as they are" in str(CompactionUnproven("clicks", "why"))
