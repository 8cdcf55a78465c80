"""Whom the leader, or a member itself, takes into the set and out of it. Pure.

A leader removes a member for which it cannot wait, but never so that fewer than `min.insync.replicas` are left: each member that
is left may be the last one with what was acknowledged.
"""

from collections.abc import Mapping
from dataclasses import replace

from .facts import Progress
from .lives import counts_flushed
from .state import Member, State


def joins(progress: Progress, *, needed_offset: int, acks_on_disk: bool, log_start_offset: int) -> bool:
    """Return whether a replica may come in: without damage, and with everything up to `needed_offset`.

    That is the later one of the high watermark and the start of the epoch. It must also have deleted what the leader has deleted,
    or deleted records would be back when it leads.
    """
    has = progress.flushed_offset if acks_on_disk else progress.written_offset
    return not progress.is_damaged and has >= needed_offset and has_deleted(progress, log_start_offset)


def has_deleted(progress: Progress, log_start_offset: int) -> bool:
    return progress.log_start_offset >= log_start_offset


def may_be_without(members: tuple[Member, ...], min_insync_replicas: int) -> bool:
    """Return whether the set stays large enough with one member less."""
    return len(members) > min_insync_replicas


def without(state: State, broker_id: int) -> State:
    return replace(state, members=tuple(each for each in state.members if each.broker_id != broker_id))


def with_member(state: State, member: Member) -> State:
    """Return the state with this member, in the place of an earlier life of the same broker."""
    return replace(state, members=tuple(sorted((*without(state, member.broker_id).members, member))))


def next_change(
    state: State,
    progress: Mapping[int, Progress],
    *,
    leader: int,
    needed_offset: int,
    acks_on_disk: bool,
    min_insync_replicas: int,
    now_ms: int,
    silent_ms: int,
    began_ms: int,
    log_start_offset: int,
) -> State | None:
    """Return the set that the leader wants next, None when the present one will do. One broker at a time.

    A follower that has not been heard since the leader's epoch began at `began_ms` has until `silent_ms` after that.
    """
    for broker_id in state.copies:
        one = progress.get(broker_id)
        if broker_id == leader or one is None:
            continue
        wanted = Member(broker_id=broker_id, life=one.lives.of(is_flushed=acks_on_disk))
        is_silent = now_ms - one.heard_ms >= silent_ms
        if is_silent or wanted in state.members:
            continue
        if joins(one, needed_offset=needed_offset, acks_on_disk=acks_on_disk, log_start_offset=log_start_offset):
            return with_member(state, wanted)
    for member in state.members:
        one = progress.get(member.broker_id)
        if member.broker_id == leader or not may_be_without(state.members, min_insync_replicas):
            continue
        if member.broker_id not in state.copies:
            return without(state, member.broker_id)
        heard_ms = began_ms if one is None else one.heard_ms
        is_another = one is not None and (member.life not in one.lives or one.is_damaged)
        if is_another or now_ms - heard_ms >= silent_ms:
            return without(state, member.broker_id)
    return None


def converted(member: Member, wanted_life: str, *, flushed_offset: int, needed_offset: int) -> Member | None:
    """Return the leader's own entry after `flush.ack` has changed, None while it must stay.

    A disk life says that the disk has everything acknowledged. That is true only once the log is flushed to `needed_offset`: a
    new leader knows an old watermark, so the start of its epoch counts, too. A memory life in its place needs nothing.
    """
    if member.life == wanted_life or (counts_flushed(wanted_life) and flushed_offset < needed_offset):
        return None
    return replace(member, life=wanted_life)
