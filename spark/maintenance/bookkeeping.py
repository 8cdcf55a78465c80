"""What the load records say about files that a compaction or retention removes."""

from collections.abc import Collection, Mapping, Sequence

from pyiceberg.manifest import DataFile

from ..warehouse.counted import Facts, read_counted
from ..warehouse.file_rows import in_range, read_file
from ..warehouse.load_record import is_compaction, read_compaction
from ..warehouse.store import StorePath, below
from ..warehouse.topic_table import TopicTable, run_of


def carry_over(records: StorePath, hours: Sequence[tuple[Sequence[StorePath], Facts]]) -> None:
    """Have the count know hours' new files in place of the old ones that it had read: it then reads and reports nothing again.

    Where it had not read them all nothing is changed, and the next count reads the new ones.
    """
    counted = read_counted(records)
    known = counted.files().keys()
    done = [(set(map(str, old)), new) for old, new in hours if {str(path) for path in old} <= known]
    gone = {path for old, _ in done for path in old}
    if gone:
        counted.runs = {run: _without(facts, gone) for run, facts in counted.runs.items()}
        counted.others = _without(counted.others, gone)
        for _, new in done:
            counted.others |= new
        counted.write(records)


def forget_files(records: StorePath, old: Sequence[StorePath]) -> None:
    """Have the count forget files that are gone on purpose: else it would read their loads again."""
    counted = read_counted(records)
    gone = set(map(str, old))
    if gone & counted.files().keys():
        counted.runs = {run: _without(facts, gone) for run, facts in counted.runs.items()}
        counted.others = _without(counted.others, gone)
        counted.write(records)


def _without(facts: Facts, gone: Collection[str]) -> Facts:
    return {path: one for path, one in facts.items() if path not in gone}


def loads_of_files(table: TopicTable, files: Sequence[DataFile]) -> set[str]:
    """Return the loads of which rows are in the files. Raises WarehouseError, FileNotFoundError."""
    found: set[str] = set()
    for path in {table.path_of(file) for file in files}:
        folder = table.folder_of(path)
        record = read_compaction(table.records_folder, folder) if is_compaction(folder) else None
        if record is not None:
            found |= set(record.runs.get(below(path, table.data_folder / folder), ()))
        elif folder:
            found.add(run_of(folder))
        else:
            found |= _by_offsets(table, path)
    return found


def _by_offsets(table: TopicTable, path: StorePath) -> set[str]:
    """Return the loads whose rows another engine has put into the file."""
    rows = read_file(path)[1]
    ranges: Mapping[str, Sequence[object]] = {run.record.run: run.record.ranges for run in table.runs()}
    return {run for run, mine in ranges.items() if any(in_range(rows, one).any() for one in mine)}  # type: ignore[arg-type]
