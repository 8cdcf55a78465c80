"""How far each tier has reported to the audit, kept in the cluster itself: the committed offsets of a group without members.

What `coordination.AuditPositions` keeps in ZooKeeper. A cluster forgets the offsets of a group without members after
`offsets.retention.minutes` (Kafka: seven days after the last commit): the tier then reports again what it holds, which changes
nothing in the audit.
"""

import threading
from collections.abc import Iterable, Mapping

from ..connection.cluster import Cluster
from ..fetch.fetched import TopicPartition
from . import group_requests

REPORTED = "headrace.reported"
LANE = "positions"


class GroupPositions:
    """Reads and moves the positions of any tier. Every method may be called from any thread."""

    def __init__(self, cluster: Cluster, group: str = REPORTED, *, is_sole_writer: bool = False) -> None:
        """The group's name is `group`, a dot and the tier.

        `is_sole_writer`: no other process writes these positions, so each is read once, and may be moved backwards.
        """
        self._cluster = cluster
        self._group = group
        self._is_sole_writer = is_sole_writer
        self._known: dict[tuple[str, TopicPartition], int] = {}
        """What this one wrote; used by a sole writer only."""
        self._lock = threading.Lock()

    def read(self, tier: str, topic: str, partition: int) -> int | None:
        """Return the offset up to which the tier has reported (exclusive), or None when it never has. Raises ClientError."""
        name, group = TopicPartition(topic, partition), self._name(tier)
        with self._lock:
            known = self._known.get((group, name))
        if known is not None:
            return known
        return group_requests.fetch_offsets(self._cluster.coordinator(group, lane=LANE), group, [name]).get(name)

    def read_many(self, tier: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the same of each (topic, partition) that has a position, in one request. Raises ClientError."""
        group = self._name(tier)
        wanted = [TopicPartition(*name) for name in names]
        with self._lock:
            found: dict[tuple[str, int], int] = {
                name: self._known[group, name] for name in wanted if (group, name) in self._known
            }
        if left := [name for name in wanted if name not in found]:
            committed = group_requests.fetch_offsets(self._cluster.coordinator(group, lane=LANE), group, left)
            found.update((name, offset) for name, offset in committed.items())
        return found

    def write(self, tier: str, topic: str, partition: int, offset: int) -> None:
        """As `write_many`, of one partition."""
        self.write_many(tier, {(topic, partition): offset})

    def write_many(self, tier: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Move the position of each (topic, partition), in one request. A higher position stays, unless this is the sole writer,
        or another process moves it at this very moment. Raises ClientError, ValueError below 0.
        """
        for (topic, partition), offset in offsets.items():
            if offset < 0:
                raise ValueError(f"position {offset} of {tier} in {topic}-{partition}")
        group, wanted = self._name(tier), {TopicPartition(*name): offset for name, offset in offsets.items()}
        if self._is_sole_writer:
            with self._lock:
                moved = {name: offset for name, offset in wanted.items() if self._known.get((group, name)) != offset}
        else:
            held = self.read_many(tier, wanted)
            moved = {name: offset for name, offset in wanted.items() if held.get(name, -1) < offset}
        if not moved:
            return
        group_requests.commit_offsets(self._cluster.coordinator(group, lane=LANE), group, moved)
        if self._is_sole_writer:
            with self._lock:
                self._known.update(((group, name), offset) for name, offset in moved.items())

    def partitions(self, tier: str, topic: str) -> list[int]:
        """Return the partitions of which the tier has reported, sorted. Raises ClientError."""
        group = self._name(tier)
        names = [TopicPartition(topic, partition) for partition in self._cluster.partitions(topic)]
        found = group_requests.fetch_offsets(self._cluster.coordinator(group, lane=LANE), group, names)
        return sorted(name.partition for name in found)

    def _name(self, tier: str) -> str:
        return f"{self._group}.{tier.replace(':', '.')}"
