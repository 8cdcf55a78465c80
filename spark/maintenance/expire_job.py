"""Old snapshots are forgotten, by age and number; then files that no snapshot names any more are deleted, after a grace period.

A file may be deleted if no living snapshot names it, whichever snapshot added it; if it is in no folder of a run that has a
lease; and if this was so at every look since the grace period began. Manifests of commits that are under way are young: young
files of the table's own are left alone whatever the grace period is. What was seen first when is in
`<warehouse>/loads/<topic>/unreferenced.json`: a file's own time says nothing, as one may be old and named until a minute ago.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_logger
from ..errors import NoSuchTable
from ..load.staging import sweep
from ..warehouse.commits.maintenance_commits import expire_snapshots
from ..warehouse.load_record import is_compaction
from ..warehouse.store import StorePath, below, files_under, reaching_store, replace
from ..warehouse.topic_table import TopicTable
from ..warehouse.warehouse import Warehouse
from .settings import ExpirySettings, max_snapshot_age_ms_of, min_snapshots_of

log = get_logger(__name__)

NAME = "unreferenced.json"
PROOFS = "headrace.proofs"
VERSION = 1
DATA = "data/"
RECORDS = "records/"
"""Of compactions, as `seen` names them. A lease is held before one is written."""
YOUNG_NS = 3_600 * 1_000_000_000
"""A commit writes its manifests some seconds before it is one."""


@dataclass(slots=True)
class ExpireOutcome:
    """What was forgotten and deleted."""

    topic: str
    snapshots_expired: int = 0
    snapshots_left: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    files_waiting: int = 0
    """Files that no snapshot names, and whose grace period is not over, or that the next run deletes."""


class ExpireJob:
    """One clean-up of one table; `run` may be called once."""

    def __init__(
        self, warehouse: Warehouse, topic: str | None, settings: ExpirySettings | None = None, *, clock: Clock | None = None
    ) -> None:
        """`topic`: None: of the table of all topics' proofs."""
        self._warehouse = warehouse
        self._topic = topic
        self._settings = settings or ExpirySettings()
        self._clock = clock or SystemClock()

    def run(self) -> ExpireOutcome:
        """Raises WarehouseError, CatalogUnreachable, StoreUnreachable."""
        outcome = ExpireOutcome(topic=self._topic or PROOFS)
        if self._table() is None:
            return outcome
        with self._warehouse.locked(f"compact-{self._topic or 'proofs'}"):
            if self._topic is not None:
                sweep(self._warehouse, self._topic)
            table = self._existing()
            asked = self._settings
            max_age_ms = max_snapshot_age_ms_of(table) if asked.max_age_ms is None else asked.max_age_ms
            least = min_snapshots_of(table) if asked.min_snapshots is None else asked.min_snapshots
            ids = expired(table.iceberg.metadata, now_ms=self._clock.now_ms(), max_age_ms=max_age_ms, min_snapshots=least)
            outcome.snapshots_expired = expire_snapshots(table, ids) if ids else 0
            outcome.snapshots_left = len(table.iceberg.metadata.snapshots)
            self._clean(outcome)
        return outcome

    def _clean(self, outcome: ExpireOutcome) -> None:
        now_ms = self._clock.now_ms()
        # First the files, then the leases, then the table: what is committed in between is named by the table.
        folder = self._existing().data_folder.parent
        there = {below(path, folder): path for path in files_under(folder)}
        prefix = f"run/{outcome.topic}/"
        leased = {one.name.removeprefix(prefix) for one in self._warehouse.leases.listed(prefix, is_prefix=True)}
        table = self._existing()
        named = named_files(table)
        orphans = {
            name: path for name, path in there.items() if str(path) not in named and _folder(table, path) not in leased
        } | self._records(table, named, leased)
        seen = _read_seen(table.records_folder)
        seen = {name: min(seen.get(name, now_ms), now_ms) for name in orphans}
        due = sorted(
            name
            for name, at_ms in seen.items()
            if at_ms <= now_ms - self._settings.grace_ms and (name.startswith((DATA, RECORDS)) or not _is_young(orphans[name]))
        )
        for name in due[: self._settings.most_files]:
            path = orphans[name]
            with suppress(FileNotFoundError):
                outcome.bytes_deleted += path.stat().st_size
            path.unlink(missing_ok=True)
            _remove_empty(path, below_folder=table.data_folder)
            outcome.files_deleted += 1
            del seen[name]
        outcome.files_waiting = len(seen)
        if seen or (table.records_folder / NAME).exists():
            replace(table.records_folder / NAME, json.dumps({"v": VERSION, "seen": seen}).encode())
        if outcome.files_deleted:
            log.info("unreferenced_files_deleted", topic=outcome.topic, files=outcome.files_deleted, bytes=outcome.bytes_deleted)

    def _table(self) -> TopicTable | None:
        return self._warehouse.proofs_table() if self._topic is None else self._warehouse.table(self._topic)

    def _existing(self) -> TopicTable:
        table = self._table()
        if table is None:
            raise NoSuchTable(self._topic or PROOFS, self._warehouse.topics())
        return table

    def _records(self, table: TopicTable, named: set[str], leased: set[str]) -> dict[str, StorePath]:
        """Return the records of compactions of which nothing is named any more."""
        folders = {_folder(table, path) for path in (table.path_of(one) for one in named) if _folder(table, path)}
        found: dict[str, StorePath] = {}
        for path in files_under(table.records_folder):
            name = path.name.removesuffix(".json")
            if is_compaction(name) and name not in folders and name not in leased:
                found[f"{RECORDS}{path.name}"] = path
        return found


def expired(metadata: Any, *, now_ms: int, max_age_ms: int, min_snapshots: int) -> list[int]:
    """Return the snapshots to forget: older than the age, not among the youngest of a branch, no head and no tag. Pure."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    kept: set[int] = set()
    for ref in metadata.refs.values():
        at, count = by_id.get(ref.snapshot_id), 0
        while at is not None and (count < min_snapshots if ref.snapshot_ref_type == "branch" else count == 0):
            kept.add(at.snapshot_id)
            at, count = by_id.get(at.parent_snapshot_id), count + 1
    return sorted(
        one.snapshot_id for one in metadata.snapshots if one.snapshot_id not in kept and one.timestamp_ms < now_ms - max_age_ms
    )


def named_files(table: TopicTable) -> set[str]:
    """Return every file that the table needs: data, manifests, their lists, statistics, and its own versions.

    A data file that a snapshot has deleted is named in that snapshot's manifests, and not needed for it.
    """
    metadata, io = table.iceberg.metadata, table.iceberg.io
    with reaching_store(table.data_folder):
        lists = {one.manifest_list for one in metadata.snapshots if one.manifest_list}
        manifests = {one.manifest_path: one for snapshot in metadata.snapshots for one in snapshot.manifests(io)}
        data = {
            entry.data_file.file_path
            for manifest in manifests.values()
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
        }
    versions = {table.iceberg.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
    statistics = {one.statistics_path for one in (*metadata.statistics, *metadata.partition_statistics)}
    return {str(table.path_of(one)) for one in lists | set(manifests) | data | versions | statistics}


def _folder(table: TopicTable, path: StorePath) -> str:
    return table.folder_of(path)


def _read_seen(folder: StorePath) -> Mapping[str, int]:
    """Return name → when it was first seen so; nothing if the file is not there, or is damaged: the grace begins again."""
    try:
        words = json.loads((folder / NAME).read_text())
        return {str(name): int(at) for name, at in words["seen"].items()} if words["v"] == VERSION else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_young(path: StorePath) -> bool:
    with suppress(FileNotFoundError):
        return time.time_ns() - path.stat().st_mtime_ns < YOUNG_NS
    return False


def _remove_empty(path: StorePath, *, below_folder: StorePath) -> None:
    """Delete the file's folders of this machine that are empty now."""
    parent = path.parent
    while isinstance(parent, Path) and below(parent, below_folder):
        try:
            parent.rmdir()
        except OSError:
            return
        parent = parent.parent
