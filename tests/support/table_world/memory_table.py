"""What pyiceberg stores of a table and of its proofs, in memory: two branches with their delete files, and revisions.

Its methods are those of `TopicTable`, `Proofs` and `Warehouse` that a publish calls.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.typedef import Record

from headrace.spark.warehouse.branch_files import Spans
from headrace.spark.warehouse.delete_files import DeleteFile
from headrace.spark.warehouse.hours import hour_of
from headrace.spark.warehouse.proofs import Mark, Proof
from headrace.spark.warehouse.topic_table import LOADS, MAIN

from .memory_files import MemoryFiles, MemoryPath


def data_file(path: str, hour: int, rows: int) -> DataFile:
    return DataFile.from_args(
        file_path=path, file_format=FileFormat.PARQUET, partition=Record(hour), record_count=rows, file_size_in_bytes=1
    )


@dataclass(frozen=True)
class Entry:
    """A data file on a branch, and the number of the commit that added it."""

    file: DataFile
    number: int


@dataclass(frozen=True)
class Delete:
    """A delete file on a branch, in the same way."""

    path: str
    hour: int
    number: int
    rows: int
    columns: tuple[str, ...] = ()

    def may_take_of(self, entry: Entry) -> bool:
        is_old = entry.number < self.number if self.columns else entry.number <= self.number
        return is_old and hour_of(entry.file) == self.hour


@dataclass(frozen=True)
class Branch:
    entries: tuple[Entry, ...] = ()
    deletes: tuple[Delete, ...] = ()


@dataclass
class MemoryTable:
    files_of: MemoryFiles
    branches: dict[str, Branch] = field(default_factory=lambda: {LOADS: Branch(), MAIN: Branch()})
    history: list[Branch] = field(default_factory=lambda: [Branch()])
    """What `main` was after each commit."""
    commits: int = 0
    last_publish: int = 0
    loaded_to: int = 0
    is_next_commit_wrong: bool = False
    topic: str = "clicks"

    @property
    def records_folder(self) -> MemoryPath:
        return self.files_of.path("loads/clicks")

    def look(self) -> None:
        return None

    def expired_through(self) -> None:
        return None

    def offsets(self) -> dict[int, int]:
        return {0: self.loaded_to}

    def path_of(self, file: DataFile | str) -> MemoryPath:
        return self.files_of.path(file if isinstance(file, str) else file.file_path)

    def stat(self, name: str) -> Any:
        return self.path_of(name).stat()

    def snapshot_id(self, branch: str) -> int:
        return self.commits

    def files(self, branch: str, hours: Collection[int] | None = None) -> list[DataFile]:
        return [one.file for one in self.branches[branch].entries if hours is None or hour_of(one.file) in hours]

    def files_by_hour(self, branch: str, hours: Collection[int] | None = None) -> dict[int, list[DataFile]]:
        found: dict[int, list[DataFile]] = {}
        for file in self.files(branch, hours):
            found.setdefault(hour_of(file), []).append(file)
        return found

    def deletes(self, branch: str, hours: Collection[int] | None = None) -> dict[int, list[DeleteFile]]:
        found: dict[int, list[DeleteFile]] = {}
        now = self.branches[branch]
        for one in sorted(now.deletes, key=lambda delete: delete.path):
            of = frozenset(entry.file.file_path for entry in now.entries if one.may_take_of(entry))
            if of and (hours is None or one.hour in hours):
                delete = DeleteFile(path=one.path, row_count=one.rows, of=of, columns=one.columns)
                found.setdefault(one.hour, []).append(delete)
        return found

    def branch_files(self, branch: str) -> "MemoryTable.Spans":
        return MemoryTable.Spans(branch, self.branches[branch])

    @dataclass(frozen=True)
    class Spans:
        """A manifest for each hour, with another name after each change."""

        name: str
        branch: Branch

        def spans(self, known: Mapping[str, Spans]) -> dict[str, Spans]:
            marks: dict[int, list[tuple[str, int]]] = {}
            for entry in self.branch.entries:
                marks.setdefault(hour_of(entry.file), []).append((entry.file.file_path, entry.number))
            for delete in self.branch.deletes:
                marks.setdefault(delete.hour, []).append((delete.path, delete.number))
            return {f"{self.name} {hour} {sorted(mine)}": ((hour, hour),) for hour, mine in marks.items()}

    def commit_publish(self, *, number: int, add: Sequence[DataFile], remove: Sequence[DataFile]) -> None:
        self.change(MAIN, add=[*add, *add] if self.is_next_commit_wrong else add, remove=[one.file_path for one in remove])
        self.last_publish, self.is_next_commit_wrong = number, False

    def change(
        self, branch: str, *, add: Sequence[DataFile] = (), remove: Collection[str] = (), deletes: Sequence[Delete] = ()
    ) -> None:
        """Commit: a snapshot more."""
        self.commits += 1
        now = self.branches[branch]
        left = tuple(one for one in now.entries if one.file.file_path not in remove)
        added = tuple(Entry(file, self.commits) for file in add)
        self.branches[branch] = Branch(left + added, now.deletes + tuple(deletes))
        if branch == MAIN:
            self.history.append(self.branches[MAIN])


@dataclass
class MemoryProofs:
    rows: list[Proof] = field(default_factory=list)

    def read(self, *, up_to_publish: int, hours: Collection[int] | None = None, words: bool = False) -> dict[int, list[Proof]]:
        found: dict[int, list[Proof]] = {}
        for one in sorted(self.rows, key=lambda proof: (proof.hour, proof.revision)):
            if one.publish <= up_to_publish and (hours is None or one.hour in hours):
                found.setdefault(one.hour, []).append(one)
        return found

    def last_marks(self, *, up_to_publish: int) -> dict[int, Mark]:
        last = {hour: mine[-1] for hour, mine in self.read(up_to_publish=up_to_publish).items()}
        return {hour: Mark(one.revision, one.verdict) for hour, one in last.items()}

    def discard_leftovers(self, *, after_publish: int) -> None:
        self.rows = [one for one in self.rows if one.publish <= after_publish]

    def append(self, proofs: Sequence[Proof]) -> None:
        self.rows += proofs


class MemoryWarehouse:
    home = None

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self._proofs = MemoryProofs()

    @property
    def folder(self) -> MemoryPath:
        return self._table.files_of.path("warehouse")

    def table(self, topic: str) -> MemoryTable:
        return self._table

    existing_table = table

    def proofs(self, topic: str) -> MemoryProofs:
        return self._proofs

    @contextmanager
    def locked(self, name: str) -> Iterator["MemoryWarehouse"]:
        yield self

    def check(self) -> None:
        """Hold the lease: nobody else is here."""
