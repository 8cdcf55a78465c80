"""Parts of the words that a verdict gives for itself. Pure."""

from collections.abc import Mapping, Sequence

from .facts import WindowFacts
from .messages import QUARANTINED

MOST_REASONS = 4


def without_address(losses: Mapping[str, int]) -> dict[str, int]:
    """Return the losses of which nobody can say where the records are."""
    return {name: count for name, count in losses.items() if count and name != QUARANTINED}


def accepted_by(window: WindowFacts, tier: str) -> str:
    known = window.known[tier]
    return f"{tier}, {known.kind}, said {known.by}: {known.reason}"


def some(reasons: Sequence[str]) -> str:
    """Return the reasons in words, the first few of many."""
    more = len(reasons) - MOST_REASONS
    return "; ".join([*reasons[:MOST_REASONS], *([f"and {more} more"] if more > 0 else [])])


def not_settled(before: str, *, is_read: bool) -> str:
    """Return why a sink's row waits: for the tier that it is compared with."""
    words = f"what the {before} log must hold is not settled"
    return words if is_read else f"{words}: the audit reads none (`headrace audit run --{before}`)"
