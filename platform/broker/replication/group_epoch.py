"""Commits of a group's offsets, fenced by the group's epoch, so that of two coordinators only one commits. Pure.

Committed offsets stay in ZooKeeper. A broker that becomes a group's coordinator raises the group's epoch first, by a swap. Each
commit is one transaction: check the epoch, then write the offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """Lands only while `held_epoch` is the group's epoch; None is not fenced."""

    held_epoch: int | None
    offsets: Mapping[str, int]


def commit(held_epoch: int, offsets: Mapping[str, int]) -> GroupCommit:
    """Return the transaction of a coordinator that holds the group since `held_epoch`."""
    return GroupCommit(held_epoch=held_epoch, offsets=dict(offsets))


def raised(epoch: int) -> int:
    """Return the epoch with which the next coordinator begins."""
    return epoch + 1
