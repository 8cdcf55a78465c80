"""The upkeep of the table `headrace.proofs`: each publish of each topic adds a file, a manifest and a snapshot to it.

Its small files become one, sorted by topic and hour, so that a publish opens few files and reads the row groups of its topic. The
rows stay as they are. A publish that commits meanwhile goes first, and this is tried again.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.table import FileScanTask
from pyiceberg.table.snapshots import Operation

from ...runtime.logs import get_logger
from ..errors import CompactionUnproven, WarehouseError
from ..warehouse.catalogs import reaching_catalog
from ..warehouse.commits.overwrites import Overwrite
from ..warehouse.proofs import ROWS_AT_ONCE
from ..warehouse.store import reaching_store
from ..warehouse.topic_table import MAIN, TopicTable
from ..warehouse.warehouse import Warehouse
from .compact_job import CompactOutcome

log = get_logger(__name__)

NAME = "headrace.proofs"
SMALL_BYTES = 32 << 20
AT_LEAST = 50
MOST_FILES = 2_000
"""In one run: their rows are in memory."""
ATTEMPTS = 5


def merge_proofs(warehouse: Warehouse, *, at_least: int = AT_LEAST) -> CompactOutcome:
    """Merge the table's small files if there are so many. Raises WarehouseError, CatalogUnreachable, StoreUnreachable."""
    outcome = CompactOutcome(topic=NAME)
    with warehouse.locked("compact-proofs"):
        for _ in range(ATTEMPTS):
            table = warehouse.proofs_table()
            if table is None:
                return outcome
            with reaching_catalog(), reaching_store(table.data_folder):
                tasks = [one for one in table.iceberg.scan().plan_files() if one.file.file_size_in_bytes < SMALL_BYTES]
                if len(tasks) < at_least:
                    return outcome
                try:
                    outcome.row_count = _rewrite(table, tasks[:MOST_FILES])
                except (CommitFailedException, ValidationException) as error:
                    log.info("proofs_not_merged", reason=str(error))
                    continue
            outcome.files_before, outcome.files_after = len(tasks[:MOST_FILES]), 1
            return outcome
    raise WarehouseError("the proofs are added to so often that they cannot be merged: run it again")


def _rewrite(table: TopicTable, tasks: Sequence[FileScanTask]) -> int:
    """Commit the files' rows as one file; return how many there are."""
    iceberg = table.iceberg
    rows = ArrowScan(iceberg.metadata, iceberg.io, iceberg.schema(), AlwaysTrue()).to_table(tasks)
    expected = sum(task.file.record_count for task in tasks)
    if len(rows) != expected:
        raise CompactionUnproven(NAME, f"its files should hold {expected} rows, not {len(rows)}")
    transaction = iceberg.transaction()
    if not ROWS_AT_ONCE.items() <= iceberg.properties.items():
        transaction.set_properties(ROWS_AT_ONCE)
    _replace(transaction, rows.sort_by([("topic", "ascending"), ("hour", "ascending"), ("revision", "ascending")]), tasks)
    transaction.commit_transaction()
    return len(rows)


def _replace(transaction: Any, rows: pa.Table, tasks: Sequence[FileScanTask]) -> None:
    with Overwrite(transaction, MAIN, {}, told=Operation.REPLACE) as snapshot:
        for file in _dataframe_to_data_files(transaction.table_metadata, rows, transaction._table.io):
            snapshot.append_data_file(file)
        for task in tasks:
            snapshot.delete_data_file(task.file)
