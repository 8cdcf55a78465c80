"""A follower: cut what the leader never had, fetch, append, acknowledge. Pure."""

from dataclasses import replace

from . import state as states
from .facts import BatchFacts, FetchAnswer, LogFacts, ReplicaFetch
from .orders import (
    AdvanceStart,
    Alarm,
    AppendCopied,
    AskFlush,
    BeginEmpty,
    BeginEpoch,
    CloseConnections,
    Cut,
    Jump,
    Note,
    ReadNode,
    SendFetch,
)
from .replica import Following, Replica, Stopped, Turn
from .state import NO_LEADER, State

Gap = tuple[int, int]


def follow(turn: Turn, node: State) -> None:
    """Follow the leader that the node names: another process, or an earlier start of this broker.

    Where that changes nothing, the next fetch waits for the next tick: a leader that refuses is not asked again at once.
    """
    role = Following(leader=node.leader, leader_epoch=node.leader_epoch)
    if role != turn.replica.role:
        turn.change(role=role)
        turn.order(CloseConnections())
        go_on(turn)


def go_on(turn: Turn) -> None:
    """Cut if that is needed, then fetch. A process that stops and has left the set cuts at its next start."""
    replica, role = turn.replica, turn.replica.role
    has_left = replica.is_leaving and replica.entry() is None
    if not isinstance(role, Following) or replica.is_cutting or has_left or not cut_if_needed(turn):
        return
    if role.leader not in (replica.broker_id, NO_LEADER):
        fetch(turn, replica.log.end_offset)


def cut_if_needed(turn: Turn) -> bool:
    """Order the cut that the obeyed node asks for; return whether none is needed."""
    replica = turn.replica
    node, log = replica.node, replica.log
    assert node is not None
    target = states.cut_target(log.epochs, log.end_offset, node.epochs)
    if node.base:
        target = min(target, states.unknown_start(log.epochs, log.end_offset, node.epochs))
    if target >= log.end_offset or not log.last_epoch:
        return True
    if contradicts_the_watermark(replica, node, target):
        stop(turn, "the node asks to cut what was acknowledged: ZooKeeper may have gone back to an older copy")
    else:
        turn.change(is_cutting=True)
        kept = states.cut_epochs(log.epochs, target)
        is_all = target <= log.log_start_offset
        turn.order(BeginEmpty(at_offset=target, epochs=kept) if is_all else Cut(to_offset=target))
    return False


def contradicts_the_watermark(replica: Replica, node: State, target: int) -> bool:
    """Return whether the cut would remove what this replica knows to be acknowledged, and no recovery has given it up."""
    return target < replica.high_watermark and not any(begin == target for begin, _ in node.lost)


def stop(turn: Turn, reason: str) -> None:
    """Obey no node any more, also after a restart, until an operator decides."""
    noted = replace(turn.replica.noted, went_back=True)
    turn.change(role=Stopped(reason=reason, went_back=True), noted=noted)
    turn.order(
        Note(version=noted.version, leader_epoch=noted.leader_epoch, members=noted.members, went_back=True),
        CloseConnections(),
        Alarm(reason=reason, state=turn.replica.node),
    )


def fetch(turn: Turn, fetch_offset: int) -> None:
    replica, role = turn.replica, turn.replica.role
    assert isinstance(role, Following)
    log = replica.log
    request = ReplicaFetch(
        topic_id=replica.topic_id,
        broker_id=replica.broker_id,
        leader_epoch=role.leader_epoch,
        lives=replica.lives,
        fetch_offset=fetch_offset,
        written_offset=log.end_offset,
        flushed_offset=log.flushed_offset,
        log_start_offset=log.log_start_offset,
        last_epoch=log.last_epoch,
        last_crc=log.last_crc,
        is_damaged=log.is_damaged,
    )
    turn.order(SendFetch(to=role.leader, fetch=request))


def answered(turn: Turn, answer: FetchAnswer) -> None:
    """Append what the leader sent, if it belongs there."""
    replica, role = turn.replica, turn.replica.role
    if not isinstance(role, Following) or replica.is_cutting or not is_of_my_leader(role, answer):
        return
    if not is_same_topic(replica, answer.topic_id):
        return
    log = replica.log
    begin = begins_at(answer)
    if log.end_offset < begin or is_inside_first_batch(log, answer, begin):
        turn.change(is_cutting=True)
        turn.order(BeginEmpty(at_offset=begin, epochs=states.cut_epochs(answer.epochs, begin)[-1:]))
        return
    if log.is_damaged:
        # Nothing is copied behind damage. But what the leader has deleted needs no repair, and no other replica could repair it.
        if answer.log_start_offset > log.log_start_offset:
            turn.order(AdvanceStart(to_offset=answer.log_start_offset))
        return
    taken = fitting(log, answer)
    if taken:
        fetch(turn, _end_of(taken[-1]))
    end, own_epoch = log.end_offset, log.last_epoch
    for one in taken:
        leader_epoch = states.epoch_at(answer.epochs, end)
        if leader_epoch > own_epoch:
            own_epoch = leader_epoch
            turn.order(BeginEpoch(leader_epoch=leader_epoch, start_offset=end))
        if isinstance(one, BatchFacts):
            turn.order(AppendCopied(batch=one, leader_epoch=leader_epoch))
        else:
            turn.order(Jump(to_offset=one[1]))
        end = _end_of(one)
    if answer.log_start_offset > log.log_start_offset:
        turn.order(AdvanceStart(to_offset=answer.log_start_offset))
    turn.change(high_watermark=max(replica.high_watermark, min(answer.high_watermark, log.end_offset)))


def begins_at(answer: FetchAnswer) -> int:
    """Return where an empty log begins that is to become the leader's: where the first batch that the leader has kept does.

    DeleteRecords may name an offset inside a batch. The leader then keeps that batch, and the log's start is inside it.
    """
    for first in answer.batches[:1]:
        if is_sound(first) and first.position <= answer.log_start_offset < first.next_offset:
            return first.position
    return answer.log_start_offset


def is_inside_first_batch(log: LogFacts, answer: FetchAnswer, begin: int) -> bool:
    """Return whether an empty log began inside the batch that is the leader's first: at the log's start, from an answer that did
    not have this batch.
    """
    return log.log_start_offset == log.end_offset and begin < log.end_offset <= answer.log_start_offset


def is_of_my_leader(role: Following, answer: FetchAnswer) -> bool:
    """Return whether the answer is of the epoch that is followed. Answers of an earlier leader may arrive late."""
    return answer.leader_epoch == role.leader_epoch


def is_same_topic(replica: Replica, topic_id: str) -> bool:
    """Return whether a message is about this topic, and not about another one that had its name."""
    return topic_id == replica.topic_id


def fitting(log: LogFacts, answer: FetchAnswer) -> list[BatchFacts | Gap]:
    """Return the batches and announced gaps of the answer that continue the log without a fault, in order."""
    taken: list[BatchFacts | Gap] = []
    end = log.end_offset
    for batch in answer.batches:
        if batch.position != end:
            if not is_announced(end, batch.position, answer.gaps):
                return taken
            taken.append((end, batch.position))
        if not is_sound(batch):
            return taken
        taken.append(batch)
        end = batch.next_offset
    return taken + [(end, gap_end) for begin, gap_end in answer.gaps if begin <= end < gap_end]


def _end_of(one: BatchFacts | Gap) -> int:
    return one.next_offset if isinstance(one, BatchFacts) else one[1]


def is_sound(batch: BatchFacts) -> bool:
    return batch.is_sound


def is_announced(end_offset: int, position: int, gaps: tuple[Gap, ...]) -> bool:
    """Return whether the leader has announced that its log holds nothing between these offsets.

    A gap may have grown since the follower jumped over a part of it.
    """
    return any(begin <= end_offset < end == position for begin, end in gaps)


def refused(turn: Turn, leader_epoch: int) -> None:
    """The leader does not answer: look whether there is a newer one."""
    if isinstance(turn.replica.role, Following):
        turn.order(ReadNode())


def appended(turn: Turn, before: LogFacts) -> None:
    """Acknowledge what is in the log now, and have it flushed."""
    replica = turn.replica
    if isinstance(replica.role, Following) and not replica.is_cutting and replica.log != before:
        if replica.log.flushed_offset < replica.log.end_offset:
            turn.order(AskFlush(incarnation=replica.log.incarnation))
        go_on(turn)
