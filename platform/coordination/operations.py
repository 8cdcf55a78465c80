"""The operations of a ZooKeeper transaction. Pure. `Tree.transact` carries out all of them or none."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make a node. Fails when the node exists, or its parent does not."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Write a node. Fails when the node does not exist or has another version; `version` -1 allows any."""

    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove a node. Fails when the node does not exist or has another version; `version` -1 allows any."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Change nothing. Fails when the node does not exist or has another version; `version` -1 allows any."""

    path: str
    version: int = -1


Operation = Create | Write | Delete | Check
