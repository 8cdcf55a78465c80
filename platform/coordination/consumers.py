"""The paper's three registries of a consumer group: its members (consumer), their partitions (owner), their progress (offset).

Consumer and owner nodes are ephemeral: they disappear together with the session. Offsets stay. Source: the paper's section 3.2,
Kafka 0.7.2's ZkUtils, under today's names of topic and partition.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from . import paths
from .committed_offset import CommittedOffset
from .ephemeral import EphemeralNode
from .errors import ConsumerIdTaken, CoordinationError, NotRegistered, UnreadableNode, VersionConflict
from .node import Listing
from .operations import Check, Create, Delete, Operation, Write
from .session import Session
from .values import decimal, json_bytes, read_json

CHUNK = 500
"""Offsets, or claims, of one transaction. The request stays far below the server's limit on its size."""
ATTEMPTS = 5


class ConsumerRegistry:
    """The members of a group and their subscriptions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._instance = uuid.uuid4().hex
        self._nodes: dict[tuple[str, str], EphemeralNode] = {}

    def register(
        self,
        group: str,
        consumer_id: str,
        subscription: Mapping[str, int],
        *,
        wait_ms: int = 0,
        on_refused: Callable[[CoordinationError], None] | None = None,
    ) -> None:
        """Join the group as `consumer_id` with topic -> number of streams, now and after every loss of the session.

        Another process's node under this id (a namesake, or this process before it was killed) is given `wait_ms` to disappear.
        `wait_ms` should exceed a session time. Raises ConsumerIdTaken, ConnectionUnsure.
        """
        path = paths.consumer(group, consumer_id)
        subscribed = {paths.topic_step(topic): streams for topic, streams in subscription.items()}
        value = {"subscription": subscribed, "instance": self._instance, "timestamp": time.time_ns() // 1_000_000}

        def is_mine(found: bytes) -> bool:
            return read_json(path, found).get("instance") == self._instance

        def taken(_found: bytes) -> CoordinationError:
            return ConsumerIdTaken(group, consumer_id, wait_ms)

        node = EphemeralNode(self._session, path, json_bytes(value), is_mine=is_mine, taken=taken, on_refused=on_refused)
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            try:
                node.register()
                break
            except ConsumerIdTaken:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)
        self._nodes[group, consumer_id] = node

    def withdraw(self, group: str, consumer_id: str) -> None:
        """Leave the group."""
        node = self._nodes.pop((group, consumer_id), None)
        if node is not None:
            node.withdraw()

    def members(self, group: str) -> dict[str, dict[str, int]]:
        """Return the group's registered consumers: id -> topic -> number of streams, by sorted id."""
        return self.roll(group).members

    def ids(self, group: str) -> list[str]:
        """Return the ids of the group's registered consumers, sorted."""
        return self._session.tree.children(paths.consumer_ids(group))

    def roll(self, group: str, before: "Roll | None" = None) -> "Roll":
        """Return the group's members. Of those that were there in the roll `before` and are the same, nothing is read again.

        Where a hundred join at once, each of them would otherwise read each other's registration a hundred times.
        """
        root = paths.consumer_ids(group)
        listing = self._session.tree.listing(root)
        known = before.members if before is not None and listing.same_names_are_same_nodes(before.listing) else {}
        found = self._session.tree.read_many(f"{root}/{member}" for member in sorted(listing.names - known.keys()))
        read = {path.rpartition("/")[2]: _subscription(path, node.data) for path, node in found.items()}
        together = {**{member: known[member] for member in known if member in listing.names}, **read}
        return Roll(listing=listing, members=dict(sorted(together.items())))

    def watch(self, group: str, callback: Callable[[], None], *, rest_ms: Callable[[], int] | None = None) -> Callable[[], None]:
        """Call `callback` on the session's thread, now and after each change of the list. Return what ends the watch.

        `rest_ms`: as in `Session.watch_children`.
        """
        return self._session.watch_children(paths.consumer_ids(group), callback, rest_ms=rest_ms)


class Roll(NamedTuple):
    """Who was in a group when its list was read."""

    listing: Listing
    members: dict[str, dict[str, int]]
    """Consumer id -> topic -> number of streams, by sorted id."""


class OwnerRegistry:
    """Which member reads which partition. A claim ends with the session and is not renewed: the member claims again."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(self, group: str, topic: str, partition: int, consumer_id: str) -> bool:
        """Return whether this session owns the partition now; False when another one does. Raises ConnectionUnsure."""
        return bool(self.claim_many(group, [(topic, partition)], consumer_id))

    def claim_many(
        self,
        group: str,
        partitions: Collection[tuple[str, int]],
        consumer_id: str,
        freed: Callable[[object], None] | None = None,
    ) -> set[tuple[str, int]]:
        """Return those of the partitions that this session owns now. They are claimed in one act where all are free, else in
        pipelined calls.

        Raises ConnectionUnsure: then any of them may be owned.

        Where another session owns one, kazoo's thread calls `freed` once when that changes, and when the connection breaks. It
        must only set a flag.
        """
        tree, owned = self._session.tree, set[tuple[str, int]]()
        wanted = {paths.owner(group, topic, partition): (topic, partition) for topic, partition in partitions}
        if len(wanted) > 1 and self._at_once([Create(path=path, data=consumer_id.encode(), ephemeral=True) for path in wanted]):
            return set(wanted.values())
        for _ in range(ATTEMPTS):
            outcomes = tree.create_many(dict.fromkeys(wanted, consumer_id.encode()), ephemeral=True)
            for error in outcomes.values():
                if isinstance(error, CoordinationError):
                    raise error
            owned |= {wanted[path] for path, node in outcomes.items() if node is not None}
            there = [path for path, node in outcomes.items() if node is None]
            found = tree.read_many(there, fired=freed)
            owned |= {wanted[path] for path, node in found.items() if node.owner_session == tree.session_id}
            wanted = {path: wanted[path] for path in there if path not in found}  # gone between the two calls
            if not wanted:
                break
        return owned

    def release(self, group: str, topic: str, partition: int) -> bool:
        """Give the partition up. Return False, and change nothing, when this session does not own it."""
        return bool(self.release_many(group, [(topic, partition)]))

    def release_many(
        self, group: str, partitions: Collection[tuple[str, int]], *, claimed_in: int | None = None
    ) -> set[tuple[str, int]]:
        """Give up those of the partitions that this session owns, and return them. The calls are pipelined.

        `claimed_in`: all were claimed, for certain, under this generation of the session; while it lasts they are given up in one
        act, without a look at whose they are.
        """
        wanted = {paths.owner(group, topic, partition): (topic, partition) for topic, partition in partitions}
        tree, generation = self._session.tree, self._session.generation
        if claimed_in == generation and self._at_once([Delete(path=path) for path in wanted]):
            return set(wanted.values())
        own = {path: node.version for path, node in tree.read_many(wanted).items() if node.owner_session == tree.session_id}
        if self._session.generation != generation:
            return set()
        return {wanted[path] for path in tree.delete_unchanged(own)}

    def _at_once(self, acts: Sequence[Operation]) -> bool:
        return 0 < len(acts) <= CHUNK and self._session.tree.transact(acts) is None

    def has_owners(self, group: str) -> bool:
        """Return whether any partition has an owner in the group."""
        tree, root = self._session.tree, paths.group_owners(group)
        return any(tree.child_count(f"{root}/{topic}") for topic in tree.children(root))

    def owners(self, group: str, topic: str) -> dict[int, str]:
        """Return partition -> consumer id, for the partitions that have an owner."""
        names = [name for name in self._session.tree.children(paths.owners(group, topic)) if name.isdigit()]
        found = self._session.tree.read_many(paths.owner(group, topic, int(name)) for name in names)
        return {
            int(name): found[paths.owner(group, topic, int(name))].data.decode(errors="replace")
            for name in names
            if paths.owner(group, topic, int(name)) in found
        }

    def watch(self, group: str, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the session's thread, once now and after each change of the topic's claims. Return a function that
        ends the watch.
        """
        return self._session.watch_children(paths.owners(group, topic), callback)


class OffsetRegistry:
    """The next offset of each group in each partition, persistent. The paper's consumers read and write bare offsets. The notes
    of Kafka's clients (`CommittedOffset`) are in the same node, and the paper's consumers skip them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, group: str, topic: str, partition: int) -> int | None:
        """Return the group's next offset in the partition, or None when it never committed one."""
        return self.get_many(group, [(topic, partition)]).get((topic, partition))

    def get_many(self, group: str, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the committed next offsets; a partition without one is left out."""
        return {position: committed.offset for position, committed in self.read(group, partitions).items()}

    def get_all(self, group: str) -> dict[tuple[str, int], int]:
        """Return every committed next offset of the group."""
        return {position: committed.offset for position, committed in self.read(group, None).items()}

    def read(self, group: str, partitions: Iterable[tuple[str, int]] | None) -> dict[tuple[str, int], CommittedOffset]:
        """Return the committed positions and notes of the partitions (None: of all); a partition without one is left out."""
        positions = self._positions(group) if partitions is None else partitions
        wanted = {paths.offset(group, topic, partition): (topic, partition) for topic, partition in positions}
        found = self._session.tree.read_many(wanted)
        return {wanted[path]: CommittedOffset.read(path, node.data) for path, node in found.items()}

    def forget(self, group: str, partitions: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
        """Remove committed offsets and return those that existed. Raises ConnectionUnsure."""
        wanted = {paths.offset(group, topic, partition): (topic, partition) for topic, partition in partitions}
        gone = self._session.tree.delete_many(wanted)
        root = paths.group_offsets(group)
        self._session.tree.delete_many(f"{root}/{topic}" for topic in {topic for topic, _ in partitions})
        return {wanted[path] for path in gone}

    def forget_topics(self, topics: Collection[str]) -> None:
        """Remove every group's offsets of deleted topics: a later topic of the same name has other records."""
        tree = self._session.tree
        steps = {paths.topic_step(topic) for topic in topics}
        groups = map(paths.group_of, tree.children(paths.CONSUMERS))
        read = tree.children_many(paths.group_offsets(group) for group in groups)
        roots = [f"{root}/{name}" for root, names in read.items() for name in names if name in steps]
        below = tree.children_many(roots)
        tree.delete_many(f"{root}/{name}" for root, names in below.items() for name in names)
        tree.delete_many(root for root, names in below.items() if names)

    def _positions(self, group: str) -> list[tuple[str, int]]:
        root = paths.group_offsets(group)
        below = self._session.tree.children_many(f"{root}/{topic}" for topic in self._session.tree.children(root))
        return [(path.rpartition("/")[2], int(name)) for path, names in below.items() for name in names if name.isdigit()]

    def put(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit one next offset."""
        self.put_many(group, {(topic, partition): offset})

    def put_many(self, group: str, offsets: Mapping[tuple[str, int], int], *, only_while_registered: str | None = None) -> None:
        """Commit next offsets; they are durable on return.

        Without `only_while_registered` the calls travel together, each on its own. With a consumer id they are one act (to 500)
        that ZooKeeper carries out only while that consumer is registered in the group: a process whose session was lost, and
        whose partitions may be another's by now, changes nothing. Raises NotRegistered, ConnectionUnsure, ValueError below 0.
        """
        values = {paths.offset(group, topic, partition): decimal(offset) for (topic, partition), offset in offsets.items()}
        if only_while_registered is None:
            self._session.tree.put_many(values)
            return
        fence = paths.consumer(group, only_while_registered)
        wanted = sorted(values)
        for start in range(0, len(wanted), CHUNK):
            self._put_fenced(fence, {path: values[path] for path in wanted[start : start + CHUNK]})

    def _put_fenced(self, fence: str, values: Mapping[str, bytes]) -> None:
        tree = self._session.tree
        for _ in range(ATTEMPTS):
            there = tree.read_many(values)
            for parent in sorted({path.rpartition("/")[0] for path in values.keys() - there.keys()}):
                tree.ensure(parent)
            acts: list[Operation] = [Check(path=fence)]
            for path, data in values.items():
                acts.append(Write(path=path, data=data) if path in there else Create(path=path, data=data))
            refused = tree.transact(acts)
            if refused is None:
                return
            if refused == 0:
                raise NotRegistered(fence)
        raise VersionConflict("commit offsets under", fence)


def _subscription(path: str, data: bytes) -> dict[str, int]:
    value = read_json(path, data).get("subscription")
    if not isinstance(value, dict) or not all(isinstance(streams, int) for streams in value.values()):
        raise UnreadableNode(path, data, "a subscription, topic to number of streams, is expected")
    return {str(topic): int(streams) for topic, streams in value.items()}
