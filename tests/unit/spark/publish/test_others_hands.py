"""What others do to the branches `main` and `loads` is found by reading back, and no revision says COMPLETE over it."""

from pathlib import Path

import pyarrow.compute as pc
import pytest

from headrace.runtime.clock import ManualClock
from headrace.spark.publish.count_job import count_and_report, look_again, needs_count
from headrace.spark.publish.counting import rotation
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.proofs import Proof
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.other_hands import add_again, compact, files, roll_back, rot
from tests.support.stored_rows import HOUR_MS, write_rows
from tests.support.stored_table import Stored

from .counting import no_log


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Twenty rows in one published hour, and five in the next."""
    found = Stored(tmp_path, "clicks")
    found.load(0, 20)
    found.load(1, 5)
    assert found.publish().published == (hour_name(0), hour_name(1))
    return found


def last(stored: Stored, hour: int = 0) -> Proof:
    table = stored.warehouse.existing_table("clicks")
    return stored.warehouse.proofs("clicks").read(up_to_publish=table.last_publish)[hour][-1]


def faults(stored: Stored) -> list[str]:
    return [fault for one in verify(stored.warehouse, "clicks") for fault in one.faults]


def before_the_publish(stored: Stored) -> int:
    """Return the snapshot of `main` before its last one."""
    found = stored.warehouse.existing_table("clicks").iceberg.metadata.snapshot_by_name(MAIN)
    assert found is not None
    assert found.parent_snapshot_id is not None
    return found.parent_snapshot_id


@pytest.mark.situation("warehouse", "`main` is rolled back, or rows are removed from it")
def test_late_rows_of_an_hour_that_was_rolled_back_go_out_and_are_not_complete(stored: Stored) -> None:
    """Fault: `main` rolled back, then 5 late rows loaded: revision 3 COMPLETE with 5 of 25 rows, verify-table OK."""
    roll_back(stored.warehouse, before_the_publish(stored), MAIN)
    assert dict(stored.publish().pending)[hour_name(0)] == "20 rows were removed by others: they are not added again"
    stored.load(0, 5)
    done = stored.publish()
    assert hour_name(0) in done.published
    assert stored.rows(MAIN) == list(range(25, 30))
    assert (last(stored).revision, last(stored).verdict, last(stored).row_count) == (3, "REMOVED", 5)
    assert "20 of 25 rows were removed by others" in last(stored).reason
    assert done.complete_through is None
    assert any("20 of 25 rows were removed by others" in fault for fault in faults(stored))
    done = Stored.publish(stored)
    assert dict(done.pending)[hour_name(0)] == "20 rows were removed by others: they are not added again"


def test_late_rows_go_out_with_the_publish_that_finds_rows_removed(stored: Stored) -> None:
    """Fault: the publish that found `main` rolled back left rows that had come meanwhile to the next one."""
    roll_back(stored.warehouse, before_the_publish(stored), MAIN)
    stored.load(0, 5)
    done = stored.publish()
    assert done.published == (hour_name(0),)
    assert stored.rows(MAIN) == list(range(25, 30))
    assert [(one.revision, one.verdict, one.row_count) for one in done.revisions if one.hour == 0] == [
        (2, "REMOVED", 0),
        (3, "REMOVED", 5),
    ]


def test_a_file_that_stands_twice_on_main_withdraws_the_hour_and_its_next_publish_holds_each_record_once(stored: Stored) -> None:
    """Fault: a data file added twice on `main`: COMPLETE over 40 rows of 20, and verify-table OK."""
    add_again(stored.warehouse, MAIN, files(stored.warehouse, MAIN)[0])
    assert len(stored.rows(MAIN)) == 45
    assert any("is there 2 times: 40 rows of 20" in fault for fault in faults(stored))
    done = stored.publish()
    assert "is there 2 times: 40 rows of 20" in dict(done.withdrawn)[hour_name(0)]
    assert stored.rows(MAIN) == list(range(20, 25))
    assert stored.publish().published == (hour_name(0),)
    assert stored.rows(MAIN) == list(range(25))
    assert (last(stored).verdict, faults(stored)) == ("COMPLETE", [])


def test_a_file_that_stands_twice_on_the_loads_is_counted_twice_and_withdraws_nothing(stored: Stored) -> None:
    """Fault: a data file added twice on `loads`: not counted again, or a sound hour of `main` withdrawn."""
    add_again(stored.warehouse, LOADS, files(stored.warehouse)[0])
    assert stored.count() == 1
    assert {one.window_start_ms: one.verdict for one in stored.audit.ask("clicks")} == {0: "DOUBLED", HOUR_MS: "COMPLETE"}
    done = stored.publish()
    assert done.withdrawn == ()
    assert "DOUBLED 1" in dict(done.pending)[hour_name(0)]
    assert stored.rows(MAIN) == list(range(25))
    assert stored.count() == 0, "the doubled file was counted as it stands"


def test_a_stray_row_on_the_loads_is_told_to_the_audit_and_withdraws_nothing(stored: Stored) -> None:
    """Fault: a stray row on `loads`, behind the end of the log: the tier COMPLETE."""
    stored.audit.log_end = 25
    (path,) = write_rows(stored.warehouse.data_folder("clicks"), [(0, 5_000, 7)])
    add_again(stored.warehouse, LOADS, path)
    stored.count()
    found = {one.window_start_ms: one for one in stored.audit.ask("clicks")}
    assert (found[0].verdict, found[0].warehouse_count) == ("DOUBLED", 21)
    assert found[0].words["differences"][0]["records"][0]["first_offset"] == 5_000
    done = stored.publish()
    assert (done.withdrawn, stored.rows(MAIN)) == ((), list(range(25)))
    table = stored.warehouse.existing_table("clicks")
    table.iceberg.delete("_offset = 5000", branch=LOADS)
    stored.count()
    assert {one.verdict for one in stored.audit.ask("clicks")} == {"COMPLETE"}


def test_a_stray_row_that_readers_see_withdraws_the_hour(tmp_path: Path) -> None:
    stored = Stored(tmp_path, "clicks")
    stored.load(0, 5)
    stored.publish()
    stored.audit.log_end = 4
    assert "published rows are doubled" in dict(stored.publish().withdrawn)[hour_name(0)]


@pytest.mark.situation(
    "warehouse",
    "another engine rewrites files of `main` with the same rows",
    shown="nothing: `verify-table` says so",
    when="with the next publish",
    do="nothing",
)
def test_rows_that_somebody_rewrote_are_no_difference_and_late_ones_go_out_at_once(stored: Stored) -> None:
    """Fault: after `rewrite_data_files` of another engine verify-table said DIFFERS, and late rows waited a publish longer."""
    path = compact(stored.warehouse, MAIN, 0)
    assert faults(stored) == []
    assert any("the same rows" in one.note for one in verify(stored.warehouse, "clicks"))
    stored.load(0, 5)
    assert stored.publish().published == (hour_name(0),)
    assert (last(stored).revision, last(stored).verdict, last(stored).row_count) == (2, "COMPLETE", 25)
    assert f"file://{path}" in [one.path for one in last(stored).files]
    assert (stored.rows(MAIN), faults(stored)) == (list(range(30)), [])


def test_a_rewrite_that_loses_a_row_is_told_in_numbers(stored: Stored) -> None:
    compact(stored.warehouse, MAIN, 0, lambda rows: rows.filter(pc.field("_offset") != 3))
    assert any("1 of 20 proven rows were removed" in fault for fault in faults(stored))
    stored.publish()
    assert (last(stored).verdict, last(stored).row_count) == ("REMOVED", 19)


def test_a_rewrite_that_doubles_a_row_and_loses_another_withdraws_the_hour(stored: Stored) -> None:
    """The number of rows is the same."""
    compact(stored.warehouse, MAIN, 0, lambda rows: rows.take([*range(19), 0]))
    done = stored.publish()
    assert "1 rows to main that were already there; 1 of 20 proven rows are not there" in dict(done.withdrawn)[hour_name(0)]


def test_a_commit_that_did_something_else_is_read_back_as_differs(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """The revision is written before the commit: what the commit's snapshot holds has the last word."""
    from headrace.spark.warehouse.topic_table import TopicTable

    commit = TopicTable.commit_publish

    def twice(table: TopicTable, *, number: int, add: list[object], remove: list[object]) -> None:
        commit(table, number=number, add=[*add, *add], remove=remove)  # type: ignore[list-item]

    stored.load(0, 5)
    with monkeypatch.context() as patch:
        patch.setattr(TopicTable, "commit_publish", twice)
        stored.publish()
    assert (last(stored).revision, last(stored).verdict) == (3, "DIFFERS")
    assert "3 files hold 30 rows; 2 with 25 rows were published" in last(stored).reason
    assert any("DIFFERS" in fault for fault in faults(stored))
    assert hour_name(0) in dict(stored.publish().withdrawn)
    stored.publish()
    assert (last(stored).verdict, stored.rows(MAIN)) == ("COMPLETE", list(range(30)))


def count_again(stored: Stored, clock: ManualClock) -> dict[str, str]:
    """Count as `run_count` does; return what other bytes were found."""
    found = look_again(stored.warehouse.existing_table("clicks"), clock)
    if needs_count(stored.warehouse.existing_table("clicks"), found):
        count_and_report(stored.warehouse, "clicks", stored.audit, instance="t", decode_again=no_log, rotten=found)
    return found


@pytest.mark.situation(
    "warehouse",
    "bits rot at the same size and time",
    shown="the hour is withdrawn",
    when="in turn: 4 MiB a second and table",
    do="`headrace load TOPIC --reload HOUR`",
)
@pytest.mark.parametrize("is_rewritten", [False, True], ids=["the file of a load", "a file that only main names"])
def test_bits_that_rot_at_the_same_size_and_time_are_found_in_turn(stored: Stored, *, is_rewritten: bool) -> None:
    """Fault: COMPLETE until somebody asked `verify-table`."""
    clock = ManualClock(1_000)
    path = compact(stored.warehouse, MAIN, 0) if is_rewritten else files(stored.warehouse, MAIN)[0]
    stored.publish()
    stored.count()
    assert count_again(stored, clock) == {}
    rotten_at = rot(path)
    assert count_again(stored, clock) == {}, "no time has gone by: it is nobody's turn"
    clock.advance(60_000)
    assert [*count_again(stored, clock)] == [str(path)]
    assert str(path) in dict(stored.publish().withdrawn)[hour_name(0)]
    rot(path, rotten_at)
    assert count_again(stored, clock) == {}
    assert stored.publish().withdrawn == ()


def test_a_turn_reads_no_more_than_its_rate_and_comes_round(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    sha256 = rotation.checksum

    def noted(path: Path) -> str:
        read.append(path.parent.name)
        return sha256(path)

    monkeypatch.setattr(rotation, "checksum", noted)
    monkeypatch.setattr(rotation, "BYTES_PER_SECOND", 1)
    clock = ManualClock(1_000)
    for _ in range(4):
        count_again(stored, clock)
        clock.advance(1_000)
    assert read == ["_timestamp-hour=0", "_timestamp-hour=1", "_timestamp-hour=0"]
