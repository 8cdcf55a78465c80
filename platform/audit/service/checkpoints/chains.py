"""Which checkpoints can be rebuilt from what is whole on the topic, what the next one may build on, and what must be kept. Pure.

A base holds the whole store. An increment holds what changed since the checkpoint before it *and* since the one before that: it
may be put on either. So one checkpoint that is damaged later, of whatever kind, takes no other one with it, as long as the base
before the newest is kept, too.
"""

from collections.abc import Mapping, Sequence

from .form import Complete

KEPT = 2
"""Checkpoints from which the audit topic can be read on, and bases on the topic."""
MOST_INCREMENTS = 100
"""Increments behind a base; then comes a new base."""
GROWTH = 1
"""Times as many bytes as their base the increments behind it take; then comes a new base. A rebuild reads 1 + GROWTH bases."""

Plan = tuple[Complete, ...]
"""A base, and the increments that go onto it in this order."""


def plans(whole: Sequence[Complete]) -> dict[str, Plan]:
    """Return checkpoint → how it is rebuilt, in the order of the topic; those that nothing leads to are left out.

    `whole`: the complete checkpoints in the order of the topic.
    """
    found: dict[str, Plan] = {}
    for one in whole:
        if one.is_base:
            found[one.about.checkpoint] = (one,)
            continue
        before = next((found[name] for name in one.about.after if name in found), None)
        if before is not None:
            found[one.about.checkpoint] = (*before, one)
    return found


def usable(whole: Sequence[Complete], made: Sequence[str]) -> list[str]:
    """Return those of the checkpoints `made` (the newest first) onto which an increment can go; none where a base is due."""
    known = plans(whole)
    found = [name for name in made if name in known]
    if not found or sum(one.is_base for one in whole) < KEPT:
        return []
    base, *increments = known[found[0]]
    has_grown = sum(one.payload_bytes for one in increments) >= GROWTH * base.payload_bytes
    return [] if has_grown or len(increments) >= MOST_INCREMENTS else found


def kept(whole: Sequence[Complete]) -> tuple[Mapping[int, int], int] | None:
    """Return from which offsets the audit topic, and from which the checkpoint topic must be kept; None: all of both.

    One damaged checkpoint, whichever it is, then leaves one from which the audit topic can be read on. An audit topic that was
    lost begins again: the later checkpoint is the one that stands further ahead in it then.
    """
    last = [plan[-1].about.audit for plan in plans(whole).values()][-KEPT:]
    bases = [one for one in whole if one.is_base]
    if len(bases) < KEPT:
        return None
    audit = {partition: min(one.get(partition, 0) for one in last) for partition in last[-1]}
    return audit, bases[-KEPT].from_offset
