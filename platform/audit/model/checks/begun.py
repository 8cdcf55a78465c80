"""What a tier that nobody requires answers for: a group or a sink that began in the middle of a log, and so of a window. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from ..books import Found
from ..facts import TopicFacts, WindowFacts
from ..tier_log import TierLog
from ..tiers import TierRule

END = 1 << 62
"""Above every offset, also of records that nobody copied (`origins.NOWHERE`)."""


def since_it_began(topic: TopicFacts, window: WindowFacts, rule: TierRule) -> WindowFacts:
    """Return the window with what the tier, and the one before it, have at and behind the offset where the tier began."""
    if rule.is_required or rule.before is None:
        return window
    logs = topic.logs.get(rule.name, {})
    if not any(log.begins_at for log in logs.values()):
        return window
    cut = {tier: _since(window.found.get(tier, {}), tier, logs) for tier in (rule.before, rule.name)}
    return replace(window, found={**window.found, **cut})


def _since(found: Mapping[int, Found], tier: str, logs: Mapping[int, TierLog]) -> dict[int, Found]:
    left = {}
    for partition, entry in found.items():
        begins_at = logs[partition].begins_at if partition in logs else 0
        if entry.first < begins_at:
            entry = _cut(entry, tier, begins_at)
        if entry:
            left[partition] = entry
    return left


def _cut(entry: Found, tier: str, begins_at: int) -> Found:
    left = Found(tier, entry.updated_ms)
    for mine, rows in zip(left.parts, entry.parts, strict=True):
        mine.add(rows.between(begins_at, END))
    return left
