"""Removes expired offsets and empty groups from ZooKeeper. `group_note` decides which offsets have expired.

A call looks at a bounded number of nodes and returns where to continue, since the caller's thread has other work. The time of a
commit is the time of the node's last write: it is stored nowhere else, and the paper's bare offsets have it too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from . import paths
from .errors import CoordinationError, VersionConflict
from .group_note import ExpiryDecision, GroupNote, Readers, decide_expiry
from .session import Session

NODES_A_CALL = 2_000
"""About how many offsets one call looks at."""
FOLDERS_AT_ONCE = 50
"""How many topics' partitions are listed in one round of calls."""


@dataclass(slots=True, kw_only=True)
class Swept:
    """What one call did, and what is left to do."""

    offsets: int = 0
    """Removed."""
    groups: list[str] = field(default_factory=list)
    """The groups whose offsets were removed."""
    faults: dict[str, CoordinationError] = field(default_factory=dict)
    """Groups that failed, and why: an unreadable node, for example."""
    rest: Sequence[str] = ()
    """Groups that were not looked at. The first of them may be half done."""
    after: str = ""
    """The path of the last offset looked at in the first group of `rest`; empty when that group was not begun."""


class OffsetExpiry:
    """Lists groups and expires their offsets. Every call reads ZooKeeper; nothing is cached."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def groups(self) -> list[str]:
        """Return every group that has a node, sorted."""
        return sorted(map(paths.group_of, self._session.tree.children(paths.CONSUMERS)))

    def expire(self, groups: Mapping[str, Readers], *, now_ms: int, retention_ms: int, after: str = "") -> Swept:
        """Remove the expired offsets of these groups, and return what was done and what is left. The first group begins behind
        the path `after`. A group that fails is reported in `faults` and keeps its offsets. Raises ConnectionUnsure.
        """
        swept, looked_at = Swept(), 0
        names = list(groups)
        for index, name in enumerate(names):
            if looked_at >= NODES_A_CALL:
                swept.rest = names[index:]
                break
            try:
                decision = self._decide(name, groups[name], now_ms, retention_ms)
                some = list(islice(self._offsets(name, decision, after), NODES_A_CALL - looked_at))
                looked_at += len(some) + 1
                gone = self._remove(some, decision)
            except CoordinationError as error:
                if error.retriable:
                    raise
                swept.faults[name], after = error, ""
                continue
            if gone:
                swept.offsets += gone
                swept.groups.append(name)
            if some and looked_at > NODES_A_CALL:
                swept.rest, swept.after = names[index:], some[-1]
                break
            after = ""
            if decision.expired_until_ms is not None and not decision.note.has_members:
                self._tidy(name)
        return swept

    def _decide(self, group: str, readers: Readers, now_ms: int, retention_ms: int) -> ExpiryDecision:
        """Decide about the group, and write its note when that changed."""
        tree, path = self._session.tree, paths.group(group)
        if tree.children(paths.consumer_ids(group)):
            readers = Readers(has_members=True)  # members of the paper's kind: the group keeps all its offsets
        node = tree.read(path)
        note = GroupNote.read(path, b"" if node is None else node.data)
        decision = decide_expiry(note, readers, now_ms=now_ms, retention_ms=retention_ms)
        if node is not None and decision.note != note:
            try:
                tree.write(path, decision.note.to_bytes(), version=node.version)
            except VersionConflict:
                pass  # another broker looked at the same time and noted the same, or something newer
        return decision

    def _offsets(self, group: str, decision: ExpiryDecision, after: str) -> Iterator[str]:
        """Yield the paths of offsets that may have expired, in the order of paths, beginning behind `after`."""
        if decision.expired_until_ms is None:
            return
        tree, root = self._session.tree, paths.group_offsets(group)
        begin = after.rpartition("/")[0] if after.startswith(f"{root}/") else ""
        folders = [f"{root}/{topic}" for topic in tree.children(root) if topic not in decision.kept_topics]
        folders = [folder for folder in folders if folder >= begin]
        for start in range(0, len(folders), FOLDERS_AT_ONCE):
            below = tree.children_many(folders[start : start + FOLDERS_AT_ONCE])
            tree.delete_many(folder for folder, names in below.items() if not names)  # left by a killed process
            for folder, names in below.items():
                yield from (path for path in (f"{folder}/{name}" for name in names) if folder != begin or path > after)

    def _remove(self, some: Sequence[str], decision: ExpiryDecision) -> int:
        if decision.expired_until_ms is None:
            return 0
        tree, until_ms = self._session.tree, decision.expired_until_ms
        # Only nodes that are unchanged since they were read: a commit that comes in between stays.
        old = {path: node.version for path, node in tree.read_many(some).items() if node.modified_ms <= until_ms}
        gone = tree.delete_unchanged(old)
        tree.delete_many({path.rpartition("/")[0] for path in gone})
        return len(gone)

    def _tidy(self, group: str) -> None:
        """Remove the group's nodes when nothing is left below them."""
        tree, root = self._session.tree, paths.group(group)
        if tree.children(paths.group_offsets(group)):
            return
        parents = [paths.group_owners(group), paths.group_coordinator(group)]
        for parent, names in tree.children_many(parents).items():
            tree.delete_many(f"{parent}/{name}" for name in names)
        tree.delete_many([*parents, paths.group_offsets(group), paths.consumer_ids(group)])
        tree.delete_many([root])
