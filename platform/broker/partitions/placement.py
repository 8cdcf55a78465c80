"""Where a partition is and who of its replicas is in sync, as clients and operators are told. Pure.

A partition with one replica has no state of its own: its only broker leads it as long as it is there."""

from collections.abc import Collection
from typing import NamedTuple

from .catalog import TopicEntry

NO_LEADER = -1
NO_EPOCH = -1


class Placement(NamedTuple):
    """One partition."""

    leader: int
    """`NO_LEADER` when none leads, when the leader's broker is not there, or when that is not known yet."""
    leader_epoch: int
    """`NO_EPOCH` for a partition with one replica: clients then validate no positions by it."""
    replicas: tuple[int, ...]
    """The preferred leader first."""
    in_sync: tuple[int, ...]
    """The members of the set that are there; without a leader all members, one of which must come back."""
    offline: tuple[int, ...]
    """Replicas whose brokers are not there."""
    targets: tuple[int, ...] = ()
    """The whole list that a reassignment wants, empty when none is under way."""

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether another broker leads than the preferred one."""
        return self.leader != NO_LEADER and self.leader != self.replicas[0]


def placement(entry: TopicEntry, partition: int, live: Collection[int]) -> Placement | None:
    """Return where the partition is; `live` are the brokers that are there. None when the topic has no such partition."""
    assigned = entry.partitions.get(partition)
    if assigned is None:
        return None
    state = entry.states.get(partition)
    replicas = assigned if state is None else state.replicas
    offline = tuple(one for one in replicas if one not in live)
    if state is not None:
        leader = state.leader if state.leader in live else NO_LEADER
        # The set never gets smaller than min.insync.replicas, so it may name a member that is gone.
        in_sync = state.in_sync if leader == NO_LEADER else tuple(one for one in state.in_sync if one in live)
        return Placement(leader, state.leader_epoch, replicas, in_sync, offline, state.targets)
    if len(replicas) != 1 or offline:
        return Placement(NO_LEADER, NO_EPOCH, replicas, (), offline)
    return Placement(replicas[0], NO_EPOCH, replicas, replicas, ())
