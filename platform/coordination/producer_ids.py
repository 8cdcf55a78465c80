"""Producer ids that are never issued twice: not after a restart, not by two brokers, not by two clusters.

    63        48 47                                   0
    0 ppp…pppp   cccc………………………………………………………………………………cccc
      prefix     counter, taken from ZooKeeper in blocks

The prefix belongs to the cluster. The first process of a chroot draws it at random (1 to 32767) and writes it once to
/cluster/id, beside the cluster's id; all others read it there. The counter moves by compare-and-set on its node's version. A
block whose allocation was not confirmed is skipped, never used. Each broker remembers the end of its last block: a counter below
it is of a ZooKeeper that was set back, and no ids are issued.
"""

from dataclasses import asdict, dataclass
from typing import Protocol

from . import paths
from .errors import ConnectionUnsure, CoordinationError, UnreadableNode, VersionConflict
from .session import Session
from .surroundings import SYSTEM, Surroundings
from .values import decimal, json_bytes, read_decimal, read_json

BLOCK = 1_000
"""Ids a block, as in Kafka. A broker allocates once in a thousand InitProducerId requests; a crash wastes at most a block."""
PREFIX_BITS, COUNTER_BITS = 15, 48
ATTEMPTS = 100
"""How often one allocation starts over. Each time another broker has allocated a block, so the brokers make progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterId:
    """The identity of a cluster."""

    cluster_id: str
    """The hex digits of a UUID. Brokers send it in Metadata responses."""
    producer_id_prefix: int


class TreeLost(CoordinationError):
    """ZooKeeper has forgotten the cluster, or another one is there."""

    def __init__(self, hosts: str, known: ClusterId | None) -> None:
        found = "has no cluster id" if known is None else f"is of the cluster {known.cluster_id}"
        super().__init__(
            f"ZooKeeper at {hosts} {found}: it has lost what it knew; this process continues with its own copy: "
            "`headrace zookeeper import` brings a copy back (docs/OPERATIONS.md)"
        )


class TreeOlder(CoordinationError):
    """ZooKeeper has come back older than it was: from an old copy of its disk, say."""

    def __init__(self, hosts: str, counter: int, issued: int) -> None:
        super().__init__(
            f"ZooKeeper at {hosts} is older than this broker: its next producer id is {counter}, and this broker has had ids up "
            f"to {issued}. Topics made since would be set aside, and producer ids issued twice. Stop ZooKeeper, empty its data "
            'folder, and bring the tree back as in docs/OPERATIONS.md, "A lost ZooKeeper"'
        )


class Issued(Protocol):
    """What a broker remembers of the ids that it has issued, longer than it runs."""

    def end(self, prefix: int) -> int:
        """Return the first counter behind all of its blocks; 0: none."""
        ...

    def note(self, prefix: int, end: int) -> None: ...


class _NotKept:
    """Remembers nothing: for who allocates ids in no broker's name."""

    def end(self, prefix: int) -> int:
        return 0

    def note(self, prefix: int, end: int) -> None:
        pass


def known_cluster_id(session: Session) -> ClusterId | None:
    """Return the identity of the chroot's cluster, None where none is written. Raises UnreadableNode."""
    node = session.tree.read(paths.CLUSTER_ID)
    if node is None:
        return None
    match read_json(paths.CLUSTER_ID, node.data):
        case {"cluster_id": str(name), "producer_id_prefix": int(prefix)} if 0 < prefix < 1 << PREFIX_BITS:
            return ClusterId(cluster_id=name, producer_id_prefix=prefix)
    raise UnreadableNode(paths.CLUSTER_ID, node.data, "cluster_id and producer_id_prefix are expected")


def check_cluster_id(session: Session, mine: ClusterId) -> None:
    """Raises TreeLost unless the chroot's cluster is still this one."""
    known = known_cluster_id(session)
    if known != mine:
        raise TreeLost(session.hosts, known)


def check_age(session: Session, mine: ClusterId, issued: Issued) -> None:
    """Raises TreeOlder if the tree is from before the last block of ids that this broker got."""
    prefix = mine.producer_id_prefix
    _counter(session, issued.end(prefix))


def _counter(session: Session, at_least: int) -> tuple[int, int | None]:
    """Return the next counter and its node's version (None: no node). Raises TreeOlder."""
    node = session.tree.read(paths.NEXT_PRODUCER_ID)
    start = 0 if node is None else read_decimal(paths.NEXT_PRODUCER_ID, node.data)
    if start < at_least:
        raise TreeOlder(session.hosts, start, at_least)
    return start, None if node is None else node.version


def drawn_cluster_id(name: str | None = None, surroundings: Surroundings = SYSTEM) -> ClusterId:
    """Return an identity with a prefix of producer ids drawn at random, and a new name unless one is given."""
    prefix = 1 + surroundings.random_below((1 << PREFIX_BITS) - 1)
    return ClusterId(cluster_id=name or surroundings.new_id(), producer_id_prefix=prefix)


def cluster_id(session: Session) -> ClusterId:
    """Return the identity of the chroot's cluster. The first caller draws and writes it."""
    while True:
        known = known_cluster_id(session)
        if known is not None:
            return known
        try:
            session.tree.create(paths.CLUSTER_ID, json_bytes(asdict(drawn_cluster_id(surroundings=session.surroundings))))
        except ConnectionUnsure:
            continue  # read again: the node counts, no matter which broker wrote it; `read` bounds the wait


class ProducerIdBlocks:
    """Allocates blocks of producer ids for one broker."""

    def __init__(self, session: Session, prefix: int | None = None, issued: Issued | None = None) -> None:
        """`prefix` (1 to 32767) belongs to the cluster; None takes the one in /cluster/id. `issued`: None remembers nothing."""
        if prefix is not None and not 0 < prefix < 1 << PREFIX_BITS:
            raise ValueError(f"producer id prefix {prefix}: 1 to {(1 << PREFIX_BITS) - 1}")
        self._session, self._prefix = session, prefix
        self._issued: Issued = issued or _NotKept()
        self._cluster: ClusterId | None = None

    def next_block(self) -> range:
        """Return `BLOCK` ids that no other broker gets, noted as issued. Raises ConnectionUnsure and VersionConflict: call again
        after either; TreeLost, TreeOlder: a counter that has been lost or set back would issue its ids again; and what
        `Issued` raises.
        """
        if self._prefix is None:
            self._cluster = cluster_id(self._session)
            self._prefix = self._cluster.producer_id_prefix
        elif self._cluster is not None:
            check_cluster_id(self._session, self._cluster)
        tree, path = self._session.tree, paths.NEXT_PRODUCER_ID
        for _ in range(ATTEMPTS):
            start, version = _counter(self._session, self._issued.end(self._prefix))
            if start + BLOCK > 1 << COUNTER_BITS:
                raise CoordinationError(
                    f"producer ids of prefix {self._prefix} are used up at {path}: give the cluster another prefix"
                )
            if version is None:
                if not tree.create(path, decimal(BLOCK)):
                    continue
            else:
                try:
                    tree.write(path, decimal(start + BLOCK), version=version)
                except VersionConflict:
                    continue
            self._issued.note(self._prefix, start + BLOCK)
            first = (self._prefix << COUNTER_BITS) + start
            return range(first, first + BLOCK)
        raise VersionConflict("take a block from", path)
