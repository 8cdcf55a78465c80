"""The errors of ZooKeeper's calls. kazoo's own errors never leave this room."""

from collections.abc import Sequence
from typing import ClassVar

from ..errors import HeadraceError


class CoordinationError(HeadraceError):
    """A fault between this process and ZooKeeper."""


class ConnectionUnsure(CoordinationError):
    """The connection broke or was too slow. It is unknown whether ZooKeeper carried the call out: read again, then decide."""

    retriable: ClassVar[bool] = True

    def __init__(self, what: str, path: str, why: str) -> None:
        self.what, self.path = what, path
        super().__init__(f"{what} {path} in ZooKeeper: {why}; it may or may not have happened: read it again before acting on it")


class ZooKeeperUnreachable(CoordinationError):
    """No session with ZooKeeper could be opened in time."""

    retriable: ClassVar[bool] = True

    def __init__(self, hosts: str, timeout_ms: int, why: str | None = None) -> None:
        """`why`: what a second look at the servers has found."""
        self.hosts, self.timeout_ms = hosts, timeout_ms
        super().__init__(
            f"no session with ZooKeeper at {hosts} within {timeout_ms} ms: {why or 'is it running, is the address right?'}"
        )


class ZooKeeperConfigRefused(CoordinationError):
    """The settings of TLS and rights towards ZooKeeper cannot be used."""

    def __init__(self, where: str, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(f"the ZooKeeper configuration {where} cannot be used: {'; '.join(faults)}")


class NodeForbidden(CoordinationError):
    """ZooKeeper denied this process a call, by the rights of a node."""

    def __init__(self, what: str, path: str) -> None:
        self.what, self.path = what, path
        super().__init__(
            f"{what} {path} in ZooKeeper was denied: the node's rights do not name this process's certificate. Run it with the "
            "certificate of its role (HEADRACE_ZOOKEEPER_CONFIG), or give the rights again with `headrace zookeeper secure` "
            "(docs/RIGHTS.md)"
        )


class SessionClosed(CoordinationError):
    """A call on a session that was not started, or that this process closed."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{what}: the ZooKeeper session {name!r} is not open: start it first, or stop using it once closed")


class VersionConflict(CoordinationError):
    """Another client changed, made or removed the node between the read and the write."""

    retriable: ClassVar[bool] = True

    def __init__(self, what: str, path: str) -> None:
        self.path = path
        super().__init__(f"{what} {path} in ZooKeeper: another process changed it: read it again and decide again")


class UnreadableNode(CoordinationError):
    """A registry's node holds data that this room never writes."""

    def __init__(self, path: str, data: bytes, why: str) -> None:
        self.path, self.data = path, data
        super().__init__(f"ZooKeeper node {path} holds {data[:80]!r}, which cannot be read ({why}): repair or delete it by hand")


class ValueTooLarge(CoordinationError):
    """More bytes than a ZooKeeper node takes. The server would close the connection at every try."""

    def __init__(self, path: str, size_bytes: int, limit_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes
        super().__init__(f"{size_bytes} bytes for ZooKeeper node {path}; at most {limit_bytes} fit: register less in one node")


class InvalidName(CoordinationError):
    """A name that cannot be one step of a ZooKeeper path."""

    def __init__(self, kind: str, name: str, why: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"{kind} {name!r} cannot be used: {why}")


class BrokerIdTaken(CoordinationError):
    """The broker of another data folder is registered under this id."""

    def __init__(self, broker_id: int, folder_id: str, holder: str) -> None:
        self.broker_id, self.folder_id, self.holder = broker_id, folder_id, holder
        super().__init__(
            f"broker id {broker_id} is taken by another data folder's broker ({holder}), ours is {folder_id}: give this broker "
            "another id, or, if that one is gone, wait until its session has timed out"
        )


class ConsumerIdTaken(CoordinationError):
    """Another living process is registered in the group under this consumer id."""

    def __init__(self, group: str, consumer_id: str, waited_ms: int) -> None:
        self.group, self.consumer_id = group, consumer_id
        super().__init__(
            f"consumer id {consumer_id!r} in group {group!r} is still held by another process after {waited_ms} ms: "
            "give each process of the group an id of its own"
        )


class NotClaimed(CoordinationError):
    """A commit of a group that another process has claimed, or that was deleted. Nothing was written."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"nothing committed: {path} is gone, so another broker coordinates the group now")


class NotRegistered(CoordinationError):
    """A write that only a registered consumer may make, after its registration was lost. Nothing was written."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"nothing written: {path} is not registered any more (session lost): claim the partitions again first")
