"""The state of a partition in the words of the machine, of ZooKeeper's node and of the catalog. Pure."""

from uuid import UUID

from ...coordination.replica_states import ReplicaState, SwapOutcome, WantedSwap
from ..partitions.catalog import ReplicaView
from ..replication.state import EpochStart, Member, State
from ..replication.swaps import Answer, Swap

ANSWERS = {
    SwapOutcome.LANDED: Answer.LANDED,
    SwapOutcome.PASSED: Answer.PASSED,
    SwapOutcome.FENCED: Answer.FENCED,
    SwapOutcome.UNKNOWN: Answer.LOST,
}


def state_of(read: ReplicaState) -> State:
    return State(
        leader=read.leader,
        start_number=read.start_number,
        leader_epoch=read.leader_epoch,
        members=tuple(Member(broker_id=broker_id, life=life) for broker_id, life in read.members),
        epochs=tuple(EpochStart(leader_epoch=epoch, start_offset=offset) for epoch, offset in read.epochs),
        replicas=read.replicas,
        targets=read.targets,
        lost=read.lost,
        is_restored=read.is_restored,
        base=read.base,
        version=read.version,
    )


def node_of(state: State) -> ReplicaState:
    return ReplicaState(
        leader=state.leader,
        start_number=state.start_number,
        leader_epoch=state.leader_epoch,
        members=tuple((each.broker_id, each.life) for each in state.members),
        epochs=tuple((each.leader_epoch, each.start_offset) for each in state.epochs),
        replicas=state.replicas,
        targets=state.targets,
        lost=state.lost,
        is_restored=state.is_restored,
        base=state.base,
        version=state.version,
    )


def wanted_swap(key: tuple[UUID, int], swap: Swap) -> WantedSwap:
    assert swap.fence is not None, "every swap is fenced by its process"
    return WantedSwap(
        key=key,
        version=swap.version - swap.base,
        wanted=node_of(swap.wanted),
        broker_id=swap.fence.broker_id,
        start_number=swap.fence.start_number,
    )


def view_of(read: ReplicaState) -> ReplicaView:
    return ReplicaView(
        leader=read.leader,
        leader_epoch=read.leader_epoch,
        in_sync=read.in_sync,
        replicas=read.replicas,
        targets=read.targets,
        version=read.version,
    )
