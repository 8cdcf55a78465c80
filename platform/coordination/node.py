"""One node of ZooKeeper's tree, as it was read. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node's value and what ZooKeeper keeps about it."""

    data: bytes
    version: int
    owner_session: int
    """The session that an ephemeral node belongs to; 0 for a persistent one."""
    modified_ms: int
    """The time of the last write, by ZooKeeper's clock. A write of the same value counts."""
    created_zxid: int
    """The number of the transaction that made the node. A node that was removed and made again has another number."""
    created_ms: int
    child_count: int = 0
    """How many nodes were right below it when it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The names below one node, and what tells whether they are the nodes of an earlier listing."""

    names: frozenset[str]
    created_zxid: int = 0
    """Of the node itself; 0 where it does not exist."""
    change_count: int = 0
    """How many nodes were ever made or removed below it (ZooKeeper's `cversion`)."""

    def same_names_are_same_nodes(self, before: "Listing") -> bool:
        """Return whether no node was replaced by another one of its name since `before`: each change is seen in the names."""
        changes = len(self.names ^ before.names)
        return self.created_zxid == before.created_zxid and self.change_count - before.change_count == changes


def node_of(found: Any) -> Node:
    """Return the node of kazoo's pair (value, standing)."""
    data, stat = found
    return Node(
        data=data or b"",
        version=stat.version,
        owner_session=stat.ephemeralOwner,
        modified_ms=stat.mtime,
        created_zxid=stat.czxid,
        created_ms=stat.ctime,
        child_count=stat.numChildren,
    )
