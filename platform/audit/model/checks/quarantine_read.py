"""Quarantine: whether what counts as quarantined is in the quarantine topic, once that is read to its end. Pure."""

from collections.abc import Collection
from dataclasses import replace

from ..case import Case, HopFinding, held_up, not_known
from ..differences import differences_of
from ..messages import QUARANTINED
from ..tiers import LIVE, PRODUCER, QUARANTINE
from .quarantine import behind, claimed_ms, compare_quarantine, gone_records, unread_words, words_of


def check_quarantine(case: Case, tiers: Collection[str]) -> HopFinding:
    """Return which records that these tiers count as quarantined are not there, or cannot be read."""
    said_ms = claimed_ms(case.window, tiers)
    if said_ms is None:
        return HopFinding(tier=QUARANTINE)
    gone = gone_records(case.topic, case.window, tiers)
    if gone:
        return not_known(case, QUARANTINE, gone, words_of(gone))
    unread = behind(case.topic, said_ms)
    if unread is not None:
        still_ms, is_read = unread
        deadline_ms = next(rule.deadline_ms for rule in case.topic.rules if rule.name == LIVE)
        waiting_for = "the quarantine topic is not read up to what was last put there"
        since_ms = max(said_ms, still_ms)
        return held_up(case, QUARANTINE, QUARANTINE, since_ms, deadline_ms, waiting_for, waits={is_read: said_ms})
    findings = compare_quarantine(case.topic, case.window, tiers)
    aside = sum(one.quarantined.count for tier in tiers for one in case.entries(tier))
    if PRODUCER in tiers:
        aside += sum(book.losses.get(QUARANTINED, 0) for book in case.window.producers.values())
    expired = not_known(case, QUARANTINE, findings.unread, unread_words(findings.unread), of=aside)
    differences = differences_of(QUARANTINE, findings, case.window, case.most_records)
    return replace(expired, differences=tuple(differences), losses=findings.losses)
