"""What one load did, written before the commit that names its files: `<warehouse>/loads/<topic>/<run>.json`.

It outlives the load's snapshot. It does not stand in the table's folder: another engine's removal of orphans deletes whatever it
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
    skipped: Mapping[int, Sequence[Skipped]] = field(default_factory=dict)
    """Offsets that could not be read, those before a range's begin included."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path inside the run's folder → SHA-256 of the bytes, as committed."""

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
            "quarantined": {
                partition: {start: [[one.first, one.count] for one in found] for start, found in windows.items()}
                for partition, windows in self.quarantined.items()
            },
            "skipped": {partition: [list(one) for one in found] for partition, found in self.skipped.items()},
            "files": dict(self.files),
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
            quarantined=_numbered(
                words["quarantined"],
                lambda windows: _numbered(windows, lambda found: tuple(Stretch(first, count) for first, count in found)),
            ),
            skipped=_numbered(words["skipped"], lambda found: tuple(Skipped(*one) for one in found)),
            files=words["files"],
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WarehouseError(
            f"{path} is no load's record ({type(error).__name__}: {error}): move it away, and what it said of this load is told "
            "by the files alone"
        ) from error


def read_records(folder: StorePath, runs: Sequence[str]) -> list[LoadRecord]:
    """Return the records of those runs that have one, in order. Raises WarehouseError if one cannot be read."""
    with ThreadPoolExecutor(READERS) as readers:
        return [one for one in readers.map(lambda run: read_record(folder, run), runs) if one is not None]


def _numbered(words: Mapping[str, Any], read: Any) -> dict[int, Any]:
    return {int(name): read(value) for name, value in words.items()}
