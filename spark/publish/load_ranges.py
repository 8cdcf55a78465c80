"""From which offsets each load is, without reading every load's record: `<warehouse>/loads/<topic>/ranges.json`.

Every count asks this of every load in the table's life. A record is read once, and again when its file has another size or time
of change: a look at the folder tells, which an object store answers for a thousand files at once, while each record is a request.

Bookkeeping, not truth: without it every record is read.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..source.offset_ranges import OffsetRange
from ..warehouse.load_record import LoadRecord, read_records
from ..warehouse.store import StorePath, files_under, replace

NAME = "ranges.json"
VERSION = 1
_MAY_CHANGE_UNSEEN_NS = 2_000_000_000
"""An object store tells the time of a change in whole seconds: a younger record could be replaced without another time."""

Stamp = tuple[int, int]
"""Size and time of change of a record's file."""


@dataclass(frozen=True, slots=True)
class LoadRanges:
    """What is asked of every load."""

    ranges: tuple[OffsetRange, ...]
    refused: Mapping[int, int]
    """Window start → records with a schema that the table cannot hold."""

    @classmethod
    def of(cls, record: LoadRecord) -> "LoadRanges":
        return cls(record.ranges, dict(record.refused))

    def as_json(self) -> list[Any]:
        return [[list(one) for one in ((r.partition, r.from_offset, r.to_offset) for r in self.ranges)], self.refused]

    @classmethod
    def of_json(cls, words: list[Any]) -> "LoadRanges":
        ranges, refused = words
        return cls(
            tuple(OffsetRange(partition=p, from_offset=begin, to_offset=end) for p, begin, end in ranges),
            {int(start): count for start, count in refused.items()},
        )


def load_ranges(records: StorePath, runs: Iterable[str], *, again: bool = False) -> dict[str, LoadRanges]:
    """Return run → its ranges, for those of the runs that have a record, by name. `again`: read every record.

    Raises WarehouseError for a record that cannot be read, StoreUnreachable.
    """
    now_ns, there = time.time_ns(), _stamps(records)
    before = {} if again else _noted(records)
    wanted = sorted(run for run in runs if run in there)
    known = {run: before[run] for run in wanted if run in before and before[run][0] == there[run]}
    read = {one.run: LoadRanges.of(one) for one in read_records(records, [run for run in wanted if run not in known])}
    known |= {run: (there[run], one) for run, one in read.items()}
    notes = {run: one for run, one in known.items() if one[0][1] < now_ns - _MAY_CHANGE_UNSEEN_NS}
    if notes.keys() != before.keys() or not read.keys().isdisjoint(notes):
        words = {"v": VERSION, "loads": {run: [*stamp, *one.as_json()] for run, (stamp, one) in sorted(notes.items())}}
        replace(records / NAME, json.dumps(words).encode())
    return {run: known[run][1] for run in sorted(known)}


def _stamps(records: StorePath) -> dict[str, Stamp]:
    found: dict[str, Stamp] = {}
    for path in files_under(records):
        try:
            now = path.stat()
        except FileNotFoundError:
            continue
        found[path.name.removesuffix(".json")] = (now.st_size, now.st_mtime_ns)
    return found


def _noted(records: StorePath) -> dict[str, tuple[Stamp, LoadRanges]]:
    try:
        words = json.loads((records / NAME).read_text())
        if words["v"] != VERSION:
            return {}
        return {run: ((size, at_ns), LoadRanges.of_json(one)) for run, (size, at_ns, *one) in words["loads"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
