"""Where an administrator finds groups: at the brokers of a cluster, or in the ZooKeeper registry of the paper's consumers."""

from collections.abc import Mapping
from typing import Protocol

from ..connection.cluster import Cluster
from ..fetch.fetched import TopicPartition
from . import group_admin
from .group_admin import Group


class GroupRegistry(Protocol):
    """What `headrace group` asks."""

    def groups(self) -> dict[str, str]:
        """Return every group and its protocol type, by sorted name."""
        ...

    def describe(self, name: str) -> Group:
        """Return the group. Raises UnknownGroup."""
        ...

    def move(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets for a group without members; durable on return. Raises GroupHasMembers."""
        ...

    def check_without_members(self, name: str) -> None:
        """Return if the group, which need not exist, has no members. Raises GroupHasMembers."""
        ...


class BrokersGroups:
    """The groups that a cluster's brokers know; ours also know those of ZooKeeper."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def groups(self) -> dict[str, str]:
        return group_admin.list_groups(self._cluster)

    def describe(self, name: str) -> Group:
        return group_admin.describe_group(self._cluster, name)

    def move(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        group_admin.move_offsets(self._cluster, name, offsets)

    def check_without_members(self, name: str) -> None:
        group_admin.check_without_members(self._cluster, name)
