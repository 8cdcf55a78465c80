"""What one load did, written before the commit that names its files: `<warehouse>/loads/<topic>/<run>.json`.

And of which loads a compaction's files hold rows: `<its folder>.json` beside it. A load whose files were all merged has no file
of its own any more, and after a while no snapshot: this is how it is found.

It outlives the load's snapshot. It is not in the table's folder: another engine's removal of orphans deletes whatever it
does not know there. Layout: docs/FORMATS.md.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ...audit.model.messages import Skipped, Stretch
from ..errors import WarehouseError
from ..source.offset_ranges import OffsetRange
from .store import StorePath, replace

VERSION = 1
COMPACTION_VERSION = 1
PREFIX = "compacted-"
"""How the names of compactions' folders begin."""
READERS = 16
"""An object store takes its time for each file, and takes many at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """One load. Partition → window start → …"""

    run: str
    ranges: tuple[OffsetRange, ...]
    row_count: int
    digests: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Of the rows, taken before Spark had them."""
    quarantined: Mapping[int, Mapping[int, Sequence[Stretch]]] = field(default_factory=dict)
    refused: Mapping[int, int] = field(default_factory=dict)
    """Window start → how many of the quarantined records have a schema that the table cannot hold."""
    skipped: Mapping[int, Sequence[Skipped]] = field(default_factory=dict)
    """Offsets that could not be read, those before a range's begin included."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path inside the run's folder → SHA-256 of the bytes, as committed."""
    expired: Mapping[int, Mapping[int, Sequence[Stretch]]] = field(default_factory=dict)
    """Records that were rows until retention dropped their hours; good for the hours that the table says have expired."""

    def write(self, folder: StorePath) -> None:
        words = {
            "v": VERSION,
            "run": self.run,
            "ranges": [[one.partition, one.from_offset, one.to_offset] for one in self.ranges],
            "row_count": self.row_count,
            "digests": {
                partition: {start: f"{digest:032x}" for start, digest in windows.items()}
                for partition, windows in self.digests.items()
            },
            "quarantined": _stretches(self.quarantined),
            "skipped": {partition: [list(one) for one in found] for partition, found in self.skipped.items()},
            "files": dict(self.files),
            **({"refused": dict(self.refused)} if self.refused else {}),
            **({"expired": _stretches(self.expired)} if self.expired else {}),
        }
        replace(folder / f"{self.run}.json", json.dumps(words).encode())


def read_record(folder: StorePath, run: str) -> LoadRecord | None:
    """Return the record of a run, None if there is none. Raises WarehouseError if it cannot be read."""
    path = folder / f"{run}.json"
    try:
        words = json.loads(path.read_text())
        return LoadRecord(
            run=words["run"],
            ranges=tuple(OffsetRange(partition=p, from_offset=begin, to_offset=end) for p, begin, end in words["ranges"]),
            row_count=words["row_count"],
            digests=_numbered(words["digests"], lambda windows: _numbered(windows, lambda text: int(text, 16))),
            quarantined=_of_stretches(words["quarantined"]),
            skipped=_numbered(words["skipped"], lambda found: tuple(Skipped(*one) for one in found)),
            files=words["files"],
            refused=_numbered(words.get("refused", {}), int),
            expired=_of_stretches(words.get("expired", {})),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WarehouseError(
            f"{path} is not a load's record ({type(error).__name__}: {error}): move it away; the load will be "
            "described from its files"
        ) from error


def read_records(folder: StorePath, runs: Sequence[str]) -> list[LoadRecord]:
    """Return the records of those runs that have one, in order. Raises WarehouseError if one cannot be read."""
    with ThreadPoolExecutor(READERS) as readers:
        return [one for one in readers.map(lambda run: read_record(folder, run), runs) if one is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """One commit of a compaction."""

    folder: str
    """Its name."""
    runs: Mapping[str, Sequence[str]]
    """Path inside the folder → loads of which it may hold rows."""
    replaced: Mapping[str, Sequence[str]]
    """Name of an hour → the files, as the table named them, whose rows are in the new ones."""

    def write(self, folder: StorePath) -> None:
        words = {
            "v": COMPACTION_VERSION,
            "compaction": self.folder,
            "runs": {path: sorted(runs) for path, runs in self.runs.items()},
            "replaced": {hour: sorted(paths) for hour, paths in self.replaced.items()},
        }
        replace(folder / f"{self.folder}.json", json.dumps(words).encode())


def is_compaction(folder: str) -> bool:
    """Return whether a folder beside those of the runs is a compaction's."""
    return folder.startswith(PREFIX)


def read_compaction(records: StorePath, folder: str) -> CompactionRecord | None:
    """Return the record of a compaction's folder; None if there is none. Raises WarehouseError if it cannot be read."""
    path = records / f"{folder}.json"
    try:
        words = json.loads(path.read_text())
        return CompactionRecord(folder=words["compaction"], runs=dict(words["runs"]), replaced=dict(words["replaced"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WarehouseError(
            f"{path} is not a compaction's record ({type(error).__name__}: {error}): restore it; without it, it is "
            "unknown which loads its files hold rows of"
        ) from error


def runs_of_files(records: StorePath, files: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the loads of which rows may be in these files: a compaction's folder → paths in it."""
    with ThreadPoolExecutor(READERS) as readers:
        found = list(readers.map(lambda folder: read_compaction(records, folder), sorted(files)))
    return {run for one in found if one is not None for path in files[one.folder] for run in one.runs.get(path, ())}


def _stretches(found: Mapping[int, Mapping[int, Sequence[Stretch]]]) -> dict[int, dict[int, list[list[int]]]]:
    return {
        partition: {start: [[one.first, one.count] for one in some] for start, some in windows.items()}
        for partition, windows in found.items()
    }


def _of_stretches(words: Any) -> dict[int, dict[int, tuple[Stretch, ...]]]:
    return _numbered(words, lambda windows: _numbered(windows, lambda some: tuple(Stretch(*one) for one in some)))


def _numbered(words: Mapping[str, Any], read: Any) -> dict[int, Any]:
    return {int(name): read(value) for name, value in words.items()}
