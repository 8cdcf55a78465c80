"""One log → the next: live → mirror → offline → warehouse, and the log that a reader reads → the reader. Pure.

The two are compared once each has accounted for the offsets where the other holds records of the window.
"""

from dataclasses import replace

from ..books import Found
from ..case import Case, HopFinding, held_up
from ..differences import Findings, compare_tiers, copied, differences_of
from ..reasons import never_reported
from ..tier_log import TierLog, accounts_for
from ..tiers import LIVE, READ_BACK, TierRule
from ..waits import End, Subject, earliest
from .begun import since_it_began


def check_later(case: Case, rule: TierRule, before: HopFinding | None) -> HopFinding:
    """Return how the tier differs from the one before it, of which `before` was found; None where there is none."""
    if before is None or rule.before is None:
        return HopFinding(tier=rule.name)
    if not before.is_settled:
        return HopFinding(tier=rule.name, is_settled=False)
    topic = case.topic
    logs = topic.logs.get(rule.name, {})
    if not logs:
        return held_up(case, rule.name, rule.name, case.seen_ms(), rule.deadline_ms, never_reported(topic, rule))
    window = since_it_began(topic, case.window, rule)
    held = window.found.get(rule.before, {})
    mine = window.found.get(rule.name, {})
    asked = sorted(held.keys() | mine.keys() | (copied(window) if rule.before == LIVE else set()))
    for partition in asked:
        if partition in held and not accounts_for(rule.name, logs.get(partition), held[partition].held):
            return _gap(case, rule, rule, logs.get(partition), held[partition], partition)
    before_rule = next(one for one in topic.rules if one.name == rule.before)
    for partition in asked:
        log = topic.logs.get(rule.before, {}).get(partition)
        up_to = _live_end(case, rule, partition, mine[partition]) if partition in mine else None
        if partition in mine and not all(accounts_for(rule.before, log, rows, up_to) for rows in mine[partition].parts):
            found = _gap(case, rule, before_rule, log, mine[partition], partition)
            if up_to is not None:
                return found
            is_read: dict[Subject, int] = {End(LIVE, partition): mine[partition].updated_ms}
            return replace(found, waits=earliest((found.waits, is_read)))
    return taken(case, rule, compare_tiers(topic, window, rule, asked))


def taken(case: Case, rule: TierRule, findings: Findings) -> HopFinding:
    """Return what a comparison found of the tier; it is not settled where nobody can say what the tier held."""
    found = HopFinding(
        tier=rule.name,
        differences=tuple(differences_of(rule.name, findings, case.window, case.most_records)),
        losses=findings.losses,
    )
    if not findings.unread:
        return found
    words = f"{findings.unread} records may have been on {rule.name} at offsets that were gone before the audit read them"
    unread = held_up(case, rule.name, rule.name, case.seen_ms(), rule.deadline_ms, words)
    return replace(unread, differences=found.differences, losses=found.losses)


def count_of(case: Case, rule: TierRule, *, is_settled: bool) -> int | None:
    """Return the count of a tier that reads a log: None until it reported, 0 once it has passed the window with none."""
    entries = case.entries(rule.name)
    if entries:
        return sum(one.held.count for one in entries)
    if not is_settled:
        return None
    before = rule.before or ""
    held = case.window.found.get(before)
    return None if held and not since_it_began(case.topic, case.window, rule).found.get(before) else 0


def _gap(case: Case, rule: TierRule, who: TierRule, log: TierLog | None, entry: Found, partition: int) -> HopFinding:
    """Return that `who` has not accounted for what the other tier of the hop holds."""
    waiting_for = f"{who.name} has not accounted for {case.topic.topic}-{partition} up to offset {entry.end}"
    moved_ms, note = (0, "") if log is None else (log.moved_ms, log.note)
    return held_up(case, rule.name, who.name, max(entry.updated_ms, moved_ms), who.deadline_ms, waiting_for, note)


def _live_end(case: Case, rule: TierRule, partition: int, entry: Found) -> int | None:
    """Return where the live log ends, if it was read to its end since `entry` was found: nothing behind came from there.

    If live has lost its tail, a tier that reports may have copied the tail while live held it, and may not have reported that
    yet. It is asked for all offsets that live was ever read up to. Of a log that the audit reads itself, everything is known.
    """
    live = case.topic.logs.get(LIVE, {}).get(partition)
    if live is None or live.caught_up_ms is None or live.caught_up_ms <= entry.updated_ms:
        return None
    return live.position if rule.before in READ_BACK else max(live.position, live.former_below)
