"""Snapshots go by age and number; a file goes only when no snapshot names it, nobody leases it, and the grace period is over."""

import os
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.runtime.clock import ManualClock
from headrace.spark.load.staging import StagingFolder
from headrace.spark.maintenance.expire_job import ExpireJob, ExpireOutcome, expired
from headrace.spark.maintenance.settings import ExpirySettings
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.load_record import read_compaction
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.other_hands import files
from tests.support.stored_rows import HOUR_MS, write_rows
from tests.support.stored_table import Stored

from .worlds import TOPIC, compact, contents

FAR = 3_000_000_000_000
"""Long after every snapshot."""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """An hour of three loads, published and merged."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    found = Stored(tmp_path / "warehouse", TOPIC)
    for _ in range(3):
        found.load(0, 4)
    found.publish()
    compact(found)
    return found


def age(stored: Stored) -> None:
    """Have the table's own files be old."""
    for path in Path(str(stored.warehouse.data_folder(TOPIC).parent / "metadata")).iterdir():
        os.utime(path, (1, 1))


def expire(stored: Stored, *, at_ms: int = FAR, **words: Any) -> ExpireOutcome:
    settings = ExpirySettings(**{"max_age_ms": 0, "min_snapshots": 1, "grace_ms": 0, **words})
    return ExpireJob(stored.warehouse, TOPIC, settings, clock=ManualClock(at_ms)).run()


def parquet(stored: Stored) -> set[Path]:
    folder = stored.warehouse.data_folder(TOPIC)
    assert isinstance(folder, Path)
    return set(folder.rglob("*.parquet"))


def test_merged_files_stay_while_a_snapshot_names_them(stored: Stored) -> None:
    assert expire(stored, max_age_ms=2 * FAR).files_deleted == 0
    assert len(parquet(stored)) == 4


def test_expired_snapshots_and_what_they_alone_named_are_gone_and_readers_see_no_difference(stored: Stored) -> None:
    before = contents(stored)
    age(stored)
    done = expire(stored)
    assert (done.snapshots_left, len(parquet(stored))) == (2, 1)
    assert done.files_deleted > 3
    assert parquet(stored) == set(files(stored.warehouse)) == set(files(stored.warehouse, MAIN))
    assert contents(stored) == contents(stored, MAIN) == before
    assert stored.warehouse.existing_table(TOPIC).iceberg.scan().to_arrow().num_rows == 12
    folder = stored.warehouse.data_folder(TOPIC)
    assert isinstance(folder, Path)
    assert len(list(folder.iterdir())) == 1, "empty folders are left"
    assert [fault for one in verify(stored.warehouse, TOPIC) for fault in one.faults] == []
    assert stored.count() == 0
    assert len(stored.warehouse.existing_table(TOPIC).runs()) == 3
    stored.load(0, 2)
    assert stored.publish().published != ()
    compact(stored)
    assert expire(stored).files_deleted > 0
    assert len(contents(stored, MAIN)) == 14


def test_a_file_waits_for_its_grace_period_from_when_it_was_first_seen_unnamed(stored: Stored) -> None:
    """Fault: a merged file is old, and was named until a minute ago: its own time says nothing."""
    for path in parquet(stored):
        os.utime(path, (1, 1))
    age(stored)
    grace = 72 * HOUR_MS
    first = expire(stored, grace_ms=grace)
    assert (first.files_deleted, first.files_waiting > 3) == (0, True)
    assert expire(stored, grace_ms=grace, at_ms=FAR + grace - 1).files_deleted == 0
    done = expire(stored, grace_ms=grace, at_ms=FAR + grace)
    # What these runs left behind themselves began to wait when it was seen.
    assert done.files_deleted >= first.files_waiting - 1
    assert parquet(stored) == set(files(stored.warehouse))


def test_a_damaged_list_of_waiting_files_begins_their_grace_period_again(stored: Stored) -> None:
    grace = 72 * HOUR_MS
    expire(stored, grace_ms=grace)
    (stored.warehouse.folder / "loads" / TOPIC / "unreferenced.json").write_text("[]")
    assert expire(stored, grace_ms=grace, at_ms=FAR + grace).files_deleted == 0


def test_files_of_a_run_with_a_lease_stay(stored: Stored) -> None:
    running = StagingFolder(stored.warehouse, TOPIC).open()
    mine = set(write_rows(running.path, [(0, 99, 5)]))
    expire(stored)
    assert mine <= parquet(stored)
    running.close(discard=True)


def test_files_that_others_left_without_a_lease_are_deleted(stored: Stored) -> None:
    folder = stored.warehouse.data_folder(TOPIC)
    mine = set(write_rows(folder / "of-nobody", [(0, 99, 5)]))
    record = stored.warehouse.folder / "loads" / TOPIC / "compacted-dead.json"
    record.write_text("{}")
    expire(stored)
    assert not mine & parquet(stored)
    assert not record.exists()
    (living,) = {path.relative_to(folder).parts[0] for path in files(stored.warehouse)}  # type: ignore[arg-type]
    assert read_compaction(stored.warehouse.existing_table(TOPIC).records_folder, living) is not None


def test_manifests_of_a_commit_that_is_under_way_stay_without_a_grace_period_too(stored: Stored) -> None:
    """Fault: with a grace period of 0 a clean-up could delete what a load was about to commit."""
    folder = Path(str(stored.warehouse.data_folder(TOPIC).parent / "metadata"))
    mine = folder / "of-a-commit-m0.avro"
    mine.write_bytes(b"x")
    done = expire(stored)
    assert mine.exists()
    assert done.files_waiting > 0
    age(stored)
    expire(stored)
    assert not mine.exists()


def test_one_run_deletes_a_bounded_number_of_files(stored: Stored) -> None:
    done = expire(stored, most_files=2)
    assert (done.files_deleted, done.files_waiting > 1) == (2, True)


def test_a_branch_that_is_set_back_meanwhile_is_not_lost(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: pyiceberg removes snapshots without asking for the branches, and a branch that points to one with it."""
    from headrace.spark.maintenance import expire_job

    forget = expire_job.expire_snapshots
    head = stored.warehouse.existing_table(TOPIC).iceberg.metadata.snapshot_by_name(MAIN)
    assert head is not None
    back = head.parent_snapshot_id
    assert back is not None

    def with_a_rollback_first(*words: Any) -> int:
        stored.warehouse.existing_table(TOPIC).iceberg.manage_snapshots().rollback_to_snapshot(back).commit()
        return forget(*words)

    monkeypatch.setattr(expire_job, "expire_snapshots", with_a_rollback_first)
    assert expire(stored).snapshots_expired == 0
    assert stored.warehouse.existing_table(TOPIC).snapshot_id(MAIN) == back
    assert len(contents(stored, MAIN)) == 12


def test_which_snapshots_expire() -> None:
    def snapshot(number: int, parent: int | None) -> Any:
        return Made(snapshot_id=number, parent_snapshot_id=parent, timestamp_ms=number * 10)

    refs = {
        "main": Made(snapshot_id=4, snapshot_ref_type="branch"),
        "loads": Made(snapshot_id=7, snapshot_ref_type="branch"),
        "kept": Made(snapshot_id=2, snapshot_ref_type="tag"),
    }
    chain = [snapshot(n, n - 1 if n > 1 else None) for n in range(1, 5)] + [snapshot(5, 1), snapshot(6, 5), snapshot(7, 6)]
    made = Made(snapshots=[*chain, snapshot(8, 4)], refs=refs)
    words = {"now_ms": 100, "max_age_ms": 0}
    assert expired(made, min_snapshots=1, **words) == [1, 3, 5, 6, 8]
    assert expired(made, min_snapshots=2, **words) == [1, 5, 8]
    assert expired(made, now_ms=100, max_age_ms=55, min_snapshots=1) == [1, 3]
    assert expired(made, min_snapshots=9, **words) == [8]


def test_the_commands_steps(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    stored.load(0, 1)
    stored.publish()
    assert main(["compact", "--all"]) == 0
    out = capsys.readouterr().out
    assert "merge: clicks: 2 files of 1 hours into 1, 13 rows as they were" in out
    assert main(["compact", TOPIC, "--step", "expire", "--older-than", "0", "--keep", "1", "--grace", "0"]) == 0
    assert "expire: clicks: " in capsys.readouterr().out
    assert len(parquet(stored)) == 1
    assert main(["compact", TOPIC, "--json"]) == 0
    assert '"faults": {}' in capsys.readouterr().out
    assert main(["compact"]) == 2
    assert main(["compact", "nothing_of_this_name"]) == 1
    assert stored.warehouse.existing_table(TOPIC).row_counts_by_hour(LOADS) == {0: 13}
