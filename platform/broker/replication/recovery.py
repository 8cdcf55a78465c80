"""What is lost when no member of the set can lead any more, and which replica continues. Pure.

There are two causes. Every member has lost its life: then something that was acknowledged may be lost. Or ZooKeeper has lost the
partition's node, or went back to an older one: then the replicas' own notes say which set was the last, and as long as one of its
members has its life, nothing is lost.

A `Plan` is for an operator, before anything is decided: `headrace partition recover` shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .facts import LogFacts
from .lives import Lives
from .replica import Noted
from .state import State

UNKNOWN_BYTES = 1 << 40
"""How much may have been written and lost so that no replica knows of it: what was not flushed was in the memory of one machine,
and an offset advances by at least a byte."""
LATER = 1_000_000
"""How far behind the newest that is noted versions and epochs begin after such a loss: a replica that is not there, or a client,
may know later ones. There is room for 2,000 losses."""


NOTHING_NOTED = Noted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A replica that can be reached, and what it knows."""

    broker_id: int
    lives: Lives
    log: LogFacts
    damaged: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of its log that cannot be read."""
    high_watermark: int = 0
    noted: Noted = NOTHING_NOTED
    """The last node that it obeyed, also before its start."""
    obeys: int | None = None
    """The version of the node that it obeys, None while it obeys none."""
    min_insync_replicas: int = 1
    """As it knows the topic's settings. An earlier release does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`chosen` continues at `start_offset`. `lost`: per replica, the offset ranges that would be lost if it were the one.

    The log is to begin at `log_start_offset`: another replica knows that what was before it is deleted.
    """

    chosen: int
    start_offset: int
    log_start_offset: int
    lost: dict[int, tuple[tuple[int, int], ...]]
    doubt: str | None = "no in-sync replica has what it had acknowledged"
    """Why acknowledged records may be lost. None: none is, and the next batch follows the last one."""
    base: int = 0
    """Where the node's versions begin from now on, if ZooKeeper went back; else 0."""
    leader_epoch: int = 0
    """The new epoch, if ZooKeeper went back; else 0."""


def is_due(node: State, candidates: Sequence[Candidate]) -> bool:
    """Return whether no member can lead: each one was heard, and none has the life that the set names."""
    by_broker = {each.broker_id: each for each in candidates}
    return bool(node.members) and all(
        member.broker_id in by_broker and member.life not in by_broker[member.broker_id].lives for member in node.members
    )


def plan(node: State, candidates: Sequence[Candidate]) -> Plan:
    """Return who continues: the newest epoch, then the longest log without damage. Raises ValueError without candidates.

    The next batch goes behind every offset that may have been used, so that no offset means two records.
    """
    if not candidates:
        raise ValueError("no replica of the partition can be reached: start its brokers first")
    chosen = max(candidates, key=_worth)
    return planned(chosen, behind_all(node, candidates), candidates)


def planned(chosen: Candidate, start_offset: int, candidates: Sequence[Candidate]) -> Plan:
    """Return the plan by which this one continues there."""
    lost = {
        each.broker_id: (*each.damaged, *(((each.log.end_offset, start_offset),) if each.log.end_offset < start_offset else ()))
        for each in candidates
    }
    log_start_offset = max(each.log.log_start_offset for each in candidates)
    return Plan(chosen=chosen.broker_id, start_offset=start_offset, log_start_offset=log_start_offset, lost=lost)


def behind_all(node: State, candidates: Sequence[Candidate]) -> int:
    """Return an offset behind every one that was used. Consumers and mirrors may have read what no replica holds any more."""
    known = max(
        [each.log.end_offset for each in candidates]
        + [each.high_watermark for each in candidates]
        + [each.start_offset for each in node.epochs]
        + [end for _, end in node.lost]
    )
    return known + UNKNOWN_BYTES


def _worth(one: Candidate) -> tuple[int, int, int]:
    damaged = sum(end - begin for begin, end in one.damaged)
    return one.log.last_epoch, one.log.end_offset - one.log.log_start_offset - damaged, -one.broker_id
