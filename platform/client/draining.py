"""Where the leaderships and the replicas of a broker go when it is taken out of service. Pure: lists in, lists out.

A new replica goes to the broker with the fewest replicas. It takes the place of the old one in the list, so that the preferred
leader changes only where the drained broker was preferred. Room on disks and racks are not considered.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .reassignment import Brokers, Partition
from .topic_admin import PartitionPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """What is to be done, and what cannot be done."""

    moves: Mapping[Partition, Brokers]
    """The replicas that each partition is to have, the preferred leader first."""
    stuck: Mapping[Partition, str]
    """Why other partitions stay as they are."""


def plan_leaders(places: Mapping[Partition, PartitionPlace], drained: int) -> DrainPlan:
    """Return the lists after which no preferred leader is the drained broker: it is last where it leads or was first.

    A list that is in order already is returned, too: that partition needs an election only.
    """
    moves: dict[Partition, Brokers] = {}
    stuck: dict[Partition, str] = {}
    firsts = Counter(one.replicas[0] for one in places.values() if one.replicas and one.replicas[0] != drained)
    for partition, one in sorted(places.items()):
        if drained not in one.replicas or drained not in (one.leader, one.replicas[0]):
            continue
        others = [each for each in one.replicas if each != drained]
        ready = [each for each in others if each in one.in_sync_replicas]
        if not others:
            stuck[partition] = f"broker {drained} has the only replica: move it (without --leaders-only)"
        elif not ready:
            stuck[partition] = f"no other replica than that of broker {drained} is in sync: start the brokers of {others}"
        else:
            first = (
                one.replicas[0] if one.replicas[0] in ready else min(ready, key=lambda each: (firsts[each], others.index(each)))
            )
            firsts[first] += 1
            moves[partition] = (first, *(each for each in others if each != first), drained)
    return DrainPlan(moves=moves, stuck=stuck)


def plan_replicas(places: Mapping[Partition, PartitionPlace], drained: int, live: Collection[int]) -> DrainPlan:
    """Return the lists without the drained broker, with as many replicas as before, on the `live` brokers besides it."""
    targets = sorted(set(live) - {drained})
    counts = Counter(each for one in places.values() for each in one.replicas)
    firsts = Counter(one.replicas[0] for one in places.values() if one.replicas)
    chosen: dict[Partition, int] = {}
    stuck: dict[Partition, str] = {}
    choices: dict[Partition, list[int]] = {}
    for partition, one in sorted(places.items()):
        if drained not in one.replicas:
            continue
        if why := _why_stuck(one, drained, targets):
            stuck[partition] = why
        else:
            choices[partition] = [each for each in targets if each not in one.replicas]
    for partition in sorted(choices, key=lambda each: (len(choices[each]), each)):
        is_first = places[partition].replicas[0] == drained
        new = min(choices[partition], key=lambda each: (counts[each], firsts[each] if is_first else 0, each))
        chosen[partition] = new
        counts[new] += 1
        firsts[new] += is_first
    _even_out(chosen, choices, counts)
    moves = {
        partition: tuple(chosen[partition] if each == drained else each for each in places[partition].replicas)
        for partition in sorted(chosen)
    }
    return DrainPlan(moves=moves, stuck=stuck)


def _why_stuck(one: PartitionPlace, drained: int, targets: list[int]) -> str | None:
    if one.leader < 0:
        return "it has no leader, so its records cannot be copied: start the brokers of its replicas"
    if all(each in one.replicas for each in targets):
        return (
            f"it has {len(one.replicas)} replicas, and of the other brokers {targets} none is without one: start another broker, "
            "or give it fewer replicas (headrace partition reassign)"
        )
    return None


def _even_out(chosen: dict[Partition, int], choices: Mapping[Partition, list[int]], counts: Counter[int]) -> None:
    """Choose another broker while one would have two replicas fewer. Ends: each change makes the counts more even."""
    has_changed = True
    while has_changed:
        has_changed = False
        for partition, old in chosen.items():
            new = min(choices[partition], key=lambda each: (counts[each], each))
            if counts[new] + 1 < counts[old]:
                chosen[partition] = new
                counts[old] -= 1
                counts[new] += 1
                has_changed = True
