"""Manifests merged by hour: each commit leaves one, and a reader opens all that may name a file of the hours it wants.

Iceberg's own merge makes one file of all, so that a reader of the last hour reads the whole history, and each file that is
replaced has the whole history written again. Here 256 hours (a bin) have a manifest of their own. Bins that nothing was added to
stay as they are, so that a merge costs as much after years as on the first day. A manifest may hold hours of many bins (a load
of late rows): its entries are dealt out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles

from ..branch_files import BranchFiles
from ..hours import hour_of
from ..topic_table import LOADS, TopicTable

MERGED = "headrace.manifests-merged"
BIN_HOURS = 256
FULL_FILES = 8_000
"""A manifest of this many files stays as it is: about Iceberg's target of 8 MB."""


@dataclass(slots=True)
class Plan:
    """Which of a branch's manifests a merge takes on."""

    kept: list[ManifestFile] = field(default_factory=list)
    """Full ones, and those of which it is unknown the hours."""
    of_one: dict[int, list[ManifestFile]] = field(default_factory=dict)
    """Bin → manifests that hold files of this bin alone."""
    of_many: list[ManifestFile] = field(default_factory=list)

    @property
    def surplus(self) -> int:
        """How many manifests there are beyond one a bin."""
        return len(self.of_many) + sum(len(some) - 1 for some in self.of_one.values())


def plan(manifests: Sequence[ManifestFile], bounds: Mapping[str, tuple[int, int] | None]) -> Plan:
    """Return the plan. `bounds`: manifest → first and last hour, None: not known. Pure."""
    found = Plan()
    for one in manifests:
        span = bounds.get(one.manifest_path)
        if span is None:
            found.kept.append(one)
            continue
        first, last = (hour // BIN_HOURS for hour in span)
        if first != last:
            found.of_many.append(one)
        elif (one.added_files_count or 0) + (one.existing_files_count or 0) >= FULL_FILES:
            found.kept.append(one)
        else:
            found.of_one.setdefault(first, []).append(one)
    return found


def merge_manifests(table: TopicTable, branch: str, *, at_least: int) -> int:
    """Merge the branch's manifests by hour if there are so many to be merged; return how many there were; 0: nothing was done."""
    count, made = 0, _plan(table, branch)
    if made is not None:
        count = len(made.kept) + len(made.of_many) + sum(map(len, made.of_one.values()))
    if made is None or made.surplus + 1 < max(2, at_least):
        return 0

    def merge(transaction: Any) -> None:
        words = {MERGED: str(count), **(table.carried() if branch == LOADS else {})}
        with _Binned(transaction, branch, words, table):
            pass

    table.commit(merge, still_wanted=lambda: True)
    return count


def _plan(table: TopicTable, branch: str) -> Plan | None:
    head = table.iceberg.metadata.snapshot_by_name(branch)
    if head is None:
        return None
    files = table.branch_files(branch)
    some = [one for one in head.manifests(table.iceberg.io) if one.content == ManifestContent.DATA]
    return plan(some, {one.manifest_path: files.bounds(one) for one in some})


class _Binned(_FastAppendFiles):
    """A snapshot of a branch that names the same files in other manifests."""

    def __init__(self, transaction: Any, branch: str, words: dict[str, str], table: TopicTable) -> None:
        """`words`: into the snapshot's summary."""
        super().__init__(
            operation=Operation.APPEND,
            transaction=transaction,
            io=transaction._table.io,
            branch=branch,
            snapshot_properties=words,
        )
        self._files: BranchFiles = table.branch_files(branch)

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        data = [one for one in manifests if one.content == ManifestContent.DATA]
        others = [one for one in manifests if one.content != ManifestContent.DATA]
        made = plan(data, {one.manifest_path: self._files.bounds(one) for one in data})
        dealt: dict[tuple[int, int], list[ManifestEntry]] = {}
        for one in made.of_many:
            self._deal(one, dealt)
        touched = Counter(at for _, at in dealt)
        for at, some in made.of_one.items():
            if len(some) > 1 or touched[at]:
                for one in some:
                    self._deal(one, dealt)
            else:
                made.kept += some
        return made.kept + [self._written(spec_id, dealt[spec_id, at]) for spec_id, at in sorted(dealt)] + others

    def _deal(self, manifest: ManifestFile, dealt: dict[tuple[int, int], list[ManifestEntry]]) -> None:
        for entry in self.fetch_manifest_entry(manifest, discard_deleted=True):
            at = hour_of(entry.data_file) // BIN_HOURS
            dealt.setdefault((manifest.partition_spec_id, at), []).append(entry)

    def _written(self, spec_id: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for entry in sorted(entries, key=lambda one: (hour_of(one.data_file), one.data_file.file_path)):
                writer.existing(entry)
        return writer.to_manifest_file()
