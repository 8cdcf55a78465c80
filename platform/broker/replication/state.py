"""The node of one partition in ZooKeeper: who leads, who must have a batch, and where each leader epoch began. Pure.

A node is changed only by a compare-and-swap on its version (`swaps`). The topic's id is part of the node's path.
"""

from collections.abc import Iterable
from dataclasses import dataclass

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Member:
    """A broker of the set, trusted as long as its folder has this life."""

    broker_id: int
    life: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EpochStart:
    """The first offset that may hold a batch of this leader epoch."""

    leader_epoch: int
    start_offset: int


Epochs = tuple[EpochStart, ...]
"""Ascending in both, so that of two epochs that began at the same offset only the later one is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of the node, and the version under which it was read."""

    leader: int = NO_LEADER
    start_number: int = 0
    """Which start of the leader's process leads."""
    leader_epoch: int = 0
    members: tuple[Member, ...] = ()
    """The set. Empty only before the first leader."""
    epochs: Epochs = ()
    replicas: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    """The whole list of replicas that a reassignment wants, empty when none is under way."""
    lost: tuple[tuple[int, int], ...] = ()
    """The half-open ranges that recoveries gave up: from the end of the chosen log to where its next batch went."""
    is_restored: bool = False
    """Whether this node was made for a partition of a lost ensemble. No replica leads before an operator has recovered it."""
    base: int = 0
    """Where the versions of this node begin, so that they are later than every one from before ZooKeeper lost the node. Only an
    operator's recovery changes it.
    """
    version: int = 0
    """`base`, and ZooKeeper's own version of the node."""

    @property
    def copies(self) -> tuple[int, ...]:
        """Return the brokers that are to keep a copy of the log, now or after a reassignment."""
        return (*self.replicas, *(each for each in self.targets if each not in self.replicas))

    @property
    def zookeeper_version(self) -> int:
        return self.version - self.base

    def member(self, broker_id: int) -> Member | None:
        return next((each for each in self.members if each.broker_id == broker_id), None)

    def must_keep(self, broker_id: int) -> bool:
        """Return whether this broker's folder must stay. A folder goes only when this is False."""
        return broker_id in self.copies or self.member(broker_id) is not None


def with_epoch(epochs: Epochs, leader_epoch: int, start_offset: int) -> Epochs:
    """Return the list with a new epoch. Earlier epochs that began there or later go: nothing of them is left."""
    kept = tuple(each for each in epochs if each.start_offset < start_offset)
    return (*kept, EpochStart(leader_epoch=leader_epoch, start_offset=start_offset))


def cut_epochs(epochs: Epochs, end_offset: int) -> Epochs:
    """Return the list of a log that was cut to `end_offset`."""
    return tuple(each for each in epochs if each.start_offset < end_offset)


def epoch_at(epochs: Epochs, offset: int) -> int:
    """Return the epoch of the batch at `offset` by the list, never by the bytes of the batch; 0 before the first epoch."""
    return max((each.leader_epoch for each in epochs if each.start_offset <= offset), default=0)


def end_epoch(epochs: Epochs, end_offset: int) -> int:
    """Return the epoch of the last batch before `end_offset`, 0 for none."""
    return epoch_at(epochs, end_offset - 1)


def cut_target(own: Epochs, end_offset: int, known: Epochs) -> int:
    """Return the offset to which a log must be cut before it follows or leads: `end_offset` when nothing must go.

    That is the least start among the epochs that are later than the end's own epoch.
    """
    last = end_epoch(own, end_offset)
    return min([end_offset, *(each.start_offset for each in later_than(last, known))])


def unknown_start(own: Epochs, end_offset: int, known: Epochs) -> int:
    """Return the least start among the log's own epochs that are not known and have a batch, `end_offset` for none.

    After a recovery that did not hear every replica, one may return with batches of an epoch that the chosen log never had.
    """
    listed = {each.leader_epoch for each in known}
    return min([end_offset, *(each.start_offset for each in own if each.leader_epoch not in listed)])


def later_than(leader_epoch: int, known: Epochs) -> Iterable[EpochStart]:
    return (each for each in known if each.leader_epoch > leader_epoch)


def after(state: State) -> int:
    """Return the next leader epoch. Every process begins a new one; nobody resumes one."""
    return state.leader_epoch + 1
