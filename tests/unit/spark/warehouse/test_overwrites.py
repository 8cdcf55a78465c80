"""What pyiceberg's overwrite does not do by itself."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles

from headrace.spark.warehouse.commits.overwrites import Overwrite
from headrace.spark.warehouse.topic_table import LOADS
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import span, store


@pytest.fixture
def transaction(tmp_path: Path) -> Any:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", [(0, 0, 5)], [span(0, 0, 1)])
    return warehouse.existing_table("clicks").iceberg.transaction()


def test_threads_look_at_manifests_one_at_a_time(transaction: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: threads share an evaluator that keeps state, a manifest is skipped: 'Missing required files to delete'."""
    inside, most, lock = [0], [0], threading.Lock()

    def evaluator(self: Any, spec_id: int) -> Any:
        def evaluate(manifest: Any) -> bool:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.002)
            with lock:
                inside[0] -= 1
            return True

        return evaluate

    monkeypatch.setattr(_OverwriteFiles, "_build_manifest_evaluator", evaluator)
    made = Overwrite(transaction, LOADS, {})._build_manifest_evaluator(0)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(made, [object()] * 40))  # type: ignore[arg-type]
    assert most == [1]


def test_a_snapshot_says_what_it_is(transaction: Any) -> None:
    """Fault: an overwrite stops readers who follow the table, though no row changes."""
    with Overwrite(transaction, LOADS, {"why": "because"}, told=Operation.REPLACE):
        pass
    transaction.commit_transaction()
    head = transaction._table.metadata.snapshot_by_name(LOADS)
    assert (head.summary.operation, head.summary["why"], head.summary["total-records"]) == (Operation.REPLACE, "because", "1")
