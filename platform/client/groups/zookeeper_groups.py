"""Groups of the paper's consumers as their registry in ZooKeeper has them, whatever cluster they read from.

Our brokers show these groups. Brokers of Apache Kafka do not know this registry, so it is read here.
"""

from collections.abc import Mapping

from ...coordination import paths
from ...coordination.consumers import OffsetRegistry
from ...coordination.group_directory import GroupDirectory
from ...coordination.offset_reset import MembersRead, move_offsets
from ...coordination.session import Session
from ..errors import ClientError
from ..fetch.fetched import TopicPartition
from .group_admin import ZOOKEEPER, Group, GroupHasMembers, Member, UnknownGroup

OPEN_MS = 10_000


class NoRegistry(ClientError):
    """ZooKeeper answers, and has no registry of consumers at that place."""

    def __init__(self, zookeeper: str) -> None:
        self.zookeeper = zookeeper
        super().__init__(
            f"ZooKeeper at {zookeeper} has no {paths.CONSUMERS}, so no consumer ever registered there: is the chroot "
            "(host:port/chroot) the one that the consumers were given?"
        )


class ZooKeeperGroups:
    """A `GroupRegistry`. Opens a session; `close` ends it."""

    def __init__(self, zookeeper: str) -> None:
        """`zookeeper` is `host:port[,host:port…][/chroot]`. Raises ZooKeeperUnreachable, NoRegistry."""
        # Opening a session below a chroot would make the chroot, also a mistyped one: first it is looked for.
        hosts, _, chroot = zookeeper.partition("/")
        with _Looking(hosts) as session:
            chroot = f"/{chroot.strip('/')}" if chroot.strip("/") else ""
            if session.tree.read(chroot + paths.CONSUMERS) is None:
                raise NoRegistry(zookeeper)
        self._zookeeper = zookeeper
        self._session = Session(zookeeper, name="headrace-group").start(OPEN_MS)
        self._directory = GroupDirectory(self._session)

    def close(self) -> None:
        self._session.close()

    def groups(self) -> dict[str, str]:
        return {name: ZOOKEEPER if has_members else "" for name, has_members in self._directory.groups().items()}

    def describe(self, name: str) -> Group:
        trace = self._directory.describe([name])[name]
        committed = OffsetRegistry(self._session).get_all(name)
        if not trace.members and not committed:
            raise UnknownGroup(name, f"ZooKeeper at {self._zookeeper}")
        members = [
            Member(
                member_id=consumer_id,
                client_id=consumer_id,
                host="",
                partitions=frozenset(
                    TopicPartition(topic, partition) for topic, mine in member.partitions.items() for partition in mine
                ),
            )
            for consumer_id, member in sorted(trace.members.items())
        ]
        return Group(
            name=name,
            kind=ZOOKEEPER if members else "",
            state="Stable" if members else "Empty",
            members=members,
            committed={TopicPartition(*position): offset for position, offset in committed.items()},
        )

    def move(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move offsets in one act (to 500) that ZooKeeper carries out only while no consumer is registered."""
        try:
            move_offsets(self._session, name, {(one.topic, one.partition): at for one, at in offsets.items()})
        except MembersRead as error:
            raise GroupHasMembers(name, error.members) from error

    def check_without_members(self, name: str) -> None:
        members = self._session.tree.children(paths.consumer_ids(name))
        if members:
            raise GroupHasMembers(name, len(members))


class _Looking:
    """A session at the root of the tree, for one look."""

    def __init__(self, hosts: str) -> None:
        self._session = Session(hosts, name="headrace-group")

    def __enter__(self) -> Session:
        return self._session.start(OPEN_MS)

    def __exit__(self, *_: object) -> None:
        self._session.close()
