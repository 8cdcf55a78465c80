"""Which consumer groups have nodes in ZooKeeper: offsets, or live members of the paper's kind.

Members that are Kafka clients are not here: the broker that coordinates their group keeps them in memory.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from . import paths
from .errors import UnreadableNode
from .session import Session
from .values import read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperMember:
    """A registered consumer of the paper's kind."""

    topics: Collection[str]
    partitions: Mapping[str, Collection[int]] = field(default_factory=dict)
    """The partitions that it owns now, by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrace:
    """What ZooKeeper stores about one group."""

    has_offsets: bool = False
    members: Mapping[str, PaperMember] = field(default_factory=dict)
    """Consumer id to member."""

    @property
    def exists(self) -> bool:
        return self.has_offsets or bool(self.members)


class Deletion(Enum):
    """The outcome of a group's deletion."""

    DONE = auto()
    ABSENT = auto()
    HAS_MEMBERS = auto()


class GroupDirectory:
    """Lists, describes and deletes groups. Every call reads ZooKeeper; nothing is cached."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def groups(self) -> dict[str, bool]:
        """Return every group that has offsets or live members, and whether it has members, by sorted name."""
        tree = self._session.tree
        names = [paths.group_of(step) for step in tree.children(paths.CONSUMERS)]
        ids = tree.children_many(paths.consumer_ids(name) for name in names)
        offsets = tree.children_many(paths.group_offsets(name) for name in names)
        return {
            name: bool(ids[paths.consumer_ids(name)])
            for name in sorted(names)
            if ids[paths.consumer_ids(name)] or offsets[paths.group_offsets(name)]
        }

    def describe(self, groups: Iterable[str]) -> dict[str, GroupTrace]:
        """Return what is stored about each group; an empty trace where nothing is. Raises UnreadableNode."""
        tree, wanted = self._session.tree, list(groups)
        offsets = tree.children_many(paths.group_offsets(group) for group in wanted)
        ids = tree.children_many(paths.consumer_ids(group) for group in wanted)
        return {
            group: GroupTrace(
                has_offsets=bool(offsets[paths.group_offsets(group)]),
                members=self._members(group, names) if (names := ids[paths.consumer_ids(group)]) else {},
            )
            for group in wanted
        }

    def has_members(self, group: str) -> bool:
        """Return whether consumers of the paper's kind are registered in a group."""
        return bool(self._session.tree.children(paths.consumer_ids(group)))

    def delete(self, group: str) -> Deletion:
        """Remove a group and its offsets, unless it has members of the paper's kind. Raises ConnectionUnsure."""
        tree, root = self._session.tree, paths.group(group)
        if not tree.children(root):
            tree.delete_many([root])
            return Deletion.ABSENT
        # First the node under which members register: it cannot be removed while a member is below it.
        ids = paths.consumer_ids(group)
        tree.delete_many([ids])
        if tree.children(ids):
            return Deletion.HAS_MEMBERS
        had_offsets = bool(tree.children(paths.group_offsets(group)))
        self._remove(root)
        return Deletion.DONE if had_offsets else Deletion.ABSENT

    def _members(self, group: str, names: Iterable[str]) -> dict[str, PaperMember]:
        registered = self._session.tree.read_many(paths.consumer(group, name) for name in names)
        owned = self._owned(group)
        members = {}
        for name in names:
            path = paths.consumer(group, name)
            if path in registered:
                topics = read_json(path, registered[path].data).get("subscription")
                if not isinstance(topics, dict):
                    raise UnreadableNode(path, registered[path].data, "a subscription, topic to number of streams, is expected")
                members[name] = PaperMember(topics=sorted(topics), partitions=owned.get(name, {}))
        return members

    def _owned(self, group: str) -> dict[str, dict[str, list[int]]]:
        """Return consumer id -> topic -> partitions."""
        tree, root = self._session.tree, paths.group_owners(group)
        below = tree.children_many(f"{root}/{topic}" for topic in tree.children(root))
        nodes = tree.read_many(f"{path}/{name}" for path, names in below.items() for name in names if name.isdigit())
        owned: dict[str, dict[str, list[int]]] = {}
        for path, node in nodes.items():
            topic, partition = path.split("/")[-2:]
            owned.setdefault(node.data.decode(errors="replace"), {}).setdefault(topic, []).append(int(partition))
        return owned

    def _remove(self, root: str) -> None:
        """Remove a node and everything below it, deepest first."""
        tree = self._session.tree
        levels = [[root]]
        while levels[-1]:
            below = tree.children_many(levels[-1])
            levels.append([f"{path}/{name}" for path, names in below.items() for name in names])
        for level in reversed(levels):
            tree.delete_many(level)
