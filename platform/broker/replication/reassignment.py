"""Moving a partition to other brokers: what a request changes, when the move is complete, and who leads after it. Pure.

`State.targets` is the whole list that is wanted, the preferred leader first; empty while nothing moves. Targets copy the log and
come into the set. Then the leader swaps: the targets are the replicas, and members that are no targets leave the set. A leader
that is no target asks a target to take over first, because a swap never names another process as leader.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from .facts import Progress
from .replica import Replica, Waiting
from .state import State


def requested(state: State, wanted: tuple[int, ...] | None) -> State | None:
    """Return the state with these targets; None: end the move under way. None when that changes nothing.

    A later request replaces an earlier one. What only the earlier one has added leaves the set.
    """
    targets = () if wanted is None or wanted == state.replicas else wanted
    return None if targets == state.targets else replace(state, targets=targets)


def is_complete(state: State, min_insync_replicas: int) -> bool:
    """Return whether the targets may replace the replicas: all that are new are in the set, and the set stays large enough."""
    if not state.targets:
        return False
    in_sync = {each.broker_id for each in state.members}
    adding = set(state.targets) - set(state.replicas)
    left = in_sync.intersection(state.targets)
    return bool(left) and adding <= in_sync and len(left) >= min(min_insync_replicas, len(state.targets))


def completed(state: State, leader: int, min_insync_replicas: int) -> State | None:
    """Return the state after the move, None while it is not complete or the leader is no target."""
    if leader not in state.targets or not is_complete(state, min_insync_replicas):
        return None
    members = tuple(each for each in state.members if each.broker_id in state.targets)
    return replace(state, replicas=state.targets, targets=(), members=members)


def successor(
    state: State, progress: Mapping[int, Progress], leader: int, *, after_ms: int, but: Collection[int] = ()
) -> int | None:
    """Return the member that is to lead next, None when none was heard after `after_ms`. Those in `but` are left out.

    Where a move is under way it is a target; the first of the list that is there. The leader itself is none.
    """
    for broker_id in state.targets or state.replicas:
        one, member = progress.get(broker_id), state.member(broker_id)
        is_well = one is not None and not one.is_damaged and one.heard_ms > after_ms
        if (
            broker_id != leader
            and broker_id not in but
            and is_well
            and member is not None
            and one is not None
            and member.life in one.lives
        ):
            return broker_id
    return None


def listed(state: State) -> tuple[int, ...]:
    """Return the brokers for the topic's node, which says who opens a log: all that are to keep a copy.

    A broker is named twice where it is the only one, since a single name means a partition that was never replicated.
    """
    return state.copies if len(state.copies) > 1 else 2 * state.copies


def may_remove_folder(replica: Replica) -> bool:
    """Return whether this replica's folder may be deleted: the node that it obeys names its broker neither as member nor as
    replica nor as target.
    """
    return isinstance(replica.role, Waiting) and replica.node is not None and not replica.node.must_keep(replica.broker_id)
