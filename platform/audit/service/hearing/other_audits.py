"""Up to where the audit topic may be deleted while other audits, each with a store of its own, read it, too. Pure.

Each commits its position under its store's id. One that is frozen, or stopped for a week-end, finds what it has not read.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

SEEN_WITHIN_MS = 7 * 86_400_000
"""An audit that was not seen for so long is waited for no more: its store is rebuilt from a checkpoint."""


class Position(NamedTuple):
    """How far one audit has read the audit topic."""

    store: str
    """Its store's id."""
    at_ms: int
    """When it was seen."""
    audit: Mapping[int, int]
    """Partition → where it reads next."""


def least(mine: Mapping[int, int], others: Iterable[Position], now_ms: int) -> dict[int, int]:
    """Return before which offsets the audit topic may be deleted: `mine`, and nothing that an audit seen lately must yet read."""
    lately = [one.audit for one in others if now_ms - one.at_ms <= SEEN_WITHIN_MS]
    return {partition: min([offset, *(one.get(partition, offset) for one in lately)]) for partition, offset in mine.items()}
