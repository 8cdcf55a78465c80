"""Which files of a table a count has to read: those that are not as they were last reported."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...source.offset_ranges import OffsetRange
from ...warehouse.counted import Facts, read_counted
from ...warehouse.store import StorePath
from ...warehouse.topic_table import LOADS, MAIN, TopicTable
from ..load_ranges import load_ranges


@dataclass(frozen=True, slots=True)
class Load:
    """What is known of every load without its record."""

    run: str
    files: Sequence[StorePath]
    ranges: Sequence[OffsetRange]
    refused: Mapping[int, int]


class Plan:
    """What has to be read again."""

    def __init__(self, table: TopicTable, *, again: bool = False, rotten: Mapping[str, str] | None = None) -> None:
        table.look()
        self.before = read_counted(table.records_folder)
        self.rotten = self.before.rotten if rotten is None else rotten
        files = table.run_files()
        loads = load_ranges(table.records_folder, files, again=again)
        self.runs = {name: Load(name, files[name], one.ranges, one.refused) for name, one in loads.items()}
        self.main_snapshot_id = table.snapshot_id(MAIN)
        self.main_changed = self.main_snapshot_id != self.before.main_snapshot_id
        own = {path for run in self.runs.values() for path in run.files}
        named = Counter(map(table.path_of, table.files(LOADS)))
        self._named = {str(path) for path in named}
        self.twice = {str(path): times for path, times in named.items() if times > 1}
        self.others = sorted(path for path in named.elements() if path not in own)
        """Files of no single load: of a compaction, or written by others. One that the branch names twice is here twice."""
        known = self.before.others
        self.others_changed = [
            path
            for path in self.others
            if again or str(path) not in known or not known[str(path)].is_still(path) or self._is_odd(path)
        ]
        self.others_gone = [known[path] for path in known.keys() - set(map(str, self.others))]
        self.changed = [
            name
            for name, run in self.runs.items()
            if again
            or name not in self.before.runs
            or not _is_as_counted(run.files, self.before.runs[name])
            or any(map(self._is_odd, run.files))
        ]
        offsets = table.offsets()
        self.offsets = offsets
        self.rolled_back = [
            OffsetRange(partition=partition, from_offset=offsets.get(partition, 0), to_offset=end)
            for partition, end in sorted(self.before.offsets.items())
            if offsets.get(partition, 0) < end
        ]

    def has_new_on_main(self, table: TopicTable) -> bool:
        """Return whether `main` alone names a file that was never read."""
        known = self._named | self.before.main.keys()
        return self.main_changed and any(str(table.path_of(file)) not in known for file in table.files(MAIN))

    def _is_odd(self, path: StorePath) -> bool:
        """Return whether a file that looks unchanged must still be read again."""
        name, before = str(path), self.before
        return self.twice.get(name) != before.twice.get(name) or name in before.strays or name in self.rotten


def _is_as_counted(files: Sequence[StorePath], facts: Facts) -> bool:
    return {str(path) for path in files} == set(facts) and all(facts[str(path)].is_still(path) for path in files)
