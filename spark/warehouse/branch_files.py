"""Which data files a branch names, read from its manifests; of some hours, from those that may name files of them.

A manifest never changes and its name is never used again. So who has noted of which hours a manifest names files (`spans`) need
not open it to know what has changed since. A manifest that another engine partitioned otherwise is always opened. Delete files
are in manifests of their own (`delete_files`).
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import HourTransform
from pyiceberg.types import IntegerType
from pyiceberg.utils.concurrent import ExecutorFactory

from .delete_files import DeleteFile, may_take_of
from .hours import BEFORE_1970, hour_of

Spans = tuple[tuple[int, int], ...]
"""Hours in order, as runs without a gap: the first and the last one of each."""


class BranchFiles:
    """One snapshot of one branch."""

    def __init__(self, table: Table, snapshot: Snapshot | None) -> None:
        self._table = table
        self._snapshot = snapshot

    def manifests(self, content: ManifestContent = ManifestContent.DATA) -> list[ManifestFile]:
        """Return the manifests that name files now; one file is read."""
        return [one for one in self._all() if one.content == content]

    def files(self, hours: Collection[int] | None = None) -> list[DataFile]:
        """Return the data files; `hours`: those of these hours only."""
        return [entry.data_file for entry in self._data(hours)]

    def deletes(self, hours: Collection[int] | None = None) -> dict[int, list[DeleteFile]]:
        """Return hour → the delete files that may take rows of its data files; `hours`: of these only."""
        named = [
            (manifest, entry) for manifest, entries in self._entries(self.manifests(ManifestContent.DELETES)) for entry in entries
        ]
        data: dict[int, list[ManifestEntry]] = {}
        for entry in self._data(hours) if named else ():
            data.setdefault(hour_of(entry.data_file), []).append(entry)
        found: dict[int, list[DeleteFile]] = {}
        for manifest, entry in named:
            for hour in [hour_of(entry.data_file)] if self._is_by_hour(manifest) else sorted(data):
                of = frozenset(one.data_file.file_path for one in data.get(hour, ()) if may_take_of(entry, one))
                if of:
                    found.setdefault(hour, []).append(self._delete(entry.data_file, of))
        return {hour: sorted(mine, key=lambda one: one.path) for hour, mine in found.items()}

    def spans(self, known: Mapping[str, Spans]) -> dict[str, Spans]:
        """Return manifest → hours of its files, of delete files too; a manifest that is `known` is not opened."""
        wanted = self._all()
        read: dict[str, Spans] = {}
        for manifest, entries in self._entries([one for one in wanted if one.manifest_path not in known]):
            if manifest.content == ManifestContent.DELETES and not self._is_by_hour(manifest):
                entries = self._data(None)  # of any hour
            read[manifest.manifest_path] = spans_of(hour_of(entry.data_file) for entry in entries)
        return {path: read[path] if path in read else known[path] for path in (one.manifest_path for one in wanted)}

    def bounds(self, manifest: ManifestFile) -> tuple[int, int] | None:
        """Return the first and the last hour of the manifest's files, from the list of manifests; None: it does not say."""
        summaries = manifest.partitions
        if not self._is_by_hour(manifest) or not summaries:
            return None
        lower, upper = summaries[0].lower_bound, summaries[0].upper_bound
        if lower is None or upper is None or summaries[0].contains_null:
            return None
        first, last = (int(from_bytes(IntegerType(), one)) for one in (lower, upper))
        return max(first, BEFORE_1970), max(last, BEFORE_1970)

    def _is_by_hour(self, manifest: ManifestFile) -> bool:
        spec = self._table.specs().get(manifest.partition_spec_id)
        return spec is not None and bool(spec.fields) and isinstance(spec.fields[0].transform, HourTransform)

    def _all(self) -> list[ManifestFile]:
        if self._snapshot is None:
            return []
        return [one for one in self._snapshot.manifests(self._table.io) if one.has_added_files() or one.has_existing_files()]

    def _data(self, hours: Collection[int] | None) -> list[ManifestEntry]:
        wanted = self.manifests()
        if hours is None:
            return [entry for _, entries in self._entries(wanted) for entry in entries]
        ordered = hours if isinstance(hours, range) else sorted(hours)
        members = hours if isinstance(hours, range) else set(hours)
        near = [one for one in wanted if (span := self.bounds(one)) is None or _any_in(ordered, *span)]
        return [entry for _, entries in self._entries(near) for entry in entries if hour_of(entry.data_file) in members]

    def _entries(self, manifests: Sequence[ManifestFile]) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
        def entries(manifest: ManifestFile) -> list[ManifestEntry]:
            return manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)

        return list(zip(manifests, ExecutorFactory.get_or_create().map(entries, manifests), strict=True))

    def _delete(self, file: DataFile, of: frozenset[str]) -> DeleteFile:
        schema = self._table.schema()
        columns = tuple(schema.find_column_name(one) or str(one) for one in file.equality_ids or ())
        return DeleteFile(path=file.file_path, row_count=file.record_count, of=of, columns=columns)


def spans_of(hours: Iterable[int]) -> Spans:
    """Return the hours as runs without a gap."""
    found: list[list[int]] = []
    for hour in sorted(set(hours)):
        if found and found[-1][1] == hour - 1:
            found[-1][1] = hour
        else:
            found.append([hour, hour])
    return tuple((first, last) for first, last in found)


def hours_of(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {hour for first, last in spans for hour in range(first, last + 1)}


def _any_in(ordered: Sequence[int], first: int, last: int) -> bool:
    at = bisect_left(ordered, first)
    return at < len(ordered) and ordered[at] <= last
