"""Parts of the words that a verdict gives for itself. Pure."""

from collections.abc import Mapping, Sequence

from .facts import Difference, Kind, TopicFacts, WindowFacts
from .messages import QUARANTINED
from .tiers import MIRROR, TierRule

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


def never_reported(topic: TopicFacts, rule: TierRule) -> str:
    """Return that a tier has said nothing of the topic; of a mirror, why it may not copy it."""
    words = f"{rule.name} has never reported for this topic"
    if rule.name == MIRROR and topic.is_made_anew:
        words += (
            " since it was created again under its name: a mirror never mixes two logs. Once you need nothing of the "
            "earlier topic's "
            f"copy, delete it (`headrace topic delete {topic.topic} --cluster offline`): the new one is copied then"
        )
    return words


def reason_of(
    kind: Kind,
    *,
    silent: Sequence[str],
    waiting: Sequence[str],
    retired: Sequence[str],
    known: Sequence[str],
    first_bad: str | None,
    accounted: Mapping[str, int],
    differences: Sequence[Difference],
) -> str:
    """Return why the verdict is `kind`. `retired`, `known`: what operators have accepted."""
    match kind:
        case Kind.UNKNOWN:
            words = some(silent)
        case Kind.OPEN:
            words = some(waiting)
        case Kind.INCOMPLETE | Kind.ALTERED | Kind.DOUBLED:
            words = f"the first tier that differs from the one before it is {first_bad}"
        case Kind.COMPLETE:
            words = "every tier accounts for what the one before it holds"
        case Kind.ACCOUNTED:
            lost = ", ".join(f"{count} {name}" for name, count in sorted(accounted.items()))
            words = f"every tier accounts for what the one before it holds; named losses: {lost}"
        case Kind.ACCEPTED:
            words = "every tier accounts for what the one before it holds, except what an operator accepted: "
            words += some([*retired, *known])
    if not kind.is_final and differences:
        found = [f"{sum(getattr(one, name) for one in differences)} {name}" for name in ("missing", "doubled", "altered")]
        words += f"; so far proven: {', '.join(found)}, first at {first_bad}"
    if kind is not Kind.ACCEPTED:
        words += f"; without the final report of {some(retired)}" if retired else ""
        words += f"; accepted: {some(known)}" if known else ""
    return words
