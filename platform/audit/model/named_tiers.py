"""Which groups take part in a topic's verdicts by an operator's word, and from which window on. Pure.

A word holds from its window on, and replaces what was said of the same group for that window and later ones. So the words of a
group are a line of time, and an earlier one is kept as long as it says something of a window.
"""

from collections.abc import Sequence

from .errors import MalformedReport
from .messages import TierChange
from .tiers import END_MS, Spans

MOST_CHANGES = 1_000
"""Words that are kept for one topic; an operator who gives more is a program that has gone astray."""


def with_change(changes: Sequence[TierChange], change: TierChange) -> tuple[TierChange, ...]:
    """Return the topic's words with one more, by group and window. Raises MalformedReport beyond `MOST_CHANGES`."""
    kept = [one for one in changes if one.tier != change.tier or one.from_ms < change.from_ms]
    if len(kept) >= MOST_CHANGES:
        raise MalformedReport(
            f"{change.topic} has {len(kept)} changes of its groups, and the most is {MOST_CHANGES}: that of {change.tier} "
            f"by {change.by} is not taken. `headrace audit tier add` with an earlier --from replaces the later ones of its group"
        )
    return tuple(sorted([*kept, change], key=lambda one: (one.tier, one.from_ms)))


def windows_of(changes: Sequence[TierChange], tier: str) -> Spans:
    """Return the starts of the windows in whose verdict the group takes part by these words, in order."""
    spans: list[tuple[int, int]] = []
    mine = [one for one in changes if one.tier == tier]
    for at, one in enumerate(mine):
        to_ms = mine[at + 1].from_ms if at + 1 < len(mine) else END_MS
        if one.change != "add":
            continue
        if spans and spans[-1][1] == one.from_ms:
            spans[-1] = (spans[-1][0], to_ms)
        else:
            spans.append((one.from_ms, to_ms))
    return tuple(spans)
