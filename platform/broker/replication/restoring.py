"""A partition whose node ZooKeeper has lost, or has in an older version: who continues, and whether everything is there. Pure.

Each replica that sees such a node stops, also for its next starts. So what the stopped replicas hold and have noted is final.
Each record that was acknowledged is at each member of the last set, and the newest epoch with the longest log holds what any
member with its life holds. The newest note may be older than the last set, if the leader of that set has lost its disk. But the
last set had at least `min.insync.replicas` members: if fewer replicas have lost something, one of its members has not. Source:
decision 88.
"""

from collections.abc import Sequence
from dataclasses import replace

from .model import is_older
from .recovery import LATER, Candidate, Plan, behind_all, planned
from .state import State


def is_due(node: State, candidates: Sequence[Candidate]) -> bool:
    """Return whether a replica has stopped because the node is older, or the node was made by a restore and never led since.

    A replica that has noted a newer node and has not stopped may have read it a moment later than the caller.
    """
    return node.is_restored or any(each.noted.went_back and is_older(node, each.noted) for each in candidates)


def is_final(node: State, one: Candidate) -> bool:
    """Return whether what this replica answered stays so: it does not lead or follow by a node from before the loss."""
    return one.obeys is None or one.obeys == node.version


def plan(node: State, candidates: Sequence[Candidate]) -> Plan:
    """Return who continues: of the replicas that noted a newer node than ZooKeeper has, the newest epoch, then the longest log,
    then the first in the list.

    `candidates` has only final ones. Raises ValueError without one.
    """
    if not candidates:
        raise ValueError("no replica of the partition has answered: start its brokers first")
    doubt = why_unsure(node, candidates)
    chosen = max(candidates, key=lambda one: _worth(node, one))
    if doubt is None and (chosen.damaged or chosen.log.is_damaged):
        doubt = f"the log of broker {chosen.broker_id}, which has most, is damaged: start the broker of an undamaged copy"
    start_offset = chosen.log.end_offset if doubt is None else behind_all(node, candidates)
    latest = max([node.version, *(one.noted.version for one in candidates)])
    epochs = [known for one in candidates for known in (one.noted.leader_epoch, one.log.begun_epoch)]
    return replace(
        planned(chosen, start_offset, candidates),
        doubt=doubt,
        base=latest + LATER,
        leader_epoch=max([node.leader_epoch, *epochs]) + LATER,
    )


def why_unsure(node: State, candidates: Sequence[Candidate]) -> str | None:
    """Return why something acknowledged may be lost; None when each acknowledged record is at one of the candidates."""
    newest = max((one.noted for one in candidates), key=lambda noted: (noted.leader_epoch, noted.version))
    there = {one.broker_id: one for one in candidates}
    wanted = {*node.copies, *(member.broker_id for one in candidates for member in one.noted.members)}
    if missing := sorted(wanted - there.keys()):
        return f"what broker {_ids(missing)} holds is not known: it may have acknowledged more"
    others = [one.broker_id for one in candidates if one.noted.leader_epoch and not is_older(node, one.noted)]
    if node.leader_epoch and others:
        return f"broker {_ids(others)} obeyed the older node: since then records may have been acknowledged there"
    if not newest.leader_epoch:
        return None  # nothing was ever led, so nothing was acknowledged
    if not newest.members:
        return "an earlier release did not note which replicas were in sync"
    whole = {one.broker_id for one in candidates if _has_kept_all(one, candidates)}
    if not any(member.broker_id in whole for member in newest.members):
        return f"of the last in-sync replicas, broker {_ids([one.broker_id for one in newest.members])}, none has kept all it had"
    unsure = sorted(wanted - whole)
    if len(unsure) >= min(one.min_insync_replicas for one in candidates):
        return f"broker {_ids(unsure)} may not have kept all it had, and may have acknowledged records without the others"
    return None


def _has_kept_all(one: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Return whether a set that is noted anywhere names a life that this replica has: it holds all that it ever had in sets."""
    members = (member for other in candidates for member in other.noted.members)
    return any(member.broker_id == one.broker_id and member.life in one.lives for member in members)


def _worth(node: State, one: Candidate) -> tuple[bool, int, int, bool, int, int]:
    damaged_bytes = sum(end - begin for begin, end in one.damaged)
    log = one.log
    place = node.copies.index(one.broker_id) if one.broker_id in node.copies else len(node.copies)
    return is_older(node, one.noted), log.begun_epoch, log.end_offset, not log.is_damaged, -damaged_bytes, -place


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
