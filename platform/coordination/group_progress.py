"""What all groups have committed in some partitions, for a broker that shows how far each group is behind.

Both kinds of groups: Kafka's clients commit through a broker, the paper's consumers here, and all of it is in the same nodes.
"""

from collections.abc import Container, Iterable

from . import paths
from .committed_offset import CommittedOffset
from .errors import UnreadableNode
from .session import Session

Position = tuple[str, str, int]
"""Group, topic and partition."""


class GroupProgress:
    """Every call reads ZooKeeper; nothing is cached."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def positions(self, among: Container[tuple[str, int]], most: int) -> tuple[list[Position], int]:
        """Return where groups have committed, sorted, of the topics and partitions `among`; and how many were left out because
        there are more than `most`.
        """
        tree = self._session.tree
        groups = {paths.group_offsets(group): group for group in map(paths.group_of, tree.children(paths.CONSUMERS))}
        topics = tree.children_many(groups)
        steps = {f"{root}/{topic}": (groups[root], topic) for root, names in topics.items() for topic in names}
        partitions = tree.children_many(steps)
        found = sorted(
            (*steps[path], int(name))
            for path, names in partitions.items()
            for name in names
            if name.isdigit() and (steps[path][1], int(name)) in among
        )
        return found[:most], max(0, len(found) - most)

    def read(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Return the committed next offsets. What is gone or cannot be read is left out; the group's own readers report it."""
        wanted = {paths.offset(*position): position for position in positions}
        committed = {}
        for path, node in self._session.tree.read_many(wanted).items():
            try:
                committed[wanted[path]] = CommittedOffset.read(path, node.data).offset
            except UnreadableNode:
                continue
        return committed
