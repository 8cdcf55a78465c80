"""What the count has read and reported of one table: `<warehouse>/loads/<topic>/counted.json`.

Bookkeeping, not truth: without it everything is read and reported again, which the audit recognises. A line a file, so that a
publish reads what it asks for: of ten thousand files JSON alone takes longer than all else. Version 1 was one JSON object.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .file_rows import FileFacts
from .hours import hour_of_window
from .store import StorePath, replace

NAME = "counted.json"
VERSION = 2

Facts = dict[str, FileFacts]
"""Path of a file → its facts."""


@dataclass(slots=True)
class Counted:
    """The state after the last count."""

    offsets: dict[int, int] = field(default_factory=dict)
    """Partition → offset up to which rows are reported to the audit."""
    runs: dict[str, Facts] = field(default_factory=dict)
    """Run → its files as they were reported."""
    others: Facts = field(default_factory=dict)
    """Files of the branch that no load wrote: others rewrote a load's files."""
    differing: dict[str, list[int]] = field(default_factory=dict)
    """Run → windows whose rows are not those that the load had decoded."""

    refused: dict[str, dict[int, int]] = field(default_factory=dict)
    """Run → window start → records with a schema that the table cannot hold."""
    twice: dict[str, int] = field(default_factory=dict)
    """File that the branch names more than once → how often."""
    strays: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """File → partition and offsets from, to, that were reported of it and are of no load."""
    rotten: dict[str, str] = field(default_factory=dict)
    """File of either branch whose bytes have changed, though its size and time have not → the mark of the right ones."""
    main: Facts = field(default_factory=dict)
    """Files that only the branch `main` names: others have rewritten published ones."""
    main_snapshot_id: int | None = None
    """The snapshot of `main` that was checked."""

    def files(self) -> Facts:
        """Return every file that was counted."""
        found = {**self.main, **self.others}
        for facts in self.runs.values():
            found.update(facts)
        return found

    def write(self, folder: StorePath) -> None:
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        header = {"v": VERSION, "offsets": offsets, "runs": [*self.runs], "differing": self.differing, "refused": self.refused}
        header |= {"twice": self.twice, "strays": self.strays, "rotten": self.rotten}
        header["main"] = self.main_snapshot_id
        lines = [json.dumps(header)]
        for run, facts in (*self.runs.items(), ("", self.others), (None, self.main)):
            name = json.dumps(run)
            lines += [f"{name}\t{json.dumps(path)}\t{json.dumps(one.as_json())}" for path, one in facts.items()]
        replace(folder / NAME, ("\n".join(lines) + "\n").encode())


@dataclass(slots=True)
class CountedView:
    """What a publish asks of the state: facts are made of those files only that it looks at."""

    files: Mapping[str, FileFacts]
    differing: Mapping[str, Sequence[int]]
    refused: Counter[int]
    """Hour since the epoch → records with a schema that the table cannot hold."""
    rotten: frozenset[str] = frozenset()


class _Lazily(Mapping[str, FileFacts]):
    def __init__(self, lines: Iterable[str]) -> None:
        self._texts = {path: facts for _, path, facts in map(_parted, lines)}

    def __getitem__(self, path: str) -> FileFacts:
        return FileFacts.of_json(json.loads(self._texts[json.dumps(path)]))

    def __iter__(self) -> Iterator[str]:
        return map(json.loads, self._texts)

    def __len__(self) -> int:
        return len(self._texts)


_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)


def view_counted(folder: StorePath) -> CountedView:
    """Return the state of the table in this folder; an empty one if there is none, or none that can be read."""
    try:
        header, lines = _lines(folder)
        if header["v"] != VERSION:
            before = read_counted(folder)
            return CountedView(before.files(), before.differing, _refused_by_hour(before.refused))
        rotten = frozenset(header.get("rotten", ()))
        return CountedView(_Lazily(lines), header["differing"], _refused_by_hour(header["refused"]), rotten)
    except _DAMAGED:
        return CountedView({}, {}, Counter())


def read_counted(folder: StorePath) -> Counted:
    """Return the state of the table in this folder; an empty one if there is none, or none that can be read."""
    try:
        header, lines = _lines(folder)
        if header["v"] not in (1, VERSION):
            return Counted()
        found = Counted(
            offsets={int(name): offset for name, offset in header["offsets"].items()},
            differing={run: list(windows) for run, windows in header["differing"].items()},
            refused={
                run: {int(start): count for start, count in windows.items()} for run, windows in header.get("refused", {}).items()
            },
        )
        found.twice = {path: int(times) for path, times in header.get("twice", {}).items()}
        found.strays = {path: [(p, a, b) for p, a, b in mine] for path, mine in header.get("strays", {}).items()}
        found.rotten, found.main_snapshot_id = dict(header.get("rotten", {})), header.get("main")
        if header["v"] == 1:
            found.runs = {run: _facts(files) for run, files in header["runs"].items()}
            found.others = _facts(header["others"])
            return found
        found.runs = {run: {} for run in header["runs"]}
        for run, path, facts in map(_parted, lines):
            name = json.loads(run)
            (found.main if name is None else found.runs[name] if name else found.others)[json.loads(path)] = FileFacts.of_json(
                json.loads(facts)
            )
        return found
    except _DAMAGED:
        return Counted()


def _lines(folder: StorePath) -> tuple[dict[str, Any], list[str]]:
    """Return the first line, and the others. Raises ValueError for a file that was cut off."""
    header, _, rest = (folder / NAME).read_text().partition("\n")
    if rest and not rest.endswith("\n"):
        raise ValueError(f"{NAME} ends in the middle of a line")
    return json.loads(header), rest.split("\n")[:-1]


def _parted(line: str) -> tuple[str, str, str]:
    run, path, facts = line.split("\t")
    return run, path, facts


def _refused_by_hour(refused: Mapping[str, Mapping[Any, int]]) -> Counter[int]:
    found = Counter[int]()
    for windows in refused.values():
        for start, count in windows.items():
            found[hour_of_window(int(start))] += count
    return found


def _facts(words: Mapping[str, Mapping[str, object]]) -> Facts:
    return {path: FileFacts.of_json(one) for path, one in words.items()}
