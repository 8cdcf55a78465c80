"""Which process may commit a group's offsets: the broker that claimed the group last.

A claim is a node, /consumers/{group}/coordinator/{process}-{number}, without data. A new claim replaces the one before in one
transaction, and its name is never used again. A commit is one transaction too: it checks that its claim is still there. So of two
brokers that both believe that they coordinate a group only one commits, also when a commit arrives late.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import paths
from .committed_offset import CommittedOffset
from .errors import CoordinationError, NotClaimed, VersionConflict
from .operations import Check, Create, Delete, Operation, Write
from .session import Session

ATTEMPTS = 5
"""How often a claim or a commit starts over because the nodes below the group have changed."""
CHUNK = 500
"""Offsets of one transaction. The request stays far below the server's limit on its size."""
MOST_HELD = 10_000
"""Claims that are remembered; the one that was used least recently is forgotten for another."""

Position = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """Offsets of a group that land only while `claim` is the group's. None: this process claims the group for it."""

    group: str
    claim: str | None
    offsets: Mapping[Position, CommittedOffset]


class GroupClaims:
    """Claims groups for this process, and commits under these claims. Lives on one thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._process = session.surroundings.new_id()
        self._count = 0
        self._held: OrderedDict[str, str] = OrderedDict()

    def claim(self, group: str) -> str:
        """Return this process's claim of the group: the present one, else a new one. Raises ConnectionUnsure, VersionConflict."""
        tree, root = self._session.tree, paths.group_coordinator(group)
        for _ in range(ATTEMPTS):
            found = tree.children(root)
            if len(found) == 1 and found[0] == self._held.get(group):
                return self._hold(group, found[0])
            self._count += 1
            name = f"{self._process}-{self._count}"
            if not found:
                tree.ensure(root)
            acts: list[Operation] = [Delete(path=f"{root}/{other}") for other in found]
            if tree.transact([*acts, Create(path=f"{root}/{name}", data=b"")]) is None:
                return self._hold(group, name)
        raise VersionConflict("claim", root)

    def commit(self, commits: Sequence[GroupCommit]) -> list[CoordinationError | None]:
        """Commit each group's offsets with their notes, durable on return, and return for each its error, or None. The
        transactions travel together: a group's offsets are one, up to `CHUNK`. NotClaimed: nothing was written.
        """
        outcomes: list[CoordinationError | None] = [None] * len(commits)
        sent: list[tuple[int, Mapping[str, bytes], str]] = []
        is_away: CoordinationError | None = None
        for number, commit in enumerate(commits):
            try:
                if is_away:  # one call more for each group would keep all waiting that many times as long
                    raise is_away
                held = commit.claim or self._held.get(commit.group) or self.claim(commit.group)
                fence = f"{paths.group_coordinator(commit.group)}/{held}"
                sent += ((number, some, fence) for some in _chunks(commit))
            except CoordinationError as error:
                outcomes[number], is_away = error, error if error.retriable else is_away
        answers = self._session.tree.transact_each([_acts(fence, some) for _, some, fence in sent])
        for (number, some, fence), refused in zip(sent, answers, strict=True):
            if refused is None or outcomes[number] is not None:
                continue
            try:
                if isinstance(refused, CoordinationError) and (is_away is not None or not refused.retriable):
                    raise refused
                self._write_again(commits[number], fence, some)
            except CoordinationError as error:
                outcomes[number], is_away = error, error if error.retriable else is_away
        return outcomes

    def _write_again(self, commit: GroupCommit, fence: str, values: Mapping[str, bytes]) -> None:
        """Write offsets of which some may have no node yet, or whose first answer was lost, or whose remembered claim is gone."""
        try:
            self._write(fence, values)
        except NotClaimed:
            if commit.claim is not None:
                raise
            self._write(f"{paths.group_coordinator(commit.group)}/{self.claim(commit.group)}", values)

    def _write(self, fence: str, values: Mapping[str, bytes]) -> None:
        tree = self._session.tree
        for _ in range(ATTEMPTS):
            there = tree.read_many(values)
            for parent in sorted({path.rpartition("/")[0] for path in values.keys() - there.keys()}):
                tree.ensure(parent)
            refused = tree.transact(_acts(fence, values, there))
            if refused is None:
                return
            if refused == 0:
                raise NotClaimed(fence)
        raise VersionConflict("commit offsets under", fence)

    def _hold(self, group: str, name: str) -> str:
        self._held[group] = name
        self._held.move_to_end(group)
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)
        return name


def _acts(fence: str, values: Mapping[str, bytes], there: Mapping[str, object] | None = None) -> list[Operation]:
    acts: list[Operation] = [Check(path=fence)]
    for path, data in values.items():
        acts.append(Write(path=path, data=data) if there is None or path in there else Create(path=path, data=data))
    return acts


def _chunks(commit: GroupCommit) -> Iterator[Mapping[str, bytes]]:
    values = {paths.offset(commit.group, *position): one.to_bytes() for position, one in commit.offsets.items()}
    names = list(values)
    for start in range(0, len(names), CHUNK):
        yield {path: values[path] for path in names[start : start + CHUNK]}
