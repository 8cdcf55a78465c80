"""The tiers and which one each is compared with. producer → live → mirror → offline → warehouse, live → consumer:<group>, live →
sink:<group> and offline → sink:<group>@offline. A reader (a group or a sink) has a row of its own in each window. Only groups
that an operator names take part in the window's verdict.

Knows names and order. What a topic expects of them is a setting, see `TierRule`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

PRODUCER = "producer"
LIVE = "live"
MIRROR = "mirror"
OFFLINE = "offline"
WAREHOUSE = "warehouse"
MAIN = "main"
"""The branch of the table that readers get: no tier of the chain, but a row beside the verdict, told by the publish."""
CHAIN = (PRODUCER, LIVE, MIRROR, OFFLINE, WAREHOUSE)
QUARANTINE = "quarantine"
"""The topic's quarantine on the live cluster: no tier of the chain. Addresses of quarantined records are looked up in it."""
READ_BACK = (LIVE, OFFLINE, QUARANTINE)
"""Counted by the audit itself, from the logs; every other tier reports."""
CONSUMER = "consumer:"
SINK = "sink:"
AT_OFFLINE = "@offline"
"""Ends the name of a sink that reads the offline cluster: its offsets are that log's, and its group another than a live one's."""
GROUP_NAME = "[A-Za-z0-9._-]{1,200}"
"""The groups that a tier may be named after, as a regular expression: none of them ends in `AT_OFFLINE`."""
END_MS = 1 << 62
"""Above every start of a window."""
Spans = Sequence[tuple[int, int]]
"""Starts of windows: each from the first up to, and without, the second."""
EVERY_WINDOW: Spans = ((-END_MS, END_MS),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """What is expected of one tier of one topic."""

    name: str
    before: str | None
    """The tier it is compared with: the nearest expected one before it; None for the first."""
    deadline_ms: int
    """How long it may stand still, with something to do, before it counts as silent."""
    is_required: bool = True
    """False for a reader that was not named and that is expected only since it reports: it answers for what lies after the offset
    where it began."""
    in_verdict_of: Spans = EVERY_WINDOW
    """The windows in whose verdict it takes part. In all others it has a row beside the verdict."""

    def takes_part(self, window_start_ms: int) -> bool:
        """Return whether it takes part in the verdict on the window."""
        return any(from_ms <= window_start_ms < to_ms for from_ms, to_ms in self.in_verdict_of)


def is_tier(name: str) -> bool:
    """Return whether `name` is a tier of the graph."""
    return name in CHAIN or any(name.startswith(kind) and len(name) > len(kind) for kind in (CONSUMER, SINK))


def is_sink(name: str) -> bool:
    """Return whether a tier is a sink's."""
    return name.startswith(SINK)


def is_reader(name: str) -> bool:
    """Return whether a tier is a group's or a sink's: none of the chain."""
    return name.startswith((CONSUMER, SINK))


def parted(rules: Iterable[TierRule], window_start_ms: int) -> tuple[list[TierRule], list[TierRule]]:
    """Return the rules of the tiers that take part in the verdict on a window, and of those with a row beside it."""
    inside, beside = [], []
    for rule in rules:
        if not rule.takes_part(window_start_ms):
            beside.append(rule)
        else:
            inside.append(rule if rule.is_required else replace(rule, is_required=True))
    return inside, beside


def is_behind_mirror(name: str) -> bool:
    """Return whether a tier tells of the offline cluster's log, by the offsets there."""
    return name in (OFFLINE, WAREHOUSE) or (is_sink(name) and name.endswith(AT_OFFLINE))


def in_order(names: Iterable[str]) -> list[str]:
    """Return the tiers in the order of the graph: the chain first, then consumer groups and sinks by name."""
    return sorted(set(names), key=lambda name: (CHAIN.index(name), "") if name in CHAIN else (len(CHAIN), name))


def rules(
    required: Iterable[str],
    reporting: Iterable[str],
    deadline_ms: dict[str, int],
    default_deadline_ms: int,
    named: Mapping[str, Spans] | None = None,
) -> tuple[TierRule, ...]:
    """Return the rules of a topic, in order: the `required` tiers, those that have reported for it, and always live.

    (Without live there is nothing that producers and later tiers could be compared through.) `named`: groups that an operator has
    named, each with the windows in whose verdict it takes part.
    """
    named = named or {}
    must = {LIVE, *required}
    names = in_order(must | named.keys() | {name for name in reporting if is_tier(name)})
    chain = [name for name in names if name in CHAIN]
    made = []
    for name in names:
        if name in CHAIN:
            at = chain.index(name)
            before = chain[at - 1] if at else None
        elif is_behind_mirror(name):
            before = OFFLINE  # also where nobody reads that log: its row waits then, for its offsets may be no other log's
        else:
            before = next((tier for tier in (LIVE, PRODUCER) if tier in chain), None)
        kind = name.partition(":")[0]
        made.append(
            TierRule(
                name=name,
                before=before,
                deadline_ms=deadline_ms.get(name, deadline_ms.get(kind, default_deadline_ms)),
                is_required=name in must or name in CHAIN,
                in_verdict_of=_windows_of(name, must, named),
            )
        )
    return tuple(made)


def _windows_of(name: str, must: set[str], named: Mapping[str, Spans]) -> Spans:
    """Return the windows in whose verdict a tier takes part."""
    if name in CHAIN or (name in must and not is_sink(name)):
        return EVERY_WINDOW
    return named.get(name, ())
