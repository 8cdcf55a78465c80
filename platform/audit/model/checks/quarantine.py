"""Records that are counted as quarantined, and whose quarantine topic was deleted: nobody can read them any more. Pure.

A record in quarantine balances because it has an address. If the topic is deleted, the address is gone, and the counts of
mirror, load and application do not show it.
"""

from ..facts import TopicFacts, WindowFacts
from ..messages import QUARANTINED
from ..tiers import is_sink

QUARANTINE = "quarantine"


def gone_records(topic: TopicFacts, window: WindowFacts) -> int:
    """Return how many records of the window may have stood in a quarantine topic that was deleted.

    Those that were told before that was noticed; in a window that had ended by then, all, for late news move an entry's time.
    """
    gone_ms = topic.quarantine_gone_ms
    if gone_ms is None:
        return 0
    has_ended = window.window_end_ms <= gone_ms
    of_tiers = sum(
        entry.quarantined.count
        for tier, found in window.found.items()
        if not is_sink(tier)
        for entry in found.values()
        if has_ended or entry.updated_ms <= gone_ms
    )
    told = (book.losses.get(QUARANTINED, 0) for book in window.producers.values() if has_ended or book.heard_ms <= gone_ms)
    return of_tiers + sum(told)


def words_of(count: int) -> str:
    """Return why such a window is not known."""
    return f"{count} quarantined records cannot be read any more: their quarantine topic was deleted"
