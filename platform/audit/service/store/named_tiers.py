"""What operators said of groups (`headrace audit tier add|remove`): a fact for each topic, so that it is in every checkpoint.

A topic that is created again keeps them, as it keeps its settings.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ....runtime.logs import get_logger
from ...model.codec import decode, encode
from ...model.messages import TierChange
from ...model.named_tiers import with_change
from ...model.tiers import END_MS, TierRule, in_order
from ..settings import AuditSettings
from .database import Database

log = get_logger(__name__)

TIERS = "tiers:"
"""Begins the name of the fact that has a topic's words, a line each, as they stood on the audit topic."""


class NamedTiers:
    """The words by topic, all in memory once somebody asks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes: dict[str, tuple[TierChange, ...]] | None = None

    def of(self, topic: str) -> Sequence[TierChange]:
        """Return the topic's words, by group and window."""
        return self._known().get(topic, ())

    def topics(self) -> list[str]:
        """Return the topics of which something was said, sorted."""
        return sorted(self._known())

    def take(self, change: TierChange) -> None:
        """Write a word down, in the transaction that the caller has begun. Raises MalformedReport."""
        known = self._known()
        changes = with_change(known.get(change.topic, ()), change)
        self._database.put_fact(TIERS + change.topic, "\n".join(encode(one).decode() for one in changes))
        known[change.topic] = changes

    def forget(self) -> None:
        """Read the store again when somebody asks: it is another one than was written, or was rolled back."""
        self._changes = None

    def _known(self) -> dict[str, tuple[TierChange, ...]]:
        if self._changes is None:
            facts = self._database.facts(TIERS)
            self._changes = {topic: tuple(_changes(words)) for topic, words in facts.items()}
        return self._changes


def _changes(words: str) -> list[TierChange]:
    reports = [decode(line.encode()) for line in words.split("\n")]
    return [one for one in reports if isinstance(one, TierChange)]


def tiers_json(
    settings: AuditSettings, topic: str, rules: Sequence[TierRule], changes: Sequence[TierChange]
) -> list[dict[str, Any]]:
    """Return each tier of a topic with what is expected of it, as of the windows behind the last report, and with the words."""
    by_name, left_out = {rule.name: rule for rule in rules}, settings.left_out(topic)
    found = []
    for name in in_order([*by_name, *left_out, *(one.tier for one in changes)]):
        rule = by_name.get(name)
        mine = [one for one in changes if one.tier == name]
        is_of_settings = settings.names(topic, name)
        spans = rule.in_verdict_of if rule is not None else ()
        is_inside = bool(spans) and spans[-1][1] == END_MS
        found.append(
            {
                "topic": topic,
                "tier": name,
                "takes_part": is_inside,
                "from_ms": spans[-1][0] if is_inside and not is_of_settings and mine else None,
                "named_by": "settings" if is_of_settings else "operator" if is_inside and mine else None,
                "left_out": name in left_out,
                "deadline_ms": None if rule is None else rule.deadline_ms,
                "changes": [
                    {"change": one.change, "from_ms": one.from_ms, "at_ms": one.at_ms, "by": one.by, "reason": one.reason}
                    for one in mine
                ],
                "contradiction": settings.contradiction(topic, name, mine[-1].change) if mine else None,
            }
        )
    return found


def warn_of_contradictions(settings: AuditSettings, changes: Iterable[TierChange]) -> None:
    """Log which of a topic's words have no effect, because the settings say otherwise."""
    for one in {change.tier: change for change in changes}.values():
        why = settings.contradiction(one.topic, one.tier, one.change)
        if why is not None:
            log.warning("tier_change_without_effect", topic=one.topic, tier=one.tier, change=one.change, by=one.by, reason=why)
