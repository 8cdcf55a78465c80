"""Moves the committed offsets of a group of the paper's consumers, while the group has no members."""

from collections.abc import Mapping

from . import paths
from .errors import CoordinationError, VersionConflict
from .operations import Create, Delete, Operation, Write
from .session import Session
from .values import decimal

CHUNK = 500
"""Offsets of one transaction. The request stays far below the server's limit on its size."""
ATTEMPTS = 5


class MembersRead(CoordinationError):
    """The group has members: what was to be moved would be overwritten by them."""

    def __init__(self, group: str, members: int, moved: int) -> None:
        self.group, self.members, self.moved = group, members, moved
        super().__init__(
            f"group {group!r} has {members} registered consumers: {moved} of its offsets were moved before they came"
        )


def move_offsets(session: Session, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit these next offsets; durable on return. Raises MembersRead, ConnectionUnsure, ValueError below 0.

    One act to 500 offsets, which ZooKeeper carries out only while no consumer is registered: the node above the registrations is
    removed and made again in the same transaction, and it cannot be removed while one is below it.
    """
    tree, ids = session.tree, paths.consumer_ids(group)
    values = {paths.offset(group, topic, partition): decimal(offset) for (topic, partition), offset in offsets.items()}
    wanted = sorted(values)
    for start in range(0, len(wanted), CHUNK):
        some = wanted[start : start + CHUNK]
        for _ in range(ATTEMPTS):
            there = tree.read_many(some)
            for node in {ids, *(path.rpartition("/")[0] for path in some if path not in there)}:
                tree.ensure(node)
            acts: list[Operation] = [Delete(path=ids), Create(path=ids, data=b"")]
            acts += [
                Write(path=path, data=values[path]) if path in there else Create(path=path, data=values[path]) for path in some
            ]
            if tree.transact(acts) is None:
                break
            if members := tree.children(ids):
                raise MembersRead(group, len(members), start)
        else:
            raise VersionConflict("commit offsets under", paths.group_offsets(group))
