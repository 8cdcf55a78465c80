"""Which offsets every needed member has, so that they may be acknowledged. Pure.

A batch is acknowledged when every member of the held set *and of every set that is proposed and not decided* has it.
"""

from collections.abc import Iterable, Mapping

from .facts import LogFacts, Progress, ReplicaFetch
from .lives import counts_flushed
from .state import Member, State
from .swaps import Swap


def needed(held: State, undecided: Iterable[Swap]) -> frozenset[Member]:
    """Return the members that must have a batch: of the held set, and of each proposed one, because either may be the set."""
    return frozenset(held.members).union(*(swap.wanted.members for swap in undecided))


def reached(member: Member, progress: Progress | None, *, acks_on_disk: bool) -> int:
    """Return the offset before which this member has everything; -1 when it has acknowledged nothing under this life."""
    if progress is None or not is_of_this_life(member, progress):
        return -1
    return progress.flushed_offset if acks_on_disk or counts_flushed(member.life) else progress.written_offset


def is_of_this_life(member: Member, progress: Progress) -> bool:
    return member.life in progress.lives


def own_reach(member: Member, log: LogFacts, *, acks_on_disk: bool) -> int:
    """Return the offset before which the leader's own log counts. The leader flushes, too."""
    return log.flushed_offset if acks_on_disk or counts_flushed(member.life) else log.end_offset


def counted(fetch: ReplicaFetch) -> int:
    """Return the offset that a fetch acknowledges: what was appended. What is asked for may never arrive."""
    return fetch.written_offset


def progressed(before: Progress | None, fetch: ReplicaFetch, now_ms: int) -> Progress:
    """Return a follower's progress after its fetch: the maximum within one epoch and one life."""
    written, flushed, start = counted(fetch), fetch.flushed_offset, fetch.log_start_offset
    if before is not None and before.lives == fetch.lives:
        written, flushed = max(written, before.written_offset), max(flushed, before.flushed_offset)
        start = max(start, before.log_start_offset)
    return Progress(
        lives=fetch.lives,
        written_offset=written,
        flushed_offset=flushed,
        log_start_offset=start,
        is_damaged=fetch.is_damaged,
        heard_ms=now_ms,
    )


def with_progress(all_progress: Mapping[int, Progress], broker_id: int, one: Progress) -> Mapping[int, Progress]:
    return {**all_progress, broker_id: one}


def watermark(before: int, reaches: Iterable[int]) -> int:
    """Return the high watermark, which never goes back."""
    return max(before, min(reaches))
