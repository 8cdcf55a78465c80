"""A datacenter's tree as one file, for an ensemble that has lost all its disks.

    {"v": 1, "cluster": {"cluster_id", "producer_id_prefix"}, "next_producer_id": n | null, "nodes": {path: text}}

The nodes are the persistent ones that hold something: topics, users, committed offsets, what audit and mirrors have noted. What
lives as long as a process (brokers, consumers, owners) registers itself again. The cluster's id is written last: brokers that
continue without the lost tree take the new one for theirs once it is there (`broker/partitions/open_logs.py`). Producer ids and
leaders' epochs continue far behind those of the copy: what was issued since is never issued again. Topics keep their ids, which
the copy adds to their nodes: to mirrors and to the audit a topic with another id is another topic.

Who leads a replicated partition is not copied: it may have changed since. Such a partition gets a node that says so. No replica
leads by it before an operator has recovered the partition from what its replicas have noted (`broker/replication/restoring.py`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from . import paths
from .errors import CoordinationError
from .node import Node
from .producer_ids import ClusterId, drawn_cluster_id, known_cluster_id
from .replica_states import Key, ReplicaState, encode
from .session import Session
from .topic_id import id_of_word, id_word, topic_id
from .values import decimal, json_bytes, read_decimal, read_json

VERSION = 1
ROOTS = (paths.BROKER_TOPICS, paths.CONSUMERS, paths.CONFIG, "/audit", "/mirror", "/leaders", "/rights")
PASSED_OVER = re.compile(r"/consumers/[^/]+/(ids|owners|coordinator)|/leaders/[^/]+/holder")
"""Below these everything lives as long as a process."""
LATER_EPOCHS = 1_000_000
BEYOND = 1_000_000_000_000
"""More producer ids than are issued between a copy and the loss; the counter has room for 280 losses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What is copied of a tree."""

    cluster: ClusterId
    next_producer_id: int | None
    nodes: Mapping[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        begin = f"{paths.BROKER_TOPICS}/"
        return sorted(path.removeprefix(begin) for path in self.nodes if path.startswith(begin))

    def replicated(self) -> dict[Key, tuple[int, ...]]:
        """Return the brokers of each partition with several replicas, or with one that was moved."""
        found = {}
        for topic in self.topics:
            words = json.loads(self.nodes[paths.topic(topic)])
            own = id_of_word(words.get("topic_id", ""))
            for partition, ids in words["partitions"].items():
                if own is not None and len(ids) > 1:
                    found[own, int(partition)] = tuple(dict.fromkeys(ids))
        return found

    def to_json(self) -> str:
        cluster = {"cluster_id": self.cluster.cluster_id, "producer_id_prefix": self.cluster.producer_id_prefix}
        words = {"v": VERSION, "cluster": cluster, "next_producer_id": self.next_producer_id, "nodes": dict(self.nodes)}
        return json.dumps(words, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def of_json(cls, text: str) -> "Backup":
        """Return what `to_json` wrote. Raises ValueError for anything else."""
        try:
            words = json.loads(text)
            if words["v"] != VERSION:
                raise ValueError(f"version {words['v']}, {VERSION} is known")
            cluster = ClusterId(
                cluster_id=str(words["cluster"]["cluster_id"]), producer_id_prefix=int(words["cluster"]["producer_id_prefix"])
            )
            following = words["next_producer_id"]
            nodes = {str(path): str(value) for path, value in words["nodes"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        if wrong := [path for path in nodes if not path.startswith(tuple(f"{root}/" for root in ROOTS))]:
            raise ValueError(f"{wrong[0]!r} is not a path of the tree that is copied")
        return cls(cluster=cluster, next_producer_id=None if following is None else int(following), nodes=nodes)


KEPT_FOR_EVER = {"retention.ms": "-1"}
"""The settings of a topic that is known only by its folders: nothing expires before an operator has set retention again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFolder:
    """What a partition's folder notes."""

    topic_id: UUID | None
    is_replica: bool = False
    """Whether the partition had several replicas, or was moved."""


def with_folders(copy: Backup | None, cluster_id: str, broker_id: int, held: Mapping[str, Mapping[int, HeldFolder]]) -> Backup:
    """Return the copy with the topics of a broker's folders that it lacks. `held`: topic → partitions that have a folder.

    A broker does not open the folder of another id, so the topic gets the id of its folders. Each folder of a replica makes its
    broker one of the partition's: it may be the one that has everything.

    Raises ValueError where other brokers keep the only replica of the partition, a folder is of an earlier or later topic of the
    same name, or the copy is of another cluster. Pure, but for the prefix of producer ids, which is drawn where no copy has one.
    """
    if copy is None:
        copy = Backup(cluster=drawn_cluster_id(cluster_id), next_producer_id=None)
    if copy.cluster.cluster_id != cluster_id:
        raise ValueError(f"the folder is of the cluster {cluster_id}, the file of {copy.cluster.cluster_id}")
    nodes = dict(copy.nodes)
    for topic, partitions in held.items():
        path = paths.topic(topic)
        new: dict[str, Any] = {"version": 1, "partitions": {}, "config": KEPT_FOR_EVER}
        words = json.loads(nodes[path]) if path in nodes else new
        for partition in sorted(partitions):
            known = words["partitions"].setdefault(str(partition), [broker_id])
            own, is_replica = partitions[partition].topic_id, partitions[partition].is_replica
            if broker_id not in known and not is_replica:
                raise ValueError(f"{topic}-{partition} is kept by brokers {known}, and broker {broker_id} has a folder of it")
            if is_replica:
                ids = list(dict.fromkeys([*known, broker_id]))
                words["partitions"][str(partition)] = ids if len(ids) > 1 else 2 * ids
            if own is not None and (word := id_word(own)) != (noted := words.setdefault("topic_id", word)):
                raise ValueError(
                    f"{topic}-{partition} is of the topic with the id {word}, the file knows {topic} with the id {noted}: move "
                    "the folder away if that topic was deleted, else use a newer copy"
                )
        nodes[path] = json_bytes(words).decode()
    return replace(copy, nodes=nodes)


class NotRestored(CoordinationError):
    """The tree is not one that has forgotten its topics, or the file does not know them all."""

    def __init__(self, found: str) -> None:
        super().__init__(f"nothing was written: {found}")


def export(session: Session) -> Backup:
    """Return the tree's copy. Raises CoordinationError, also where there is no cluster."""
    cluster = known_cluster_id(session)
    if cluster is None:
        raise CoordinationError(f"there is no cluster at {session.hosts}: {paths.CLUSTER_ID} is not there; is the chroot right?")
    node = session.tree.read(paths.NEXT_PRODUCER_ID)
    following = None if node is None else read_decimal(paths.NEXT_PRODUCER_ID, node.data)
    return Backup(cluster=cluster, next_producer_id=following, nodes={path: _with_id(path, one) for path, one in _nodes(session)})


def restore(session: Session, copy: Backup) -> int:
    """Write the copy into a tree that has forgotten its topics; return how many nodes were written. Raises NotRestored, and
    CoordinationError: then run it again.

    What groups have committed and others have noted since the loss stays: it is newer; but for leaders' epochs, which then began
    again. Topics of the copy that are there already are of an import that was cut off.
    """
    for topic in copy.topics:
        found = sorted(map(int, json.loads(copy.nodes[paths.topic(topic)])["partitions"]))
        if found != list(range(len(found))):
            raise NotRestored(f"the file has the partitions {found} of {topic}: `headrace zookeeper rebuild` on every broker")
    known = known_cluster_id(session)
    if known == copy.cluster:
        raise NotRestored(f"the ensemble has not lost its tree: it is of the cluster {known.cluster_id}, as the copy is")
    present = {path: one.data.decode() for path, one in _nodes(session)}
    for path, text in present.items():
        if path.startswith(f"{paths.BROKER_TOPICS}/") and copy.nodes.get(path) != text:
            raise NotRestored(f"{path} is not as in the copy, which has {copy.nodes.get(path, 'no such topic')!r}")
    wanted = {path: _later(path, text) for path, text in copy.nodes.items()}
    missing = {path: data for path, data in wanted.items() if path not in present or _is_behind(path, present[path], data)}
    session.tree.put_many(
        {
            paths.replica_state(id_word(topic_id), partition): encode(ReplicaState(replicas=ids, is_restored=True))
            for (topic_id, partition), ids in copy.replicated().items()
        }
    )
    session.tree.put_many(missing)
    session.tree.put(paths.NEXT_PRODUCER_ID, decimal((copy.next_producer_id or 0) + BEYOND))
    cluster: dict[str, Any] = {
        "cluster_id": copy.cluster.cluster_id,
        "producer_id_prefix": copy.cluster.producer_id_prefix,
    }
    session.tree.put(paths.CLUSTER_ID, json_bytes(cluster))
    return len(missing)


def _is_behind(path: str, text: str, data: bytes) -> bool:
    """Return whether a leader's epoch was counted from the beginning since the loss: readers refuse such a leader."""
    return path.startswith("/leaders/") and text.isdigit() and data.isdigit() and int(text) < int(data)


def _later(path: str, text: str) -> bytes:
    """Return what a node is to hold: an epoch is none that was in use since the copy was made."""
    return decimal(int(text) + LATER_EPOCHS) if path.startswith("/leaders/") and text.isdigit() else text.encode()


def _with_id(path: str, node: Node) -> str:
    """Return a node's text; of a topic's with the topic's id in it."""
    topic = path.removeprefix(f"{paths.BROKER_TOPICS}/")
    if topic == path or "topic_id" in (value := read_json(path, node.data)):
        return node.data.decode()
    own = topic_id(topic, created_zxid=node.created_zxid, created_ms=node.created_ms)
    return json_bytes({**value, "topic_id": id_word(own)}).decode()


def _nodes(session: Session) -> Iterator[tuple[str, Node]]:
    """Yield path and node of every one that holds something, level by level."""
    level = list(ROOTS)
    while level:
        found = session.tree.read_many(level)
        yield from ((path, one) for path, one in sorted(found.items()) if one.data)
        parents = [path for path in level if path in found and found[path].child_count]
        below = session.tree.children_many(parents)
        level = [f"{path}/{name}" for path in parents for name in below[path]]
        level = [path for path in level if not PASSED_OVER.fullmatch(path)]
