"""The tiers and which one each is compared with. producer → live → mirror → offline → warehouse, live → consumer:<group>, live →
sink:<group> and offline → sink:<group>@offline. A sink has a row of its own in each window, and no part in the window's verdict.

Knows names and order. What a topic expects of them is a setting, see `TierRule`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """What is expected of one tier of one topic."""

    name: str
    before: str | None
    """The tier it is compared with: the nearest expected one before it; None for the first."""
    deadline_ms: int
    """How long it may stand still, with something to do, before it counts as silent."""
    is_required: bool = True
    """False for a consumer group that nobody configured and that is expected only since it reports: it answers for what
    lies after the offset where it began."""

    @property
    def is_sink(self) -> bool:
        """Return whether it has a row of its own, and no part in the verdict."""
        return is_sink(self.name)


def is_tier(name: str) -> bool:
    """Return whether `name` is a tier of the graph."""
    return name in CHAIN or any(name.startswith(kind) and len(name) > len(kind) for kind in (CONSUMER, SINK))


def is_sink(name: str) -> bool:
    """Return whether a tier is a sink's."""
    return name.startswith(SINK)


def is_behind_mirror(name: str) -> bool:
    """Return whether a tier tells of the offline cluster's log, by the offsets there."""
    return name in (OFFLINE, WAREHOUSE) or (is_sink(name) and name.endswith(AT_OFFLINE))


def in_order(names: Iterable[str]) -> list[str]:
    """Return the tiers in the order of the graph: the chain first, then consumer groups and sinks by name."""
    return sorted(set(names), key=lambda name: (CHAIN.index(name), "") if name in CHAIN else (len(CHAIN), name))


def rules(
    required: Iterable[str], reporting: Iterable[str], deadline_ms: dict[str, int], default_deadline_ms: int
) -> tuple[TierRule, ...]:
    """Return the rules of a topic, in order: the `required` tiers, those that have reported for it, and always live.

    (Without live there is nothing that producers and later tiers could be compared through.)
    """
    must = {LIVE, *required}
    names = in_order(must | {name for name in reporting if is_tier(name)})
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
            )
        )
    return tuple(made)
