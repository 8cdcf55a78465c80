"""Application → live: whether the live log was read to its end after everything that producers said, and how it differs. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from ..case import Case, HopFinding, held_up, not_known, summed
from ..differences import Findings, compare_producers
from ..runs import Run
from ..tiers import LIVE, PRODUCER, TierRule
from ..waits import HEARD, End, Waits, Word
from .former import lost_from_live
from .later import taken
from .producers import last_report_bound_ms, last_report_ms
from .unheard import unheard_records, words_of


def check_live(case: Case, rule: TierRule, sealed: HopFinding | None) -> HopFinding:
    """Return how live differs from what producers sent. `sealed`: what was found of them; None where none are expected."""
    if sealed is not None and not sealed.is_settled:
        return HopFinding(tier=LIVE, is_settled=False)
    reading = _not_read(case, rule, is_after_producers=sealed is not None)
    if reading is not None:
        return reading
    if sealed is None:
        return taken(case, rule, _former(case))
    unread = unheard_records(case.topic, case.window)
    unheard = replace(not_known(case, PRODUCER, unread, words_of(unread)), unread_reports=unread)
    return summed(LIVE, [unheard, _compared(case, rule, {**sealed.retired, **unheard.retired})])


def _not_read(case: Case, rule: TierRule, *, is_after_producers: bool) -> HopFinding | None:
    """Return who keeps the live log from being read as far as it must be; None where it is read."""
    read = case.topic.logs.get(LIVE, {})
    read_ms = min((log.caught_up_ms or 0 for log in read.values()), default=0)
    sent = case.window.producers.values() if is_after_producers else ()
    told = {key.partition for book in sent for key in book.sent}
    after_ms = last_report_bound_ms(case) if is_after_producers else 0
    if is_after_producers and not (read_ms > after_ms and told <= read.keys()):
        after_ms = last_report_ms(case)
    if not read or not told <= read.keys():
        since_ms = max(after_ms, case.seen_ms())
        return held_up(case, LIVE, LIVE, since_ms, rule.deadline_ms, "the live log has not been read")
    for partition, log in read.items():
        if log.caught_up_ms is None or log.caught_up_ms <= after_ms:
            waiting_for = f"live-{partition} is not read up to the last seal"
            is_read: Waits = {End(LIVE, partition): after_ms}
            return held_up(case, LIVE, LIVE, max(after_ms, log.moved_ms), rule.deadline_ms, waiting_for, waits=is_read)
    if not _has_heard_of_all_writers(case):
        waiting = ("the audit topic is not read up to what the live log holds",)
        return HopFinding(tier=LIVE, is_settled=False, waiting=waiting, waits={HEARD: case.counted_ms(LIVE) - 1})
    return None


def _has_heard_of_all_writers(case: Case) -> bool:
    """Return whether the audit topic was read up to what the live log holds: a producer announces itself before it writes."""
    return case.topic.heard_all_ms is not None and case.topic.heard_all_ms >= case.counted_ms(LIVE)


def _compared(case: Case, rule: TierRule, retired: Mapping[str, str]) -> HopFinding:
    """Compare what producers sent with what is in the live log under their producer ids.

    It is not settled where a producer that continues may yet tell of the surplus: a late event, its report on its way. `retired`:
    who is known to say nothing more.
    """
    findings = compare_producers(case.topic, case.window)
    runs = {run.key: run for run in case.window.owners.values()}
    forgiven: dict[str, str] = {}
    for key, count in sorted(findings.unreported.items()):
        run, name = runs[key], f"{PRODUCER}:{key.instance}"
        if _may_still_report(case, run, rule.deadline_ms):
            words = f"{name} may still report {count} late records in the live log"
            since_ms = case.counted_ms(LIVE)
            told: Waits = {Word(key): case.counts_since(since_ms) + rule.deadline_ms}
            return replace(held_up(case, LIVE, name, since_ms, rule.deadline_ms, words, waits=told), retired=forgiven)
        if run.retired is not None:
            default = f"{name}, retired by {run.retired.by}: {run.retired.reason}"
            words = forgiven.get(key.instance, retired.get(key.instance, default))
            forgiven[key.instance] = f"{words} ({count} of its records in the live log were never reported)"
    owners = case.window.owners
    unaudited = sum(row[1] for entry in case.entries(LIVE) for row in entry.held if row[3] not in owners)
    return replace(taken(case, rule, findings), retired=forgiven, unaudited=unaudited)


def _may_still_report(case: Case, run: Run, deadline_ms: int) -> bool:
    """Return whether a report may be on its way: of a run that continues, or was not heard since it should have reported."""
    if run.is_closed or run.retired is not None:
        return False
    return run.heard_ms - case.counts_since(case.counted_ms(LIVE)) <= deadline_ms


def _former(case: Case) -> Findings:
    """Return what live has lost, where no producers are expected."""
    findings = Findings()
    for partition, piece in lost_from_live(case.window, {}):
        findings.add(partition, piece)
    return findings
