"""A delete file of others on `main` (merge-on-read) takes rows from readers: each hour that it touches is told of it in numbers,
and all others go on.
"""

from pathlib import Path

import pytest

from headrace.spark.errors import WarehouseError
from headrace.spark.publish.main_reports import published
from headrace.spark.publish.publish_job import Gate
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.proofs import Proof
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.other_hands import add_again, delete_rows, files
from tests.support.stored_table import Stored

KINDS = ["pos", "_offset"]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Twenty rows in one published hour, and five in the next."""
    found = Stored(tmp_path, "clicks")
    found.load(0, 20)
    found.load(1, 5)
    assert found.publish().published == (hour_name(0), hour_name(1))
    return found


def history(stored: Stored, hour: int = 0) -> list[Proof]:
    table = stored.warehouse.existing_table("clicks")
    return stored.warehouse.proofs("clicks").read(up_to_publish=table.last_publish, words=True)[hour]


def faults(stored: Stored) -> list[str]:
    return [f"{one.hour}: {fault}" for one in verify(stored.warehouse, "clicks") for fault in one.faults]


@pytest.mark.parametrize("by", KINDS)
def test_rows_that_a_delete_file_takes_are_removed_in_numbers_and_other_hours_go_on(stored: Stored, by: str) -> None:
    """Fault: one delete file stopped the publish of the whole topic with an error."""
    delete_rows(stored.warehouse, MAIN, 0, [3, 4, 11], by=by)
    assert f"{hour_name(0)}: 3 of 20 proven rows were removed from main" in faults(stored)
    stored.load(2, 4)
    done = stored.publish()
    assert done.published == (hour_name(2),)
    assert dict(done.pending) == {hour_name(0): "3 rows were removed by others (1 delete file on main): they are not added again"}
    last = history(stored)[-1]
    assert (last.revision, last.verdict, last.row_count) == (2, "REMOVED", 17)
    told = published(history(stored), "t", 1)
    assert told is not None
    assert (told.verdict, told.row_count, told.missing) == ("REMOVED", 17, 3)
    assert [one for one in faults(stored) if "REMOVED" not in one] == []
    done = Stored.publish(stored)
    assert (done.published, done.revisions) == ((), ()), "nothing has changed since"
    assert [one.verdict for one in history(stored, 1)] == ["COMPLETE"]


def test_the_numbers_are_those_that_a_reader_gets(stored: Stored) -> None:
    delete_rows(stored.warehouse, MAIN, 0, [3, 4, 11])
    delete_rows(stored.warehouse, MAIN, 0, [4, 5])
    stored.publish()
    assert history(stored)[-1].row_count == len([at for at in stored.rows(MAIN) if at < 20]) == 16
    assert sorted(file.row_count for file in history(stored)[-1].files) == [-3, -1, 20]


@pytest.mark.parametrize("by", KINDS)
def test_late_rows_of_such_an_hour_go_out_and_are_not_complete(stored: Stored, by: str) -> None:
    delete_rows(stored.warehouse, MAIN, 0, [3, 4, 11], by=by)
    stored.load(0, 5)
    assert stored.publish().published == (hour_name(0),)
    assert [(one.verdict, one.row_count) for one in history(stored)] == [("COMPLETE", 20), ("REMOVED", 17), ("REMOVED", 22)]
    assert "3 of 25 rows were removed by others (1 delete file on main)" in history(stored)[-1].reason
    assert [one for one in faults(stored) if "REMOVED" not in one] == []


@pytest.mark.parametrize("by", KINDS)
def test_what_a_delete_file_took_comes_back_only_by_a_person_s_word(stored: Stored, by: str) -> None:
    delete_rows(stored.warehouse, MAIN, 0, [3, 4, 11], by=by)
    stored.publish()
    assert len(history(stored)) == 2
    assert Gate(stored.warehouse, "clicks", stored.audit.ask, restore=[0]).publish(wait_ms=0).published == (hour_name(0),)
    assert (history(stored)[-1].verdict, history(stored)[-1].row_count) == ("COMPLETE", 20)
    table = stored.warehouse.existing_table("clicks")
    assert table.deletes(MAIN) == {}, "files that are added again are younger than the delete file"
    assert faults(stored) == []
    assert Stored.publish(stored).revisions == ()


def test_a_withdrawn_hour_does_not_come_back_with_the_rows_that_a_delete_file_took(stored: Stored) -> None:
    delete_rows(stored.warehouse, MAIN, 0, [3])
    stored.publish()
    add_again(stored.warehouse, MAIN, files(stored.warehouse)[0])
    assert hour_name(0) in dict(stored.publish().withdrawn)
    assert "somebody had removed or rewritten" in dict(stored.publish().shut)[hour_name(0)]
    assert stored.rows(MAIN) == list(range(20, 25))


def test_a_delete_file_that_takes_nothing_is_noted_as_the_same_rows(stored: Stored) -> None:
    delete_rows(stored.warehouse, MAIN, 0, [3])
    delete_rows(stored.warehouse, MAIN, 0, [3], by="_offset")
    stored.publish()
    assert (history(stored)[-1].row_count, history(stored)[-1].verdict) == (19, "REMOVED")
    assert Stored.publish(stored).revisions == ()


def test_a_delete_file_that_cannot_be_read_withdraws_its_hour_with_its_number(stored: Stored) -> None:
    delete_rows(stored.warehouse, MAIN, 0, [3, 4]).write_bytes(b"no Parquet")
    done = stored.publish()
    assert "takes rows by 2 places or values" in dict(done.withdrawn)[hour_name(0)]
    assert stored.rows(MAIN) == list(range(20, 25))


def test_a_delete_file_among_the_loads_is_refused_with_its_hour(stored: Stored) -> None:
    delete_rows(stored.warehouse, LOADS, 1, [21])
    with pytest.raises(WarehouseError, match=f"takes rows of {hour_name(1)}"):
        stored.publish()


def test_a_delete_without_a_partition_concerns_each_hour(stored: Stored) -> None:
    """An equality delete file of an unpartitioned spec takes rows of all hours."""
    delete_rows(stored.warehouse, MAIN, 0, [3, 21], by="_offset", everywhere=True)
    done = stored.publish()
    assert {hour: reason.split(" ")[0] for hour, reason in done.pending} == {hour_name(0): "1", hour_name(1): "1"}
    assert [history(stored, hour)[-1].row_count for hour in (0, 1)] == [19, 4]
