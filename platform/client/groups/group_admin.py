"""List and describe consumer groups, and move their committed offsets. Each call asks the cluster; nothing is cached."""

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...wire.messages import control
from ..connection import control_plane
from ..connection.cluster import Cluster
from ..connection.control_plane import ask
from ..consumer import group_requests
from ..errors import ClientError, broker_error
from ..fetch.fetched import TopicPartition
from ..fetch.log_offsets import EARLIEST, LATEST, log_offsets
from . import many_groups
from .many_groups import Committed

DESCRIBE_GROUPS, LIST_GROUPS = (15, 1), (16, 2)
ZOOKEEPER = "zookeeper"
"""The protocol type under which our broker lists groups that coordinate through ZooKeeper."""


class GroupHasMembers(ClientError):
    """A group's offsets cannot be moved while members read: they would overwrite them."""

    def __init__(self, group: str, members: int) -> None:
        self.group, self.members = group, members
        super().__init__(
            f"group {group!r} has {members} {'member' if members == 1 else 'members'} and keeps its offsets: stop them, until "
            f"`headrace group describe {group}` shows none (a killed one stays for its session's time), and try again"
        )


class UnknownGroup(ClientError):
    """The cluster knows neither members nor offsets of the group."""

    def __init__(self, group: str, bootstrap: str) -> None:
        self.group = group
        super().__init__(f"there is no group {group!r} on {bootstrap}: `headrace group list` shows those there are")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member; `partitions` is None where its assignment is written in a form of its own."""

    member_id: str
    client_id: str
    host: str
    partitions: frozenset[TopicPartition] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group: its kind (`zookeeper`, or Kafka's protocol type), state, members and committed offsets."""

    name: str
    kind: str
    state: str
    members: list[Member]
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a group is behind in one partition. None: not known, or never committed."""

    partition: TopicPartition
    committed: int | None
    log_start: int | None
    log_end: int | None

    @property
    def lag(self) -> int | None:
        """Return the offsets left to read; of our broker these are bytes."""
        if self.committed is None or self.log_end is None:
            return None
        return max(0, self.log_end - max(self.committed, self.log_start or 0))


def import_messages() -> None:
    """Import what the requests of this file are made of, which is done at their first use else."""
    offsets, coordinators = (many_groups.OFFSET_FETCH, many_groups.OF_MANY), control_plane.FIND_COORDINATORS
    for api_key, version in (DESCRIBE_GROUPS, LIST_GROUPS, offsets, coordinators, control_plane.LIST_OFFSETS):
        control.prepare(api_key, version)


def list_groups(cluster: Cluster) -> dict[str, str]:
    """Return every group and its protocol type, by sorted name. Raises the first broker's refusal."""
    found: dict[str, str] = {}
    for broker in cluster.brokers():
        answer = ask(broker, LIST_GROUPS, {})
        if answer.error_code:
            raise broker_error(f"ListGroups to {broker.address}", int(answer.error_code))
        for one in answer.groups:
            found[one.group_id] = found.get(one.group_id) or one.protocol_type
    return dict(sorted(found.items()))


def describe_group(cluster: Cluster, name: str) -> Group:
    """Return the group. Raises UnknownGroup, and a broker's refusal."""
    found = describe_groups(cluster, [name])
    if not found:
        raise UnknownGroup(name, cluster.bootstrap)
    return found[0]


def describe_groups(cluster: Cluster, names: Sequence[str]) -> list[Group]:
    """Return those of the groups that exist, in this order, with two requests for each coordinator and 200 groups. Raises a
    broker's refusal.
    """
    found: dict[str, Group] = {}
    for coordinator, mine in many_groups.by_coordinator(cluster, names).items():
        committed = many_groups.committed(coordinator, mine)
        for begin in range(0, len(mine), many_groups.AT_ONCE):
            for one in ask(coordinator, DESCRIBE_GROUPS, {"groups": mine[begin : begin + many_groups.AT_ONCE]}).groups:
                if one.error_code:
                    raise broker_error(f"DescribeGroups of {one.group_id!r} to {coordinator.address}", int(one.error_code))
                offsets = {name: at.offset for name, at in committed.get(one.group_id, {}).items()}
                if one.members or offsets:
                    found[one.group_id] = _group(one, offsets)
    return [found[name] for name in names if name in found]


def lag_of(cluster: Cluster, group: Group) -> list[Lag]:
    """Return the lag in each partition that is committed or assigned, sorted. A deleted topic's log is None."""
    return lags_of(cluster, [group])[group.name]


def lags_of(cluster: Cluster, groups: Collection[Group]) -> dict[str, list[Lag]]:
    """Return the same of several groups by name. Each partition's log is asked about once, whatever number of groups read it."""
    wanted = {one.name: {*one.committed, *(name for member in one.members for name in member.partitions or ())} for one in groups}
    existing = set(cluster.topics())
    every = {name for names in wanted.values() for name in names}
    there = [name for name in every if name.topic in existing and name.partition in cluster.partitions(name.topic)]
    starts, ends = log_offsets(cluster, dict.fromkeys(there, EARLIEST)), log_offsets(cluster, dict.fromkeys(there, LATEST))
    return {
        one.name: [
            Lag(partition=name, committed=one.committed.get(name), log_start=starts.get(name), log_end=ends.get(name))
            for name in sorted(wanted[one.name])
        ]
        for one in groups
    }


def commit(cluster: Cluster, name: str, offsets: Mapping[TopicPartition, int], words: str) -> None:
    """Commit these offsets, with words beside them, for a group that never has members. Raises a broker's refusal."""
    group_requests.commit_offsets(cluster.coordinator(name), name, offsets, words=words)


def committed_with_words(cluster: Cluster, name: str) -> dict[TopicPartition, Committed]:
    """Return what the group has committed, and the words beside it. Raises a broker's refusal."""
    return dict(many_groups.committed(cluster.coordinator(name), [name])[name])


def move_offsets(cluster: Cluster, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit these offsets for a group without members; durable on return. Raises GroupHasMembers, and a broker's refusal."""
    check_without_members(cluster, name)
    group_requests.commit_offsets(cluster.coordinator(name), name, offsets)


def check_without_members(cluster: Cluster, name: str) -> None:
    """Return if nobody reads in the group, which need not exist. Raises GroupHasMembers."""
    try:
        group = describe_group(cluster, name)
    except UnknownGroup:
        return
    if group.members:
        raise GroupHasMembers(name, len(group.members))


def _group(answer: Any, committed: Mapping[TopicPartition, int]) -> Group:
    members = [
        Member(
            member_id=one.member_id,
            client_id=one.client_id,
            host=one.client_host,
            partitions=_partitions(bytes(one.member_assignment)),
        )
        for one in answer.members
    ]
    kind = ZOOKEEPER if answer.protocol_data == ZOOKEEPER else answer.protocol_type
    return Group(name=answer.group_id, kind=kind, state=answer.group_state, members=members, committed=committed)


def _partitions(assignment: bytes) -> frozenset[TopicPartition] | None:
    try:
        return frozenset(group_requests.partitions_of(assignment))
    except (struct.error, UnicodeDecodeError):
        return None
