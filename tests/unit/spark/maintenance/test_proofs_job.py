"""Many publishes leave many small files of proofs: they become one, and every proof stays as it was."""

from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.clock import ManualClock
from headrace.spark.maintenance import proofs_job
from headrace.spark.maintenance.expire_job import ExpireJob
from headrace.spark.maintenance.proofs_job import merge_proofs
from headrace.spark.maintenance.settings import ExpirySettings
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_table import Stored

from .worlds import TOPIC


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Four publishes."""
    found = Stored(tmp_path, TOPIC)
    for hour in range(4):
        found.load(hour, 2)
        found.publish()
    return found


def read(stored: Stored) -> Any:
    return Warehouse(stored.warehouse.settings).proofs(TOPIC).read(up_to_publish=99)


def file_count(stored: Stored) -> int:
    return len(list(stored.warehouse.proofs(TOPIC).iceberg.scan().plan_files()))


def test_small_files_of_proofs_become_one_and_old_ones_are_cleaned_up(stored: Stored, tmp_path: Path) -> None:
    before = read(stored)
    assert merge_proofs(stored.warehouse, at_least=5).files_before == 0
    done = merge_proofs(stored.warehouse, at_least=4)
    assert (done.files_before, done.files_after, done.row_count) == (4, 1, 4)
    assert (read(stored), file_count(stored)) == (before, 1)
    expiry = ExpirySettings(max_age_ms=0, min_snapshots=1, grace_ms=0)
    gone = ExpireJob(stored.warehouse, None, expiry, clock=ManualClock(3_000_000_000_000)).run()
    assert gone.snapshots_left == 1
    assert len(list((tmp_path / "proofs" / "data").rglob("*.parquet"))) == 1
    assert read(stored) == before
    stored.load(0, 1)
    assert len(stored.publish().published) == 1
    assert [fault for one in verify(stored.warehouse, TOPIC) for fault in one.faults] == []


def test_a_publish_meanwhile_loses_no_proof(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, calls = proofs_job._replace, list[int]()

    def with_a_publish_first(*words: Any) -> None:
        replace(*words)
        calls.append(1)
        if len(calls) == 1:
            stored.load(0, 1)
            assert len(stored.publish().published) == 1

    monkeypatch.setattr(proofs_job, "_replace", with_a_publish_first)
    merge_proofs(stored.warehouse, at_least=4)
    assert sum(len(some) for some in read(stored).values()) == 5
    assert [one.revision for one in read(stored)[0]] == [1, 2]
    assert [fault for one in verify(stored.warehouse, TOPIC) for fault in one.faults] == []


def test_without_proofs_there_is_nothing_to_merge(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    assert merge_proofs(warehouse).files_before == 0
    assert ExpireJob(warehouse, None).run().files_deleted == 0
