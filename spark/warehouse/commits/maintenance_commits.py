"""Commits that change no row: files merged (and manifests: `manifest_bins`); and those that take rows or snapshots away by age.

    loads and main, one commit   a compaction: the same rows in other files. Operation `replace`, summary headrace.compacted
    loads and main, one commit   retention: hours dropped. Operation `delete`, summary headrace.expired-through on `loads`
    table                        snapshots expired

Traps of pyiceberg 0.12. A transaction keeps one assertion of each kind: of two branches that it changes only the first one's head
would be asked for, and a rollback of the other undone. Removed snapshots ask for nothing: a branch that is set back to one
of them meanwhile would be gone with it. So both are asked for here.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate

from ..hours import BEFORE_1970, hour_name
from ..store import StorePath, uri_of
from ..topic_table import LOADS, MAIN, TopicTable
from .overwrites import Overwrite

COMPACTED = "headrace.compacted"
EXPIRED_THROUGH = "headrace.expired-through"
PUBLISH = "headrace.publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Files of both branches in place of others. `add` go to `loads`; to `main` too if files of it are removed."""

    hour: int
    add: Sequence[StorePath]
    remove_loads: Sequence[DataFile]
    remove_main: Sequence[DataFile]


def commit_compaction(table: TopicTable, *, folder: str, hours: Sequence[Replacement], number: int | None) -> bool:
    """Put files in place of others on both branches at once. `number`: of the publish whose proofs name the new ones on `main`.

    Return False, and nothing is changed, if one of the old files was replaced meanwhile, if another process published, or if
    another process took over from this compaction.
    """
    gone = {branch: {file.file_path for one in hours for file in _removed(one, branch)} for branch in (LOADS, MAIN)}
    touched = [one.hour for one in hours]

    def still_wanted() -> bool:
        return (
            folder not in table.retired()
            and (number is None or table.last_publish == number - 1)
            and not table.deletes(MAIN, touched)
            and all(paths <= {file.file_path for file in table.files(branch, touched)} for branch, paths in gone.items() if paths)
        )

    def replace(transaction: Any) -> None:
        io, metadata = table.iceberg.io, transaction.table_metadata
        made = {path: parquet_file_to_data_file(io, metadata, uri_of(path)) for one in hours for path in one.add}
        words = {COMPACTED: json.dumps([hour_name(one.hour) for one in hours])}
        add = {LOADS: list(made.values()), MAIN: [made[path] for one in hours if one.remove_main for path in one.add]}
        remove = {branch: [file for one in hours for file in _removed(one, branch)] for branch in (LOADS, MAIN)}
        _change(transaction, LOADS, Operation.REPLACE, {**table.carried(), **words}, add[LOADS], remove[LOADS])
        if number is not None:
            transaction.set_properties({PUBLISH: str(number)})
            _change(transaction, MAIN, Operation.REPLACE, {PUBLISH: str(number), **words}, add[MAIN], remove[MAIN])

    return still_wanted() and table.commit(_with_heads(table, replace), still_wanted=still_wanted)


def commit_retention(table: TopicTable, *, through: int, number: int, remove: Mapping[str, Sequence[DataFile]]) -> bool:
    """Take files off their branches and note that all hours up to `through` have expired.

    Return False, and nothing is changed, if another process published or if a file came or went there meanwhile. `remove`: all
    files of these hours, by branch.
    """
    seen = {branch: {file.file_path for file in files} for branch, files in remove.items()}

    def still_wanted() -> bool:
        now = {branch: {file.file_path for file in table.files(branch, range(BEFORE_1970, through + 1))} for branch in seen}
        return table.last_publish == number - 1 and now == seen

    def drop(transaction: Any) -> None:
        before = table.expired_through()
        newest = through if before is None else max(before, through)
        words = {**table.carried(), EXPIRED_THROUGH: hour_name(newest)}
        _change(transaction, LOADS, Operation.DELETE, words, [], remove[LOADS])
        transaction.set_properties({PUBLISH: str(number)})
        if remove[MAIN]:
            _change(transaction, MAIN, Operation.DELETE, {PUBLISH: str(number)}, [], remove[MAIN])

    return still_wanted() and table.commit(_with_heads(table, drop), still_wanted=still_wanted)


def expire_snapshots(table: TopicTable, ids: Collection[int]) -> int:
    """Forget these snapshots, except heads of branches and tags; return how many. No file is deleted."""
    done: list[int] = []

    def expire(transaction: Any) -> None:
        metadata = transaction.table_metadata
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        done[:] = sorted({one.snapshot_id for one in metadata.snapshots} & set(ids) - heads)
        if done:
            transaction._stage((_made(RemoveSnapshotsUpdate, snapshot_ids=done),))

    # After a conflict the caller chooses again: what was an old snapshot may be a head by then.
    if not table.commit(_with_heads(table, expire), still_wanted=lambda: False):
        return 0
    return len(done)


def _removed(one: Replacement, branch: str) -> Sequence[DataFile]:
    return one.remove_loads if branch == LOADS else one.remove_main


def _change(
    transaction: Any,
    branch: str,
    told: Operation,
    words: dict[str, str],
    add: Sequence[DataFile],
    remove: Sequence[DataFile],
) -> None:
    with Overwrite(transaction, branch, words, told=told) as snapshot:
        for file in add:
            snapshot.append_data_file(file)
        for file in remove:
            snapshot.delete_data_file(file)


def _with_heads(table: TopicTable, change: Any) -> Any:
    """Return the change with the demand that every branch and tag still points to where it points now."""

    def changed(transaction: Any) -> None:
        refs = {name: ref.snapshot_id for name, ref in table.iceberg.metadata.refs.items()}
        change(transaction)
        asked = [one for one in transaction._requirements if not isinstance(one, AssertRefSnapshotId)]
        transaction._requirements = (*asked, *(_made(AssertRefSnapshotId, ref=name, snapshot_id=at) for name, at in refs.items()))

    return changed


def _made(kind: Any, **words: Any) -> Any:
    """Return a model of pyiceberg's, whose fields have another name to mypy."""
    return kind(**words)
