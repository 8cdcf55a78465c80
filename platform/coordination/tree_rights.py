"""Gives the nodes of a tree the rights of their paths, or opens them again: for trees that are older than the rights.

The plan is made first, so that a dry run shows what would change. A parent is changed before its children: what a stranger makes
below it meanwhile is seen by the next run. Nodes of other programs (`/zookeeper`, other chroots) stay as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .node_rights import ALL, ANYONE, TABLE, Entry, rights_of
from .security import ZooKeeperSecurity
from .session import Session

OPEN = (Entry(identity=ANYONE, permissions=ALL),)
"""What nodes have without rights."""
_TOPS = frozenset(path.split("/")[1] for path in TABLE if path != "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsChange:
    """One node whose rights are to change."""

    path: str
    present: tuple[Entry, ...]
    wanted: tuple[Entry, ...]


def planned(session: Session, security: ZooKeeperSecurity, *, is_opening: bool = False) -> Iterator[RightsChange]:
    """Yield each node that has other rights than its path's (`is_opening`: than everyone's), parents first.

    Raises CoordinationError, NodeForbidden too: it needs a keeper's certificate.
    """
    level = ["/"]
    while level:
        for path in level:
            present = session.tree.rights(path)
            wanted = OPEN if is_opening else rights_of(path, security.identities)
            if present is not None and present != wanted:
                yield RightsChange(path=path, present=present, wanted=wanted)
        below = session.tree.children_many(level)
        level = [f"{path.rstrip('/')}/{name}" for path in level for name in below[path] if path != "/" or name in _TOPS]


def carry_out(session: Session, change: RightsChange) -> None:
    """Give the node its rights. Raises CoordinationError."""
    session.tree.set_rights(change.path, change.wanted)
