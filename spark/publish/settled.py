"""What publishes have seen and need not look at again: `<warehouse>/loads/<topic>/settled.json`.

An hour is quiet if it was published and settled, the audit keeps no window of it any more, and since then neither branch has got
or lost a manifest with a file of it, its last proof is the same, and its files have the size that was proven and are older than
the proof. Such an hour would be kept as it is; so its manifests and proofs are not read. What is asked of every hour at every
publish: one look at each published file (`stat`), and the number of its last proof.

Bookkeeping only: without it every hour is checked, as in a first publish.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..warehouse.branch_files import Spans, hours_of
from ..warehouse.proofs import NOT_PUBLISHED, Mark, Proof
from ..warehouse.store import StorePath, replace
from ..warehouse.topic_table import LOADS, MAIN, TopicTable

NAME = "settled.json"
VERSION = 1
BRANCHES = (LOADS, MAIN)


class Quiet(NamedTuple):
    """A settled hour: its last proof, and its published files by size. (A tuple: there are ten thousand of them.)"""

    revision: int
    at_ms: int
    files: Mapping[str, int]
    """Path as the table names it → size that was proven."""

    @classmethod
    def of(cls, proof: Proof) -> "Quiet":
        return cls(proof.revision, proof.at_ms, {file.path: file.size_bytes for file in proof.files})

    def is_untouched(self, table: TopicTable) -> bool:
        """Return whether every file has the size that was proven and is older than its proof: then it was not written to.

        Raises StoreUnreachable.
        """
        at_ns = self.at_ms * 1_000_000
        try:
            for path, size_bytes in self.files.items():
                now = table.stat(path)
                if now.st_size != size_bytes or now.st_mtime_ns >= at_ns:
                    return False
        except OSError:
            return False
        return True


@dataclass(slots=True)
class Settled:
    """The hours that were settled when the branches had these manifests."""

    manifests: dict[str, dict[str, Spans]] = field(default_factory=lambda: {branch: {} for branch in BRANCHES})
    """Branch → manifest → hours of which it names files."""
    hours: dict[int, Quiet] = field(default_factory=dict)

    def write(self, folder: StorePath) -> None:
        words = {
            "v": VERSION,
            "manifests": self.manifests,
            "hours": self.hours,
        }
        replace(folder / NAME, json.dumps(words).encode())


def read_settled(folder: StorePath) -> Settled:
    """Return what was stored; nothing if there is none, or none that can be read: then every hour is checked."""
    try:
        words = json.loads((folder / NAME).read_text())
        if words["v"] != VERSION:
            return Settled()
        return Settled(
            manifests={branch: {path: _spans(one) for path, one in words["manifests"][branch].items()} for branch in BRANCHES},
            hours={int(hour): _quiet(*one) for hour, one in words["hours"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Settled()


def _quiet(revision: int, at_ms: int, files: dict[str, int]) -> Quiet:
    if type(files) is not dict:
        raise TypeError(f"{files!r} are not files")
    return Quiet(revision, at_ms, files)


def _spans(words: Iterable[Any]) -> Spans:
    return tuple((int(first), int(last)) for first, last in words)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a publish must check, and what it may skip."""

    manifests: dict[str, dict[str, Spans]]
    """As they are now."""
    quiet: dict[int, Quiet]
    busy: set[int]
    """Every other hour of which there is a file or a proof."""


def look(table: TopicTable, before: Settled, marks: Mapping[int, Mark], *, asked: Collection[int]) -> Seen:
    """Return what has changed since `before`. `asked`: hours to be checked in any case."""
    manifests = {branch: table.branch_files(branch).spans(before.manifests[branch]) for branch in BRANCHES}
    known: set[int] = set(marks)
    changed: set[int] = set(asked)
    for branch, now in manifests.items():
        then = before.manifests[branch]
        known |= hours_of(span for spans in now.values() for span in spans)
        changed |= hours_of(span for path in now.keys() ^ then.keys() for span in now.get(path, then.get(path, ())))
    quiet = {
        hour: one
        for hour, one in before.hours.items()
        if hour not in changed and _is_last(one, marks.get(hour)) and one.is_untouched(table)
    }
    return Seen(manifests, quiet, known - quiet.keys())


def _is_last(quiet: Quiet, last: Mark | None) -> bool:
    return last is not None and last.revision == quiet.revision and last.verdict not in NOT_PUBLISHED
