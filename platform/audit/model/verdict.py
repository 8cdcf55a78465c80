"""Whether every record of one window is where it must be. Values in, verdict out; `now_ms` is one of them. Source: DESIGN.md
section 6.

A table of contents: each hop has a check of its own, which returns one frozen finding, and the findings are summed once.

- `checks.producers`: every run of every producer has let go of the window.
- `checks.live`: the live log was read to its end after the last seal, and holds what producers sent.
- `checks.later`: each later tier has accounted for the offsets where the tier before it holds the window, and holds the same.
- `checks.quarantine_read`: what counts as quarantined is in the quarantine topic.

Where that does not hold yet, the window is OPEN. Where the one who is missing has stood still past its deadline, it is UNKNOWN,
and names who that is. Nothing else makes COMPLETE. A producer that died may be retired by an operator: a window that balances so
is ACCEPTED, never COMPLETE. The safeguards are listed in docs/AUDIT_RULES.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .case import Case, HopFinding, summed
from .checks.digests import digest_of_tier
from .checks.later import check_later, count_of
from .checks.live import check_live
from .checks.producers import check_producers
from .checks.quarantine_read import check_quarantine
from .differences import MOST_RECORDS
from .facts import Difference, Kind, SinkRow, TopicFacts, Verdict, WindowFacts
from .messages import QUARANTINED
from .reasons import accepted_by, not_settled, reason_of, without_address
from .tiers import CONSUMER, LIVE, PRODUCER, QUARANTINE, TierRule, is_reader, parted
from .waits import earliest
from .windows import utc

AUDIT = "audit"
"""Named as silent when the audit itself cannot hear: its topic or the live cluster does not answer."""


def decide(topic: TopicFacts, window: WindowFacts, *, now_ms: int, most_records: int | None = MOST_RECORDS) -> Verdict:
    """Return the verdict on `window` as of `now_ms`, and the rows of the readers that have no part in it. Each difference names
    at most `most_records` stretches; None: all.
    """
    inside, beside = parted(topic.rules, window.window_start_ms)
    case = Case(topic=topic, window=window, now_ms=now_ms, most_records=most_records)
    chain = replace(case, window=_without_readers(window, {rule.name for rule in inside}))
    hops = _hops(chain, inside)
    found = summed("", [HopFinding(tier=PRODUCER, losses=one.losses) for one in window.producers.values()] + [*hops.values()])
    found = summed("", [found, _check_hearing(chain, found)])
    rows = {rule.name: _row(case, rule, hops, found) for rule in beside}
    return _verdict(chain, inside, hops, found, {name: row for name, row in rows.items() if row is not None})


def _without_readers(window: WindowFacts, but: set[str]) -> WindowFacts:
    """Return the window without what readers have of it that take no part in its verdict."""
    if not any(is_reader(tier) and tier not in but for tier in window.found):
        return window
    return replace(window, found={tier: found for tier, found in window.found.items() if tier in but or not is_reader(tier)})


def _hops(case: Case, rules: Sequence[TierRule]) -> dict[str, HopFinding]:
    """Return what the check of each hop came to, by its tier, and of the quarantine."""
    hops: dict[str, HopFinding] = {}
    for rule in rules:
        before = hops.get(rule.before or "")
        if rule.name == PRODUCER:
            hops[PRODUCER] = check_producers(case, rule)
        elif rule.name == LIVE:
            hops[LIVE] = check_live(case, rule, before)
        else:
            hops[rule.name] = check_later(case, rule, before)
    hops[QUARANTINE] = check_quarantine(case, {PRODUCER, *case.window.found})
    return hops


def _check_hearing(case: Case, found: HopFinding) -> HopFinding:
    """Return that the audit itself is silent, where something is waited for and it has not heard for too long."""
    deaf_ms = case.now_ms - (case.topic.heard_all_ms or case.topic.listening_since_ms)
    deadline_ms = max((rule.deadline_ms for rule in case.topic.rules if rule.name in (PRODUCER, LIVE)), default=0)
    if (found.is_settled and not found.silent) or deaf_ms <= deadline_ms:
        return HopFinding(tier=AUDIT)
    since = utc(case.topic.heard_all_ms or case.topic.listening_since_ms)
    return HopFinding(tier=AUDIT, silent={AUDIT: f"the audit has not been able to read its own topic since {since}"})


def _row(case: Case, rule: TierRule, hops: Mapping[str, HopFinding], chain: HopFinding) -> SinkRow | None:
    """Return the row of a reader; None where it began behind the window, or nobody named it and it never reported. `hops`,
    `chain`: what was found of the tiers of the verdict, one by one and together.
    """
    if not rule.is_required and not case.topic.logs.get(rule.name):
        return None
    name = rule.before or LIVE
    before = hops.get(name, HopFinding(tier=name, is_settled=False))
    mine = check_later(case, rule, before)
    found = summed(rule.name, [mine, check_quarantine(case, {rule.name})])
    if not before.is_settled:
        silent = {who: words for who, words in chain.silent.items() if not who.startswith(CONSUMER)}
        found = replace(found, silent=silent, waiting=(*found.waiting, not_settled(name, is_read=name in hops)))
    count = count_of(case, rule, is_settled=mine.is_settled)
    if count is None and mine.is_settled:
        return None
    accepted, accounted = list(_accepted(case.window, found.differences)), without_address(found.losses)
    kind = _kind(found, accepted, accounted, is_by_a_person=bool(accepted))
    return SinkRow(
        kind=kind,
        count=count,
        **_figures(found),
        quarantined=sum(one.quarantined.count for one in case.entries(rule.name)),
        losses={name: lost for name, lost in found.losses.items() if lost},
        silent=tuple(found.silent),
        reason=_words(case, found, kind, rule.name, accepted, accounted),
        differences=found.differences,
        waits=found.waits,
    )


def _verdict(
    case: Case, rules: Sequence[TierRule], hops: Mapping[str, HopFinding], found: HopFinding, rows: Mapping[str, SinkRow]
) -> Verdict:
    tiers = {rule.name: _count(case, rule, is_settled=hops[rule.name].is_settled) for rule in rules}
    accepted, accounted = list(_accepted(case.window, found.differences)), without_address(found.losses)
    kind = _kind(found, accepted, accounted, is_by_a_person=bool(accepted or found.retired))
    bad = {one.tier for one in found.differences}
    first_bad = next((name for name in (*(rule.name for rule in case.topic.rules), QUARANTINE) if name in bad), None)
    settled = [name for name in tiers if hops[name].is_settled]
    aside = sum(one.quarantined.count for tier in case.window.found for one in case.entries(tier))
    known = case.window.known
    return Verdict(
        kind=kind,
        tiers=tiers,
        **_figures(found),
        accounted=accounted,
        quarantined=aside + found.losses.get(QUARANTINED, 0),
        first_bad_tier=first_bad,
        unaudited=found.unaudited - found.unread_reports,
        unread_reports=found.unread_reports,
        compared_identities=max((tiers[name] or 0 for name in settled), default=0),
        compared_tiers=len(settled),
        redelivered=case.window.redelivered,
        erased=sum(known[tier].missing for tier in accepted if known[tier].kind == "erased"),
        losses={name: count for name, count in found.losses.items() if count},
        silent=tuple(found.silent),
        retired=tuple(found.retired.values()),
        reason=_words(case, found, kind, first_bad, accepted, accounted),
        differences=found.differences,
        sinks=rows,
        waits=earliest([found.waits, *(row.waits for row in rows.values())]),
    )


def _count(case: Case, rule: TierRule, *, is_settled: bool) -> int | None:
    """Return the tier's count of the window: None until it reported, 0 once it has passed it with none."""
    if rule.name != PRODUCER:
        return count_of(case, rule, is_settled=is_settled)
    producers = case.window.producers
    said = sum(one.acknowledged.count for book in producers.values() for one in book.sent.values())
    return said if producers or is_settled else None


def _figures(found: HopFinding) -> dict[str, int]:
    return {name: sum(getattr(one, name) for one in found.differences) for name in ("missing", "doubled", "altered")}


def _accepted(window: WindowFacts, differences: Sequence[Difference]) -> Iterator[str]:
    """Yield the tiers whose differences an operator has accepted: just these records, no others."""
    for tier, known in window.known.items():
        mine = [one for one in differences if one.tier == tier]
        numbers = tuple(sum(getattr(one, name) for one in mine) for name in ("missing", "doubled", "altered"))
        is_of_these = known.digest in ("", digest_of_tier(mine))
        if mine and is_of_these and numbers == (known.missing, known.doubled, known.altered):
            yield tier


def _kind(found: HopFinding, accepted: Sequence[str], accounted: Mapping[str, int], *, is_by_a_person: bool) -> Kind:
    if not found.is_settled or found.silent:
        return Kind.UNKNOWN if found.silent else Kind.OPEN
    left = [one for one in found.differences if one.tier not in accepted]
    if any(one.missing for one in left):
        return Kind.INCOMPLETE
    if any(one.altered for one in left):
        return Kind.ALTERED
    if any(one.doubled for one in left):
        return Kind.DOUBLED
    if accounted:
        return Kind.ACCOUNTED
    return Kind.ACCEPTED if is_by_a_person else Kind.COMPLETE


def _words(
    case: Case, found: HopFinding, kind: Kind, first_bad: str | None, accepted: Sequence[str], accounted: Mapping[str, int]
) -> str:
    return reason_of(
        kind,
        silent=list(found.silent.values()),
        waiting=list(dict.fromkeys(found.waiting)),
        retired=list(found.retired.values()),
        known=[accepted_by(case.window, tier) for tier in accepted],
        first_bad=first_bad,
        accounted=accounted,
        differences=found.differences,
    )
