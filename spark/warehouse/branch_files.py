"""Which data files a branch names, read from its manifests; of some hours, from those that may name files of them.

A manifest never changes and its name is never used again. So who has noted of which hours a manifest names files (`spans`) need
not open it to know what has changed since. A manifest that another engine partitioned otherwise is always opened.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import HourTransform
from pyiceberg.types import IntegerType
from pyiceberg.utils.concurrent import ExecutorFactory

from ..errors import WarehouseError
from .hours import BEFORE_1970, hour_of

Spans = tuple[tuple[int, int], ...]
"""Hours in order, as runs without a gap: the first and the last one of each."""


class BranchFiles:
    """One snapshot of one branch."""

    def __init__(self, table: Table, snapshot: Snapshot | None, *, what: str) -> None:
        """`what`: the branch, in words, for errors."""
        self._table = table
        self._snapshot = snapshot
        self._what = what

    def manifests(self) -> list[ManifestFile]:
        """Return the manifests that name files now; one file is read. Raises WarehouseError if one names a delete file."""
        if self._snapshot is None:
            return []
        found = [one for one in self._snapshot.manifests(self._table.io) if one.has_added_files() or one.has_existing_files()]
        if any(one.content == ManifestContent.DELETES for one in found):
            self._refuse_deletes()
        return [one for one in found if one.content == ManifestContent.DATA]

    def files(self, hours: Collection[int] | None = None) -> list[DataFile]:
        """Return the data files; `hours`: those of these hours only. Raises WarehouseError if one has a delete file."""
        wanted = self.manifests()
        if hours is None:
            return [file for some in self._read(wanted) for file in some]
        ordered = hours if isinstance(hours, range) else sorted(hours)
        members = hours if isinstance(hours, range) else set(hours)
        near = [one for one in wanted if (span := self.bounds(one)) is None or _any_in(ordered, *span)]
        return [file for some in self._read(near) for file in some if hour_of(file) in members]

    def spans(self, known: Mapping[str, Spans]) -> dict[str, Spans]:
        """Return manifest → hours of its files; a manifest that is `known` is not opened."""
        wanted = self.manifests()
        new = [one for one in wanted if one.manifest_path not in known]
        read = {one.manifest_path: spans_of(map(hour_of, files)) for one, files in zip(new, self._read(new), strict=True)}
        return {path: read[path] if path in read else known[path] for path in (one.manifest_path for one in wanted)}

    def bounds(self, manifest: ManifestFile) -> tuple[int, int] | None:
        """Return the first and the last hour of the manifest's files, from the list of manifests; None: it does not say."""
        spec = self._table.specs().get(manifest.partition_spec_id)
        summaries = manifest.partitions
        if spec is None or not spec.fields or not isinstance(spec.fields[0].transform, HourTransform) or not summaries:
            return None
        lower, upper = summaries[0].lower_bound, summaries[0].upper_bound
        if lower is None or upper is None or summaries[0].contains_null:
            return None
        first, last = (int(from_bytes(IntegerType(), one)) for one in (lower, upper))
        return max(first, BEFORE_1970), max(last, BEFORE_1970)

    def _read(self, manifests: Sequence[ManifestFile]) -> list[list[DataFile]]:
        def files(manifest: ManifestFile) -> list[DataFile]:
            return [entry.data_file for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)]

        return list(ExecutorFactory.get_or_create().map(files, manifests))

    def _refuse_deletes(self) -> None:
        assert self._snapshot is not None
        tasks = self._table.scan(snapshot_id=self._snapshot.snapshot_id).plan_files()
        merged = next((task for task in tasks if task.delete_files), None)
        if merged is not None:
            raise WarehouseError(
                f"{self._what}: {merged.file.file_path} has a delete file (merge-on-read): rewrite its data files first; rows "
                "are proven file by file"
            )


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
