"""One topic's table with its two branches: loads commit to `loads`, publishing moves proven files to `main`.

    branch loads     every row that was loaded
    branch main      the published hours, what every reader of Iceberg sees by default
    summary of a load's snapshot   headrace.run, .ranges, .rows, and headrace.offsets: {"<partition>": loaded up to} after it
    ... and of a reload's          headrace.reloaded: the hours, and headrace.offsets as they were
    ... and of a sweep's           headrace.retired: runs that can never commit from now on, and headrace.offsets as they were
    ... and of maintenance's       see `commits.maintenance_commits`
    ... and of all of these        headrace.expired-through: the last hour that retention has dropped
    property headrace.publish      number of the last publish that reached main (`publish/publish_job.py`)
    property headrace.announced    which hours were announced to schedulers (`publish/announcements.py`)

What is loaded is in the snapshots of `loads` alone, so a rollback of the branch takes it back, and the next load reads it
again. Every load repeats the whole map, so one snapshot suffices. Traps (`facts/dependencies_and_traps.md`): pyiceberg rebases a
conflicting append, which would load twice; so commits are not retried here, and the offsets are compared again. Decision 21.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from ..errors import WarehouseError
from ..source.columns import SYSTEM_COLUMNS, settled
from ..source.offset_ranges import ranges_to_json
from .branch_files import BranchFiles
from .catalogs import reaching_catalog
from .commits.overwrites import Overwrite
from .commits.sent_commit import sent
from .delete_files import DeleteFile
from .hours import hour_name, hour_of, hour_of_name
from .load_record import LoadRecord, is_compaction, read_records, runs_of_files
from .object_path import SCHEMES, ObjectPath, S3Settings
from .store import StorePath, below, local_name, path_of, reaching_store, uri_of
from .table_columns import widen

LOADS = "loads"
MAIN = "main"
COMMIT_ATTEMPTS = 20
"""How often a commit is tried when another process changed something else of the table meanwhile."""

_OFFSETS = "headrace.offsets"
_PUBLISH = "headrace.publish"
_ANNOUNCED = "headrace.announced"
_RUN = "headrace.run"
_RANGES = "headrace.ranges"
_ROWS = "headrace.rows"
_RELOADED = "headrace.reloaded"
_RETIRED = "headrace.retired"
_EXPIRED = "headrace.expired-through"
_AGAIN = ".again-"
"""`<run>.again-<random>` is the folder of files that a reload wrote in place of the run's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A load whose rows, or whose offsets, are in the branch `loads`."""

    record: LoadRecord
    files: tuple[StorePath, ...]
    """Those of its files that the branch names now."""


class TopicTable:
    """One topic's table as of its loading; a commit fails if the table has changed since."""

    def __init__(
        self,
        topic: str,
        table: Table,
        *,
        data_folder: StorePath,
        records_folder: StorePath,
        s3: S3Settings,
        reload: Callable[[], Table],
    ) -> None:
        """`reload` returns the table as it is now, for another attempt to commit."""
        self.topic = topic
        self._s3 = s3
        self._listed: dict[str, StorePath] = {}
        self.data_folder = data_folder
        self.records_folder = records_folder
        self._table = table
        self._load_again = reload

    @property
    def iceberg(self) -> Table:
        """Return the pyiceberg table, for readers."""
        return self._table

    def snapshot_id(self, branch: str) -> int | None:
        snapshot = self._head(branch)
        return None if snapshot is None else snapshot.snapshot_id

    def arrow_schema(self) -> pa.Schema:
        """Return all columns with the types of `columns.settled`, without Iceberg's field metadata."""
        found = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        return pa.schema([pa.field(one.name, settled(one.type)) for one in found])

    def event_columns(self) -> pa.Schema:
        return pa.schema([field for field in self.arrow_schema() if field.name not in SYSTEM_COLUMNS.names])

    def offsets(self) -> dict[int, int]:
        """Return partition → offset up to which it is loaded.

        Raises WarehouseError if the branch has rows and nothing tells from which offsets they are.
        """
        for snapshot in self._ancestors(LOADS):
            if _OFFSETS in _summary(snapshot):
                return {int(name): int(offset) for name, offset in json.loads(_summary(snapshot)[_OFFSETS]).items()}
        # Somebody committed to the branch and expired the loads' own snapshots: the runs' records are still there.
        if not self.files(LOADS):
            return {}
        found: dict[int, int] = {}
        for run in self.runs():
            for one in run.record.ranges:
                found[one.partition] = max(found.get(one.partition, 0), one.to_offset)
        if not found:
            raise WarehouseError(
                f"table {self.topic!r} has rows on its branch {LOADS!r} and neither a snapshot nor a load's record says from "
                "which offsets: loading on would double them; restore the branch to a load's snapshot, or move the table away"
            )
        return found

    def expired_through(self) -> int | None:
        """Return the last hour whose rows retention has dropped, with all before it; None: it has dropped none."""
        ours = (_summary(one) for one in self._ancestors(LOADS) if _OFFSETS in _summary(one))
        found = next(ours, {}).get(_EXPIRED)
        return None if found is None else hour_of_name(found)

    def carried(self) -> dict[str, str]:
        """Return what every commit of ours to `loads` repeats from the one before."""
        through = self.expired_through()
        more = {} if through is None else {_EXPIRED: hour_name(through)}
        return {_OFFSETS: json.dumps(self.offsets(), sort_keys=True), **more}

    def path_of(self, file: DataFile | str) -> StorePath:
        """Return the file that the table names."""
        found = path_of(file if isinstance(file, str) else file.file_path, self._s3)
        return self._listed.get(str(found), found) if self._listed else found

    def stat(self, uri: str) -> Any:
        """Return size and time of change of a file that the table names. Raises OSError, StoreUnreachable."""
        return self.path_of(uri).stat() if uri.startswith(SCHEMES) else os.stat(local_name(uri))

    def look(self) -> None:
        """Ask an object store once for all files of the table, so that sizes and times of each need no request of their own."""
        if isinstance(self.data_folder, ObjectPath):
            self._listed = {str(path): path for path in self.data_folder.files()}

    def commit_load(self, *, record: LoadRecord, files: Sequence[StorePath], event_columns: pa.Schema) -> bool:
        """Add files, new columns, the ranges' ends and the record in one commit; return False if another load committed first.

        Each file holds rows of one hour. The commit is visible as a whole or not at all, and only on the branch `loads`.
        """
        before = self.offsets()
        if record.run in self.retired() or any(one.from_offset < before.get(one.partition, 0) for one in record.ranges):
            return False
        record.write(self.records_folder)
        summary = {
            _RUN: record.run,
            _RANGES: ranges_to_json(record.ranges),
            _ROWS: str(record.row_count),
            **self.carried(),
            _OFFSETS: json.dumps({**before, **{one.partition: one.to_offset for one in record.ranges}}, sort_keys=True),
        }

        def add(transaction: Any) -> None:
            widen(transaction, event_columns)
            if files:
                transaction.add_files(
                    [uri_of(path) for path in files],
                    snapshot_properties=summary,
                    check_duplicate_files=False,
                    branch=LOADS,
                )
            else:
                # Offsets without rows are a snapshot too: only a snapshot is refused after a concurrent commit.
                with transaction.update_snapshot(snapshot_properties=summary, branch=LOADS).fast_append():
                    pass

        return self.commit(add, still_wanted=lambda: self.offsets() == before and record.run not in self.retired())

    def commit_reload(
        self,
        *,
        hours: Collection[int],
        records: Sequence[LoadRecord],
        add: Sequence[StorePath],
        remove: Sequence[DataFile],
        event_columns: pa.Schema,
    ) -> bool:
        """Put files on `loads` in place of others, in one commit; return False if one of those was replaced meanwhile, or if
        another process took over from this reload.

        What is loaded stays what it was. `records` replace those of the same runs.
        """
        gone = {file.file_path for file in remove}

        own = {self.folder_of(path) for path in add}

        def still_wanted() -> bool:
            return not own & self.retired() and gone <= {file.file_path for file in self.files(LOADS, hours)}

        if not still_wanted():
            return False
        for record in records:
            record.write(self.records_folder)

        def replace(transaction: Any) -> None:
            widen(transaction, event_columns)
            summary = {
                **self.carried(),
                _RELOADED: json.dumps([hour_name(hour) for hour in sorted(hours)]),
            }
            with Overwrite(transaction, LOADS, summary) as snapshot:
                for path in add:
                    snapshot.append_data_file(parquet_file_to_data_file(self._table.io, transaction.table_metadata, uri_of(path)))
                for file in remove:
                    snapshot.delete_data_file(file)

        return self.commit(replace, still_wanted=still_wanted)

    def commit_publish(self, *, number: int, add: Sequence[DataFile], remove: Sequence[DataFile]) -> None:
        """Add files to `main` and remove others from it, in one commit that also stores the publish's number.

        Raises WarehouseError if another process changed `main` since this table was loaded.
        """
        before = self.snapshot_id(MAIN)

        def move(transaction: Any) -> None:
            transaction.set_properties({_PUBLISH: str(number)})
            words = {_PUBLISH: str(number)}
            append = transaction.update_snapshot(snapshot_properties=words, branch=MAIN).fast_append
            with Overwrite(transaction, MAIN, words) if remove else append() as snapshot:
                for file in add:
                    snapshot.append_data_file(file)
                for file in remove:
                    snapshot.delete_data_file(file)

        if not self.commit(move, still_wanted=lambda: self.snapshot_id(MAIN) == before):
            raise WarehouseError(
                f"table {self.topic!r}: another program changed its branch {MAIN!r} during the publish: run it again"
            )

    @property
    def last_publish(self) -> int:
        """The number of the last publish that reached `main`; 0 if none did. A rollback does not take it back."""
        return int(self._table.properties.get(_PUBLISH, "0"))

    @property
    def announced(self) -> str:
        """The text that `set_announced` stored last; empty if it never did."""
        return self._table.properties.get(_ANNOUNCED, "")

    def set_announced(self, text: str) -> None:
        self.commit(lambda transaction: transaction.set_properties({_ANNOUNCED: text}), still_wanted=lambda: True)

    def commit(self, change: Callable[[Any], None], *, still_wanted: Callable[[], bool]) -> bool:
        """Commit what `change` does; after a conflict again, if `still_wanted` of the table as it is then, else return False."""
        for _ in range(COMMIT_ATTEMPTS):
            transaction = self._table.transaction()
            try:
                with reaching_catalog(), reaching_store(self.data_folder):
                    change(transaction)
                    self._table = sent(transaction, self._load_again)
                return True
            except FileNotFoundError:
                self._table = self._load_again()
                if still_wanted():
                    raise
                return False  # a sweep took this run for dead, and deleted its files
            except (CommitFailedException, BadRequestError, ValueError) as error:
                # A commit to the other branch took the same sequence number: a ValueError, or a bad request to a REST catalog.
                if not isinstance(error, CommitFailedException) and "sequence number" not in str(error):
                    raise
                self._table = self._load_again()
                if not still_wanted():
                    return False
        raise WarehouseError(
            f"a commit to table {self.topic!r} was refused {COMMIT_ATTEMPTS} times though no other of its kind came: try again"
        )

    def runs(self) -> list[Run]:
        """Return the loads that are in the branch `loads`, oldest first."""
        files = self.run_files()
        return [Run(record=one, files=files[one.run]) for one in read_records(self.records_folder, [*files])]

    def run_files(self) -> dict[str, tuple[StorePath, ...]]:
        """Return run → own files, oldest first: of those with a file, a snapshot or a part of a compacted file in `loads`."""
        files: dict[str, list[StorePath]] = {}
        merged: dict[str, list[str]] = {}
        for file in self.files(LOADS):
            path = self.path_of(file)
            folder = self.folder_of(path)
            if is_compaction(folder):
                merged.setdefault(folder, []).append(below(path, self.data_folder / folder))
            elif folder:
                files.setdefault(run_of(folder), []).append(path)
        named = {run for one in self._ancestors(LOADS) if (run := _summary(one).get(_RUN)) is not None}
        named |= runs_of_files(self.records_folder, merged)
        return {run: tuple(sorted(files.get(run, ()))) for run in sorted({*files, *named})}

    def branch_files(self, branch: str) -> BranchFiles:
        """Return what a branch names now."""
        return BranchFiles(self._table, self._head(branch))

    def files(self, branch: str, hours: Collection[int] | None = None) -> list[DataFile]:
        """Return the data files that a branch names now, of all hours or of these. Of `main`, readers may get less (`deletes`).

        Raises WarehouseError over a delete file of `loads`.
        """
        if branch == LOADS:
            self.refuse_deletes(LOADS)
        with reaching_store(self.data_folder):
            return self.branch_files(branch).files(hours)

    def deletes(self, branch: str, hours: Collection[int] | None = None) -> dict[int, list[DeleteFile]]:
        """Return hour → the delete files that may take rows from readers of the branch."""
        with reaching_store(self.data_folder):
            return self.branch_files(branch).deletes(hours)

    def refuse_deletes(self, branch: str) -> None:
        """Raise WarehouseError over a delete file."""
        for hour, found in self.deletes(branch).items():
            raise WarehouseError(
                f"table {self.topic!r}, branch {branch!r}: {found[0].path} is a delete file (merge-on-read) and takes rows of "
                f"{hour_name(hour)}, which cannot be read here: rewrite the data files (in Spark: `CALL rewrite_data_files`)"
            )

    def files_by_hour(self, branch: str, hours: Collection[int] | None = None) -> dict[int, list[DataFile]]:
        """Return hour since the epoch → the branch's files of it; all hours before 1970 are `BEFORE_1970`."""
        found: dict[int, list[DataFile]] = {}
        for file in self.files(branch, hours):
            found.setdefault(hour_of(file), []).append(file)
        return found

    def row_counts_by_hour(self, branch: str = LOADS) -> dict[int, int]:
        """Return hour since the epoch → rows, from the files' own metadata."""
        return {hour: sum(file.record_count for file in files) for hour, files in self.files_by_hour(branch).items()}

    def referenced_paths(self) -> set[StorePath]:
        """Return every data file that any snapshot of any branch names, whichever snapshot added it.

        A manifest outlives the snapshot that added it: later snapshots continue naming it after the first one has expired.
        """
        io = self._table.io
        with reaching_store(self.data_folder):
            manifests = {one.manifest_path: one for snapshot in self._table.metadata.snapshots for one in snapshot.manifests(io)}
            return {
                self.path_of(entry.data_file)
                for manifest in manifests.values()
                for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
            }

    def retire(self, runs: Collection[str]) -> set[str]:
        """Make sure that none of these runs' folders is committed from now on; return those that were committed before.

        A commit that is under way, on whichever machine, was begun from a head of `loads` that is none any more after this.
        """
        for _ in range(COMMIT_ATTEMPTS):
            named = {self.folder_of(path) for path in self.referenced_paths()} & set(runs)
            left = set(runs) - named - self.retired()
            summary = {_RETIRED: json.dumps(sorted(left)), **self.carried()}

            def empty(transaction: Any, summary: dict[str, str] = summary) -> None:
                with transaction.update_snapshot(snapshot_properties=summary, branch=LOADS).fast_append():
                    pass

            # After a conflict the answer is asked for again: one of them may have committed.
            if not left or self.commit(empty, still_wanted=lambda: False):
                return named
        raise WarehouseError(f"table {self.topic!r} is committed to so often that nothing can be cleaned up: try again")

    def retired(self) -> set[str]:
        texts = [_summary(one).get(_RETIRED, "[]") for one in self._table.metadata.snapshots]
        return {run for one in texts for run in json.loads(one)}

    def folder_of(self, path: StorePath) -> str:
        """Return the folder of a run or reload in which the file stands; empty for files of others."""
        name, _, file = below(path, self.data_folder).partition("/")
        return name if file else ""

    def _head(self, branch: str) -> Snapshot | None:
        return self._table.metadata.snapshot_by_name(branch)

    def _ancestors(self, branch: str) -> Iterator[Snapshot]:
        snapshot = self._head(branch)
        known: dict[int | None, Snapshot] = {}
        while snapshot is not None:
            yield snapshot
            known = known or {one.snapshot_id: one for one in self._table.metadata.snapshots}
            snapshot = known.get(snapshot.parent_snapshot_id)


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def reload_prefix(run: str) -> str:
    """Return how the names of folders begin that hold what a reload wrote for the run."""
    return run + _AGAIN


def is_reloaded(file: DataFile) -> bool:
    """Return whether a reload wrote the file."""
    return any(_AGAIN in part for part in file.file_path.split("/"))


def run_of(folder: str) -> str:
    """Return the load whose rows are in the folder of a load or a reload."""
    return folder.partition(_AGAIN)[0]
