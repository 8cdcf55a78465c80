"""A leader: append, answer followers, acknowledge, delete, change the set. Pure."""

from dataclasses import replace

from . import acknowledging, following, reassignment, set_changes, swaps
from . import state as states
from .events import Appended, DeleteRecords, FetchReceived, FollowersHeard, Produce
from .orders import (
    Acknowledge,
    AdvanceStart,
    AnswerFetch,
    Append,
    AskFlush,
    AskSwap,
    BeginEpoch,
    CloseConnections,
    HandOver,
    Jump,
    ReadNode,
    Refuse,
    RefuseFetch,
)
from .replica import Leading, Replica, TakingOver, Turn, Waiter
from .state import State
from .swaps import Swap

NOT_LEADER = "not the leader"
TOO_FEW = "fewer members than min.insync.replicas"


def begin(turn: Turn, node: State) -> None:
    """Lead in the epoch that this process's own swap has begun."""
    replica = turn.replica
    begun_at = node.epochs[-1].start_offset
    goes_on_at = max([begun_at, *(end for begin, end in node.lost if begin == begun_at)])
    deleted_to = replica.role.log_start_offset if isinstance(replica.role, TakingOver) else 0
    turn.change(role=Leading(leader_epoch=node.leader_epoch, start_offset=goes_on_at, began_ms=replica.now_ms))
    turn.order(CloseConnections(), BeginEpoch(leader_epoch=node.leader_epoch, start_offset=begun_at))
    if goes_on_at > begun_at:
        turn.order(Jump(to_offset=goes_on_at))
    if deleted_to > replica.log.log_start_offset:
        turn.order(AdvanceStart(to_offset=deleted_to))
    flush_if_needed(turn)
    advance(turn)


def flush_if_needed(turn: Turn) -> None:
    """Have the log flushed, because members with a disk life acknowledge by that, the leader included."""
    log = turn.replica.log
    if log.flushed_offset < log.end_offset:
        turn.order(AskFlush(incarnation=log.incarnation))


def leads(replica: Replica, node: State) -> bool:
    """Return whether the node names this process, and not an earlier start of this broker, or an epoch that it gave up."""
    is_this_process = node.leader == replica.broker_id and node.start_number == replica.start_number
    return is_this_process and node.leader_epoch > replica.given_up_epoch


def lose(turn: Turn) -> None:
    """The leadership has ended: what waits gets NOT_LEADER, because only the next leader knows what is kept."""
    replica = turn.replica
    ended = ended_waiters(replica)
    turn.order(CloseConnections(), *(Refuse(token=each.token, reason=NOT_LEADER) for each in ended))
    kept = {each.token for each in ended}
    turn.change(
        producers=tuple(each for each in replica.producers if each.token not in kept),
        deleters=tuple(each for each in replica.deleters if each.token not in kept),
    )


def ended_waiters(replica: Replica) -> tuple[Waiter, ...]:
    return (*replica.producers, *replica.deleters)


# -- producers -------------------------------------------------------------------------------------


def produce(turn: Turn, event: Produce) -> None:
    replica, role, node = turn.replica, turn.replica.role, turn.replica.node
    if not isinstance(role, Leading) or node is None:
        turn.order(Refuse(token=event.token, reason=NOT_LEADER))
    elif len(node.members) < replica.min_insync_replicas:
        turn.order(Refuse(token=event.token, reason=TOO_FEW))
    elif event.duplicate_end is not None:
        turn.change(producers=(*replica.producers, Waiter(token=event.token, offset=duplicate_waits_for(event.duplicate_end))))
        advance(turn)
    else:
        turn.order(Append(token=event.token, leader_epoch=role.leader_epoch))


def duplicate_waits_for(duplicate_end: int) -> int:
    """Return the offset for which a duplicate waits: its first sender may not have been answered."""
    return duplicate_end


def appended(turn: Turn, event: Appended) -> None:
    replica = turn.replica
    log = replace(event.log, flushed_offset=replica.log.flushed_offset)
    turn.change(log=log, producers=(*replica.producers, Waiter(token=event.token, offset=log.end_offset)))
    turn.order(AskFlush(incarnation=log.incarnation))
    advance(turn)


# -- followers -------------------------------------------------------------------------------------


def fetched(turn: Turn, event: FetchReceived) -> None:
    replica, role = turn.replica, turn.replica.role
    fetch = event.fetch
    turn.change(now_ms=max(replica.now_ms, event.now_ms))
    why_not = why_refused(turn.replica, event)
    if why_not is not None or not isinstance(role, Leading):
        turn.order(RefuseFetch(to=fetch.broker_id, reason=why_not or NOT_LEADER))
        if fetch.leader_epoch > replica.noted.leader_epoch:
            turn.order(ReadNode())
        return
    before = role.progress.get(fetch.broker_id)
    one = acknowledging.progressed(before, fetch, turn.replica.now_ms)
    turn.change(role=replace(role, progress=acknowledging.with_progress(role.progress, fetch.broker_id, one)))
    advance(turn)
    change_set(turn)
    turn.order(
        AnswerFetch(
            to=fetch.broker_id,
            leader_epoch=role.leader_epoch,
            fetch_offset=fetch.fetch_offset,
            high_watermark=turn.replica.high_watermark,
            log_start_offset=turn.replica.log.log_start_offset,
        )
    )


def follower_lost(turn: Turn, broker_id: int) -> None:
    """Wait no longer for a follower whose connection has ended: it may leave the set now."""
    replica, role = turn.replica, turn.replica.role
    if isinstance(role, Leading) and (one := role.progress.get(broker_id)) is not None:
        silent = replace(one, heard_ms=min(one.heard_ms, replica.now_ms - replica.silent_ms))
        turn.change(role=replace(role, progress=acknowledging.with_progress(role.progress, broker_id, silent)))
        change_set(turn)


def followers_heard(turn: Turn, event: FollowersHeard) -> None:
    """Note that members which have everything are alive. One that lacks something must say itself how far it is."""
    replica, role, node = turn.replica, turn.replica.role, turn.replica.node
    turn.change(now_ms=max(replica.now_ms, event.now_ms))
    if not isinstance(role, Leading) or node is None:
        return
    heard = {
        member.broker_id: replace(one, heard_ms=turn.replica.now_ms)
        for member in node.members
        if member.broker_id in event.broker_ids
        and (one := role.progress.get(member.broker_id)) is not None
        and acknowledging.reached(member, one, acks_on_disk=replica.acks_on_disk) >= replica.log.end_offset
    }
    turn.change(role=replace(role, progress={**role.progress, **heard}))


def forget_left(turn: Turn, before: State, node: State) -> None:
    """Forget how far a broker was that has left the set, so that it comes in again by a new fetch only.

    A process that stops sends none. Otherwise its leader would take it back at once, and have to remove it when it is dead.
    """
    role = turn.replica.role
    if isinstance(role, Leading) and role.leader_epoch == node.leader_epoch:
        left = {one.broker_id for one in before.members} - {one.broker_id for one in node.members}
        if left & role.progress.keys():
            kept = {broker_id: one for broker_id, one in role.progress.items() if broker_id not in left}
            turn.change(role=replace(role, progress=kept))


def why_refused(replica: Replica, event: FetchReceived) -> str | None:
    """Return why a fetch is not answered, None when it is."""
    role, node, fetch = replica.role, replica.node, event.fetch
    if not isinstance(role, Leading) or node is None:
        return NOT_LEADER
    if not following.is_same_topic(replica, fetch.topic_id):
        return "another topic had this name"
    if fetch.leader_epoch != role.leader_epoch:
        return "another epoch"
    if is_stranger(node, fetch.broker_id):
        return "not a replica of this partition"
    if must_be_silent(replica):
        return "cut off from ZooKeeper"
    if is_beyond(fetch.written_offset, replica.log.end_offset):
        return "more than the leader has"
    is_empty = fetch.written_offset <= max(fetch.log_start_offset, replica.log.log_start_offset)
    if not is_empty and not is_match(event):
        return "another batch at the end"
    return None


def must_be_silent(replica: Replica) -> bool:
    """Return whether this leader needs a swap and gets no answer from ZooKeeper: then another one must be able to take over."""
    return replica.is_cut_off and bool(replica.undecided)


def is_stranger(node: State, broker_id: int) -> bool:
    return not node.must_keep(broker_id)


def is_beyond(written_offset: int, end_offset: int) -> bool:
    return written_offset > end_offset


def is_match(event: FetchReceived) -> bool:
    """Return whether the follower's last batch is the one that this log holds there."""
    return (event.own_epoch, event.own_crc) == (event.fetch.last_epoch, event.fetch.last_crc)


# -- the watermark ---------------------------------------------------------------------------------


def advance(turn: Turn) -> None:
    """Raise the watermark as far as every needed member has come, and answer what waited for that.

    The watermark may be higher: `flush.ack=always` came after it. A duplicate is answered by what holds now.
    """
    replica, role, node = turn.replica, turn.replica.role, turn.replica.node
    if not isinstance(role, Leading) or node is None:
        return
    members = acknowledging.needed(node, replica.undecided)
    reaches = [
        acknowledging.own_reach(member, replica.log, acks_on_disk=replica.acks_on_disk)
        if member.broker_id == replica.broker_id
        else acknowledging.reached(member, role.progress.get(member.broker_id), acks_on_disk=replica.acks_on_disk)
        for member in members
    ]
    if not reaches:
        return
    reached = min(reaches)
    high_watermark = acknowledging.watermark(replica.high_watermark, reaches)
    done = [each for each in replica.producers if each.offset <= reached]
    deleted = [each for each in replica.deleters if each.offset <= deleted_by_all(replica, role, node)]
    turn.change(
        high_watermark=high_watermark,
        producers=tuple(each for each in replica.producers if each.offset > reached),
        deleters=tuple(each for each in replica.deleters if each not in deleted),
    )
    turn.order(*(Acknowledge(token=each.token) for each in (*done, *deleted)))


# -- deleting --------------------------------------------------------------------------------------


def delete(turn: Turn, event: DeleteRecords) -> None:
    replica = turn.replica
    if not isinstance(replica.role, Leading):
        turn.order(Refuse(token=event.token, reason=NOT_LEADER))
    elif not may_delete(event.offset, replica.high_watermark):
        turn.order(Refuse(token=event.token, reason="beyond the high watermark"))
    else:
        turn.change(deleters=(*replica.deleters, Waiter(token=event.token, offset=event.offset)))
        turn.order(AdvanceStart(to_offset=event.offset))


def may_delete(offset: int, high_watermark: int) -> bool:
    return offset <= high_watermark


def deleted_by_all(replica: Replica, role: Leading, node: State) -> int:
    """Return the log start that every needed member has noted: none of them can bring the records back."""
    starts = [replica.log.log_start_offset]
    for member in acknowledging.needed(node, replica.undecided):
        if member.broker_id != replica.broker_id:
            one = role.progress.get(member.broker_id)
            known = one is not None and acknowledging.is_of_this_life(member, one)
            starts.append(one.log_start_offset if known and one is not None else -1)
    return min(starts)


# -- the set ---------------------------------------------------------------------------------------


def change_set(turn: Turn) -> None:
    """Propose the next change of the set, if one is due and none is undecided."""
    replica, role, node = turn.replica, turn.replica.role, turn.replica.node
    if not isinstance(role, Leading) or node is None or replica.undecided:
        return
    own = node.member(replica.broker_id)
    wanted_life = replica.lives.of(is_flushed=replica.acks_on_disk)
    needed_offset = max(replica.high_watermark, role.start_offset)
    mine = (
        None
        if own is None
        else set_changes.converted(own, wanted_life, flushed_offset=replica.log.flushed_offset, needed_offset=needed_offset)
    )
    if mine is not None:
        propose(turn, set_changes.with_member(node, mine))
        return
    wanted = set_changes.next_change(
        node,
        role.progress,
        leader=replica.broker_id,
        needed_offset=needed_offset,
        acks_on_disk=replica.acks_on_disk,
        min_insync_replicas=replica.min_insync_replicas,
        now_ms=replica.now_ms,
        silent_ms=replica.silent_ms,
        began_ms=role.began_ms,
        log_start_offset=min(replica.log.log_start_offset, needed_offset),
    )
    if wanted is None:
        wanted = reassignment.completed(node, replica.broker_id, replica.min_insync_replicas)
    if wanted is not None:
        propose(turn, wanted)


def hand_over_if_moved(turn: Turn) -> None:
    """Ask a target of a reassignment to take over, when all have the log and this leader is none of them."""
    replica, role, node = turn.replica, turn.replica.role, turn.replica.node
    if not isinstance(role, Leading) or node is None or replica.undecided or replica.broker_id in node.targets:
        return
    if reassignment.is_complete(node, replica.min_insync_replicas):
        to = reassignment.successor(node, role.progress, replica.broker_id, after_ms=replica.now_ms - replica.silent_ms)
        if to is not None:
            turn.order(HandOver(to=to, leader_epoch=role.leader_epoch))


def propose(turn: Turn, wanted: State) -> None:
    """Ask for a swap on the version of the obeyed node."""
    replica = turn.replica
    assert replica.node is not None
    fence = swaps.fence_of(replica.broker_id, replica.start_number)
    node = replica.node
    version = wanted.base + node.zookeeper_version + 1
    swap = Swap(version=node.version, wanted=replace(wanted, version=version), fence=fence, base=node.base)
    turn.change(undecided=(*replica.undecided, swap))
    turn.order(AskSwap(swap=swap))


def next_state(replica: Replica, node: State, *, dead: frozenset[int], recover_at: int | None, base: int = 0) -> State:
    """Return the node that this replica wants when it takes over: a new epoch that begins at its own end.

    Dead members are dropped down to `min.insync.replicas`.
    """
    end = replica.log.end_offset
    lost = node.lost
    own = replica.entry()
    if recover_at is not None or own is None:
        is_flushed = replica.acks_on_disk and replica.log.flushed_offset >= end  # else it becomes a disk life later: `converted`
        life = replica.lives.of(is_flushed=is_flushed)
        members: tuple[states.Member, ...] = (states.Member(broker_id=replica.broker_id, life=life),)
        lost = lost if recover_at is None or recover_at <= end else (*lost, (end, recover_at))
    else:
        kept = list(node.members)
        for member in node.members:
            if (
                member.broker_id in dead
                and member != own
                and set_changes.may_be_without(tuple(kept), replica.min_insync_replicas)
            ):
                kept.remove(member)
        members = tuple(kept)
    return replace(
        node,
        leader=replica.broker_id,
        start_number=replica.start_number,
        leader_epoch=states.after(node),
        members=members,
        epochs=states.with_epoch(node.epochs, states.after(node), end),
        lost=lost,
        is_restored=False,
        base=max(base, node.base),
    )
