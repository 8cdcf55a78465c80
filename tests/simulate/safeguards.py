"""The safeguards of the replication machine, each with the way to switch it off, and the trace that catches it then.

`test_safeguards.py` proves that the trace and the random search both notice. Where the search cannot, the reason stands here.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from headrace.broker.replication import (
    acknowledging,
    following,
    leading,
    lives,
    model,
    reassignment,
    recovery,
    replica,
    set_changes,
    state,
    swaps,
)
from headrace.broker.replication.facts import LogFacts
from headrace.broker.replication.state import EpochStart

from . import logs, world


class Safeguard(NamedTuple):
    trace: str
    """The name of the trace that catches it."""
    off: tuple[tuple[object, str, Callable[..., Any]], ...]
    faults: tuple[str, ...] = ()
    """What the runs of the search must contain."""
    unseen_by_search: str = ""
    """Why the search cannot notice."""


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _no(*_: Any, **__: Any) -> bool:
    return False


def _one(place: object, name: str, stand_in: Callable[..., Any]) -> tuple[tuple[object, str, Callable[..., Any]], ...]:
    return ((place, name, stand_in),)


def _same_epoch(node: state.State) -> int:
    return node.leader_epoch or 1


def _epochs_by_bytes(log: logs.ListLog) -> state.Epochs:
    found: dict[int, int] = {}
    for record in log.rows:
        found.setdefault(record.epoch_in_bytes, record.position)
    return tuple(EpochStart(leader_epoch=epoch, start_offset=start) for epoch, start in found.items())


def _start_alone(one: replica.Replica, *_: Any) -> int:
    return one.log.log_start_offset


def _by_anybody(one: replica.Replica) -> bool:
    return one.node is not None and (one.entry() is not None or not one.node.members)


def _shown_at_once(one: replica.Replica) -> int | None:
    return one.high_watermark if isinstance(one.role, replica.Leading) else None


def _by_broker(one: replica.Replica, node: state.State) -> bool:
    return node.leader == one.broker_id


def _known_ends(node: state.State, candidates: Iterable[recovery.Candidate]) -> int:
    return max(each.log.end_offset for each in candidates)


def _joins_unflushed(progress: Any, *, needed_offset: int, **_: Any) -> bool:
    return bool(progress.written_offset >= needed_offset)


def _converted_at_once(member: state.Member, wanted_life: str, **_: Any) -> state.Member | None:
    return None if member.life == wanted_life else replace(member, life=wanted_life)


def _follows_at_least(one: replica.Replica) -> bool:
    return not isinstance(one.role, replica.Leading) and one.node is not None


def _is_wanted(node: state.State, _: int) -> bool:
    return bool(node.targets)


def _written(member: state.Member, log: LogFacts, **_: Any) -> int:
    return log.end_offset


SAFEGUARDS: dict[str, Safeguard] = {
    "1 the epoch grows with each process": Safeguard("06", _one(state, "after", _same_epoch)),
    "1 a folder belongs to a topic's id": Safeguard("08", _one(lives, "belongs", _yes), ("recreate", "kill")),
    "2 a swap is fenced by its process": Safeguard(
        "02", _one(swaps, "fence_of", lambda *_: None), ("swap answer", "land late", "kill", "expire")
    ),
    "2 lost memory is a new life": Safeguard("05", _one(lives, "survives_in_memory", _yes), ("power",)),
    "2 a disk is trusted once it has everything": Safeguard(
        "17",
        ((set_changes, "joins", _joins_unflushed), (set_changes, "converted", _converted_at_once)),
        ("configure", "power"),
    ),
    "3 only this process's own swap makes it lead": Safeguard("06", _one(leading, "leads", _by_broker), ("kill",)),
    "3 waiters end with the leadership": Safeguard("09_waiter", _one(leading, "ended_waiters", lambda _: ()), ("expire",)),
    "4 proposed sets must have it, too": Safeguard(
        "01",
        _one(acknowledging, "needed", lambda held, _: frozenset(held.members)),
        ("swap answer", "silence", "lose message", "kill"),
    ),
    "2 a member by its disk counts by its disk": Safeguard(
        "17_back", _one(acknowledging, "counts_flushed", _no), ("power", "configure")
    ),
    "4 the leader's own flush counts": Safeguard("17_leader", _one(acknowledging, "own_reach", _written), ("power", "configure")),
    "4 the watermark never goes back": Safeguard(
        "04_watermark", _one(acknowledging, "watermark", lambda _, reaches: min(reaches)), ("silence", "kill")
    ),
    "4 a duplicate waits for its first": Safeguard("04_duplicate", _one(leading, "duplicate_waits_for", lambda _: 0), ("retry",)),
    "5 a fetch must match the leader's log": Safeguard("12", _one(leading, "is_match", _yes), ("stranger",)),
    "5 nobody has more than the leader": Safeguard("12", _one(leading, "is_beyond", _no), ("stranger",)),
    "5 only replicas are listened to": Safeguard(
        "12_not_a_replica",
        _one(leading, "is_stranger", _no),
        unseen_by_search="the machine asks nobody but the members; this saves memory, not records",
    ),
    "5 what is asked ahead does not count": Safeguard(
        "12_asked_ahead", _one(acknowledging, "counted", lambda fetch: fetch.fetch_offset), ("die soon",)
    ),
    "5 what an earlier life had does not count": Safeguard(
        "05_counted",
        _one(acknowledging, "is_of_this_life", _yes),
        unseen_by_search="what has another life cannot lead, and what it counts for it has: a second net",
    ),
    "5 answers of other epochs are dropped": Safeguard(
        "05_late_answer",
        _one(following, "is_of_my_leader", _yes),
        unseen_by_search="what was appended then does not match the leader's log, and is cut: a second net",
    ),
    "5 a batch's CRC is checked": Safeguard("10_on_the_way", _one(following, "is_sound", _yes), ("corrupt",)),
    "5 only announced gaps are jumped": Safeguard(
        "10_hole",
        _one(following, "is_announced", _yes),
        unseen_by_search="a leader's answer lacks a batch only where its file does, and damage ends an answer",
    ),
    "6 never fewer than min.insync.replicas": Safeguard(
        "07", _one(set_changes, "may_be_without", lambda members, _: len(members) > 1), ("silence", "power", "kill")
    ),
    "6 who comes in has everything": Safeguard("06_joins", _one(set_changes, "joins", _yes), ("silence", "kill")),
    "7 a damaged replica does not lead": Safeguard("10_damaged_member", _one(model, "may_lead", _by_anybody), ("damage", "kill")),
    "7 a log is cut before it leads": Safeguard(
        "04",
        _one(model, "has_cut", _yes),
        ("kill", "expire"),
    ),
    "7 an unanswered swap is settled by a swap": Safeguard(
        "03", _one(swaps, "settles", lambda swap, read: read.version >= swap.version), ("swap answer", "land late")
    ),
    "7 a new leader shows nothing too early": Safeguard(
        "07_shown", _one(world, "visible_end", _shown_at_once), ("kill", "expire")
    ),
    "8 a live leader is not taken over": Safeguard("16", _one(model, "may_take_over", _yes)),
    "8 a leader without ZooKeeper is silent": Safeguard(
        "16_cut_off",
        _one(leading, "must_be_silent", _no),
        unseen_by_search="liveness: the checks of the search end all faults before they ask who leads",
    ),
    "9 what the leader never had is cut": Safeguard("09", _one(following, "cut_if_needed", _yes), ("expire",)),
    "9 a flush from before a cut counts nothing": Safeguard(
        "09", _one(model, "is_current", _yes), ("expire", "power", "configure")
    ),
    "9 the list beside the log gives the epoch": Safeguard(
        "18", _one(logs.ListLog, "listed_epochs", _epochs_by_bytes), ("flip", "kill")
    ),
    "10 deletion is answered by all": Safeguard(
        "13", _one(leading, "deleted_by_all", _start_alone), ("delete records", "expire")
    ),
    "10 nothing is deleted beyond the watermark": Safeguard("13_beyond", _one(leading, "may_delete", _yes), ("delete records",)),
    "10 a replica comes in when it has deleted, too": Safeguard(
        "13_comes_in",
        _one(set_changes, "has_deleted", _yes),
        unseen_by_search="one run of some 5,000 has a deletion, then a replica that comes in too early, then its leadership",
    ),
    "10 a folder stays while the node names its broker": Safeguard(
        "19_folder", _one(reassignment, "may_remove_folder", _follows_at_least), ("reassign", "remove folder")
    ),
    "6 a move ends when its replicas have the log": Safeguard(
        "19_too_early", _one(reassignment, "is_complete", _is_wanted), ("reassign",)
    ),
    "11 a recovery begins behind every offset": Safeguard("14", _one(recovery, "behind_all", _known_ends), ("power", "recover")),
    "11 a recovery is for a loss": Safeguard("14_not_due", _one(recovery, "is_due", _yes), ("power", "recover")),
    "12 an older node is obeyed by nobody": Safeguard("11", _one(model, "is_older", _no), ("restore", "silence", "kill")),
    "12 what is known to be acknowledged is not cut": Safeguard(
        "11_known_to_be_acknowledged",
        _one(following, "contradicts_the_watermark", _no),
        unseen_by_search="a second net below the rule before it: no run gets past that one",
    ),
}
