"""What the count has read and reported of one table: `<warehouse>/loads/<topic>/counted.json`.

Bookkeeping, not truth: without it everything is read and reported again, which the audit recognises.
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
VERSION = 1

Facts = dict[str, FileFacts]
"""Path of a file → its facts."""


@dataclass(slots=True)
class Counted:
    """The state after the last count."""

    offsets: dict[int, int] = field(default_factory=dict)
    """Partition → offset up to which the audit was told."""
    runs: dict[str, Facts] = field(default_factory=dict)
    """Run → its files as they were reported."""
    others: Facts = field(default_factory=dict)
    """Files of the branch that no load wrote: somebody rewrote a load's files."""
    differing: dict[str, list[int]] = field(default_factory=dict)
    """Run → windows whose rows are not those that the load had decoded."""

    refused: dict[str, dict[int, int]] = field(default_factory=dict)
    """Run → window start → records with a schema that the table cannot hold."""

    def files(self) -> Facts:
        """Return every file that was counted."""
        found = dict(self.others)
        for facts in self.runs.values():
            found.update(facts)
        return found

    def write(self, folder: StorePath) -> None:
        words = {
            "v": VERSION,
            "offsets": {str(partition): offset for partition, offset in self.offsets.items()},
            "runs": {run: _words(facts) for run, facts in self.runs.items()},
            "others": _words(self.others),
            "differing": self.differing,
            "refused": self.refused,
        }
        replace(folder / NAME, json.dumps(words).encode())


@dataclass(slots=True)
class CountedView:
    """What a publish asks of the state: facts are made of those files only that it looks at."""

    files: Mapping[str, FileFacts]
    differing: Mapping[str, Sequence[int]]
    refused: Counter[int]
    """Hour since the epoch → records with a schema that the table cannot hold."""


class _Lazily(Mapping[str, FileFacts]):
    def __init__(self, parts: Iterable[Mapping[str, Any]]) -> None:
        self._words: dict[str, Any] = {}
        for one in parts:
            self._words.update(one)

    def __getitem__(self, path: str) -> FileFacts:
        return FileFacts.of_json(self._words[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)


def view_counted(folder: StorePath) -> CountedView:
    """Return the state of the table in this folder; an empty one if there is none, or none that can be read."""
    try:
        words = json.loads((folder / NAME).read_text())
        if words["v"] == VERSION:
            refused = Counter[int]()
            for windows in words.get("refused", {}).values():
                for start, count in windows.items():
                    refused[hour_of_window(int(start))] += count
            return CountedView(_Lazily([words["others"], *words["runs"].values()]), words["differing"], refused)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return CountedView({}, {}, Counter())


def read_counted(folder: StorePath) -> Counted:
    """Return the state of the table in this folder; an empty one if there is none, or none that can be read."""
    try:
        words = json.loads((folder / NAME).read_text())
        if words["v"] != VERSION:
            return Counted()
        return Counted(
            offsets={int(name): offset for name, offset in words["offsets"].items()},
            runs={run: _facts(files) for run, files in words["runs"].items()},
            others=_facts(words["others"]),
            differing={run: list(windows) for run, windows in words["differing"].items()},
            refused={
                run: {int(start): count for start, count in windows.items()} for run, windows in words.get("refused", {}).items()
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Counted()


def _words(facts: Mapping[str, FileFacts]) -> dict[str, object]:
    return {path: one.as_json() for path, one in facts.items()}


def _facts(words: Mapping[str, Mapping[str, object]]) -> Facts:
    return {path: FileFacts.of_json(one) for path, one in words.items()}
