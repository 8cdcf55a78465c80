"""The machine of one replica: `step` takes an event and returns the replica as it is then, and what its broker must do. Pure.

The caller carries out the orders in their sequence, and reports what came of them before it gives the next event. Only swaps,
cuts, flushes and messages may be answered later. In the manner of etcd-io/raft; the rules are those of decision 66.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from . import following, leading, set_changes, swaps
from .events import (
    AnswerReceived,
    Appended,
    Configured,
    DeleteRecords,
    Event,
    FetchReceived,
    FetchRefused,
    FlushDone,
    FollowerLost,
    FollowersHeard,
    HandedOver,
    LeaderSilent,
    Leave,
    LogChanged,
    NodeRead,
    Produce,
    Recover,
    SwapAnswered,
    Tick,
)
from .facts import LogFacts
from .orders import AskSwap, CloseConnections, Note, Order, ReadNode
from .replica import Following, Leading, Noted, Replica, Stopped, TakingOver, Turn, Waiting
from .state import NO_LEADER, State
from .suspicion import may_take_over
from .swaps import Answer


def step(replica: Replica, event: Event) -> tuple[Replica, Sequence[Order]]:
    """Return the replica after the event, and the orders that follow from it."""
    turn = Turn(replica)
    if isinstance(replica.role, Stopped) and not _is_heard(replica.role, event):
        return replica, ()
    match event:
        case NodeRead():
            _node_read(turn, event)
        case SwapAnswered():
            _swap_answered(turn, event)
        case Produce():
            leading.produce(turn, event)
        case Appended():
            leading.appended(turn, event)
        case LogChanged():
            _log_changed(turn, event.log)
        case FlushDone():
            _flush_done(turn, event)
        case FetchReceived():
            leading.fetched(turn, event)
        case FollowerLost():
            leading.follower_lost(turn, event.broker_id)
        case FollowersHeard():
            leading.followers_heard(turn, event)
        case AnswerReceived():
            following.answered(turn, event.answer)
        case FetchRefused():
            following.refused(turn, event.leader_epoch)
        case LeaderSilent():
            _leader_silent(turn, event)
        case HandedOver():
            _handed_over(turn, event)
        case Leave():
            turn.change(is_leaving=True)
            _leave_set(turn)
        case Tick():
            _tick(turn, event.now_ms)
        case DeleteRecords():
            leading.delete(turn, event)
        case Configured():
            turn.change(min_insync_replicas=event.min_insync_replicas, acks_on_disk=event.acks_on_disk)
            leading.change_set(turn)
        case Recover():
            _recover(turn, event)
        case _:
            assert_never(event)
    return turn.replica, turn.orders


def _is_heard(role: Stopped, event: Event) -> bool:
    """Return whether a stopped replica takes an event: it refuses requests, and may wait for the node that a recovery writes."""
    if isinstance(event, Produce | DeleteRecords | FetchReceived):
        return True
    return role.went_back and isinstance(event, NodeRead | Recover | LogChanged | FlushDone | Configured)


# -- the node --------------------------------------------------------------------------------------


def _node_read(turn: Turn, event: NodeRead) -> None:
    state, replica = event.state, turn.replica
    if state is None:
        return
    if is_older(state, replica.noted):
        is_recovering = isinstance(replica.role, TakingOver) and replica.role.is_recovery and bool(replica.undecided)
        has_stopped = isinstance(replica.role, Stopped)
        if event.is_synced and not is_recovering and not has_stopped:
            leading.lose(turn)
            turn.change(undecided=(), is_cut_off=False)
            following.stop(turn, why_older(state, replica.noted))
        return
    if any(not swaps.settles(swap, state) for swap in replica.undecided):
        return
    turn.change(undecided=(), is_cut_off=False)
    _obey(turn, state)


def is_older(state: State, noted: Noted) -> bool:
    """Return whether a node is older than one that was obeyed. No replica obeys it.

    Once a node was older, later versions of it are, too, until a recovery lets its versions begin behind the noted one.
    """
    is_behind = state.version < noted.version or state.leader_epoch < noted.leader_epoch
    return is_behind or (noted.went_back and state.base <= noted.version)


def why_older(state: State, noted: Noted) -> str:
    was = "ZooKeeper lost it and was restored" if state.is_restored else "ZooKeeper went back to an older copy"
    return (
        f"the partition's node in ZooKeeper (version {state.version}, leader epoch {state.leader_epoch}) is older than the one "
        f"that this replica has obeyed (version {noted.version}, leader epoch {noted.leader_epoch}): {was}. The records are in "
        "the replicas' folders. Start every broker of the partition, then run `headrace partition recover TOPIC PARTITION`"
    )


def _obey(turn: Turn, state: State) -> None:
    noted = Noted(version=state.version, leader_epoch=state.leader_epoch, members=state.members)
    if noted != turn.replica.noted:
        turn.order(Note(version=noted.version, leader_epoch=noted.leader_epoch, members=noted.members))
    before = turn.replica.node
    turn.change(node=state, noted=noted)
    role = turn.replica.role
    if leading.leads(turn.replica, state):
        if before is not None:
            leading.forget_left(turn, before, state)
        if isinstance(role, Leading) and role.leader_epoch == state.leader_epoch:
            leading.advance(turn)
        else:
            leading.begin(turn, state)
        return
    if isinstance(role, Leading):
        leading.lose(turn)
    if not state.must_keep(turn.replica.broker_id):
        turn.change(role=Waiting())
        turn.order(CloseConnections())
        return
    following.follow(turn, state)


def _swap_answered(turn: Turn, event: SwapAnswered) -> None:
    swap = event.swap
    if swap not in turn.replica.undecided:
        return
    match event.answer:
        case Answer.LANDED:
            turn.change(undecided=(), is_cut_off=False)
            _obey(turn, swap.landed)
        case Answer.PASSED:
            if isinstance(turn.replica.role, TakingOver) and turn.replica.role.is_recovery:
                turn.change(undecided=(), is_cut_off=False)
            turn.order(ReadNode())
        case Answer.FENCED:
            leading.lose(turn)
            turn.change(role=Stopped(reason="this broker was started again: this process is an earlier one"))
        case Answer.LOST:
            turn.change(is_cut_off=True)
            on_lost(turn)
        case _:
            assert_never(event.answer)


def on_lost(turn: Turn) -> None:
    """An unanswered swap stays undecided. The next tick asks again on the same version, which settles it."""


# -- the log ---------------------------------------------------------------------------------------


def _log_changed(turn: Turn, log: LogFacts) -> None:
    before = turn.replica.log
    is_cut = log.incarnation != before.incarnation
    if not is_cut:
        log = replace(log, flushed_offset=before.flushed_offset)
    turn.change(log=log, is_cutting=turn.replica.is_cutting and not is_cut)
    role = turn.replica.role
    if log.is_damaged and not before.is_damaged and isinstance(role, Following):
        _leave_set(turn)
    if is_cut and isinstance(role, TakingOver):
        _ask_for_leadership(turn, role)
    elif isinstance(role, Leading):
        leading.advance(turn)
    else:
        following.appended(turn, before)


def _flush_done(turn: Turn, event: FlushDone) -> None:
    log = turn.replica.log
    if not is_current(event, log) or event.flushed_offset <= log.flushed_offset:
        return
    turn.change(log=replace(log, flushed_offset=event.flushed_offset))
    leading.advance(turn)
    leading.change_set(turn)
    following.go_on(turn)


def is_current(event: FlushDone, log: LogFacts) -> bool:
    """Return whether a flush is of this log, and not of the one before a cut."""
    return event.incarnation == log.incarnation


def _leave_set(turn: Turn) -> None:
    """Ask that this follower, damaged or about to stop, is removed, if the set stays large enough."""
    replica = turn.replica
    node, own = replica.node, replica.entry()
    if node is None or own is None or replica.undecided or not isinstance(replica.role, Following):
        return
    if set_changes.may_be_without(node.members, replica.min_insync_replicas):
        leading.propose(turn, set_changes.without(node, replica.broker_id))


# -- taking over -----------------------------------------------------------------------------------


def _leader_silent(turn: Turn, event: LeaderSilent) -> None:
    replica, role = turn.replica, turn.replica.role
    if isinstance(role, Following) and not replica.undecided and may_take_over(event.signs) and may_lead(replica):
        _begin_takeover(turn, TakingOver(dead=event.dead))


def _handed_over(turn: Turn, event: HandedOver) -> None:
    replica, role = turn.replica, turn.replica.role
    is_asked = isinstance(role, Following) and role.leader_epoch == event.leader_epoch
    if is_asked and not replica.undecided and replica.node is not None and replica.entry() is not None and may_lead(replica):
        _begin_takeover(turn, TakingOver(dead=frozenset({replica.node.leader} if event.leader_stops else ())))


def may_lead(replica: Replica) -> bool:
    """Return whether this replica has everything acknowledged: it is a member with this life, and undamaged."""
    node = replica.node
    if node is None or replica.log.is_damaged or node.is_restored:
        return False
    is_new = node.leader == NO_LEADER and not node.leader_epoch and not node.members
    return replica.entry() is not None or (is_new and replica.broker_id in node.replicas)


def _recover(turn: Turn, event: Recover) -> None:
    replica = turn.replica
    is_idle = isinstance(replica.role, Following) or (isinstance(replica.role, Stopped) and replica.role.went_back)
    role = TakingOver(dead=frozenset(), recover_at=event.start_offset, log_start_offset=event.log_start_offset, base=event.base)
    if event.restored is not None and is_idle and not replica.is_cutting:
        turn.change(node=_by_the_log(event, event.restored, replica.log), undecided=(), is_cut_off=False)
        _begin_takeover(turn, role)
    elif event.restored is None and isinstance(replica.role, Following) and not replica.undecided:
        _begin_takeover(turn, role)


def _by_the_log(event: Recover, restored: State, log: LogFacts) -> State:
    """Return the node from which the chosen replica takes over: its own log says where the epochs began."""
    return replace(restored, leader=NO_LEADER, leader_epoch=event.leader_epoch - 1, members=(), epochs=log.epochs)


def _begin_takeover(turn: Turn, role: TakingOver) -> None:
    """Stop fetching, cut by the node that was read, then swap."""
    turn.change(role=role)
    turn.order(CloseConnections())
    if has_cut(turn):
        _ask_for_leadership(turn, role)


def has_cut(turn: Turn) -> bool:
    """Return whether the log is cut as the obeyed node asks, so that its end may become the start of an epoch."""
    return not turn.replica.is_cutting and following.cut_if_needed(turn)


def _ask_for_leadership(turn: Turn, role: TakingOver) -> None:
    replica = turn.replica
    assert replica.node is not None
    wanted = leading.next_state(replica, replica.node, dead=role.dead, recover_at=role.recover_at, base=role.base)
    leading.propose(turn, wanted)


# -- time ------------------------------------------------------------------------------------------


def _tick(turn: Turn, now_ms: int) -> None:
    replica = turn.replica
    turn.change(now_ms=max(now_ms, replica.now_ms))
    if replica.undecided:
        if replica.is_cut_off:
            turn.order(AskSwap(swap=replica.undecided[-1]))
        else:
            turn.order(ReadNode())
        return
    match replica.role:
        case Leading():
            leading.flush_if_needed(turn)
            leading.change_set(turn)
            leading.hand_over_if_moved(turn)
        case Following():
            if replica.log.is_damaged or replica.is_leaving:
                _leave_set(turn)
            leading.flush_if_needed(turn)
            following.go_on(turn)
        case Waiting():
            turn.order(ReadNode())
        case TakingOver() | Stopped():
            pass
        case _:
            assert_never(replica.role)
