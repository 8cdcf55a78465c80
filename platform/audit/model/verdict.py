"""Whether every record of one window is where it must be. Values in, verdict out; `now_ms` is one of them. Source: DESIGN.md
section 6.

The order of the argument, tier by tier: every run of every producer has let go of the window (`runs.Sealing`); the live log
was read to its end after the last seal; each later tier has accounted for the offsets where the tier before it holds the
window. Where that holds, the two tiers are compared record by record (`differences.py`). Where it does not yet hold, the
window is OPEN; where the one who is missing has stood still past its deadline, it is UNKNOWN and names him. Nothing else makes
COMPLETE. A producer that died may be retired by a person: then its last word stands for its seal, what it had stored and never
reported is nobody's surplus, and a window that balances so is ACCEPTED, never COMPLETE. The safeguards are listed in
docs/AUDIT.md.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from .books import Found
from .checks import unheard
from .checks.begun import since_it_began
from .checks.digests import digest_of_tier
from .checks.former import lost_from_live
from .checks.quarantine import behind, claimed_ms, compare_quarantine, gone_records, unread_words, words_of
from .differences import MOST_RECORDS, Findings, compare_producers, compare_tiers, copied, differences_of
from .facts import Difference, Kind, SinkRow, TopicFacts, Verdict, WindowFacts
from .messages import QUARANTINED
from .reasons import accepted_by, never_reported, not_settled, reason_of, without_address
from .runs import Run, Sealing
from .tier_log import TierLog, accounts_for
from .tiers import CONSUMER, LIVE, PRODUCER, QUARANTINE, TierRule, is_reader, parted

AUDIT = "audit"
"""Named as silent when the audit itself cannot hear: its topic or the live cluster does not answer."""


def decide(topic: TopicFacts, window: WindowFacts, *, now_ms: int, most_records: int | None = MOST_RECORDS) -> Verdict:
    """Return the verdict on `window` as of `now_ms`, and the rows of the readers that have no part in it. Each difference names
    at most `most_records` stretches; None: all.
    """
    inside, beside = parted(topic.rules, window.window_start_ms)
    names = {rule.name for rule in inside}
    chain = window
    if any(is_reader(tier) and tier not in names for tier in window.found):
        found = {tier: found for tier, found in window.found.items() if tier in names or not is_reader(tier)}
        chain = replace(window, found=found)
    judgement = _Judgement(topic, chain, now_ms, most_records)
    verdict = judgement.verdict(inside)
    rows = {rule.name: _Judgement(topic, window, now_ms, most_records).row_of(rule, judgement) for rule in beside}
    told = {name: row for name, row in rows.items() if row is not None}
    return replace(verdict, sinks=told) if told else verdict


class _Judgement(Sealing):
    """The argument on one window: what is settled so far, what is waited for, who is silent, what differs."""

    def __init__(self, topic: TopicFacts, window: WindowFacts, now_ms: int, most_records: int | None) -> None:
        super().__init__(topic, window, now_ms if topic.heard_all_ms is None else topic.heard_all_ms)
        self.now_ms = now_ms
        self.most_records = most_records
        self.settled: dict[str, bool] = {}
        self.differences: list[Difference] = []
        self.losses: Counter[str] = Counter()
        self.unaudited = 0
        self.unread_reports = 0

    def verdict(self, rules: Sequence[TierRule]) -> Verdict:
        """Return the verdict, in which the tiers of `rules` take part."""
        tiers: dict[str, int | None] = {}
        for book in self.window.producers.values():
            self.losses.update(book.losses)
        for rule in rules:
            if rule.name == PRODUCER:
                self.settled[PRODUCER] = self._producers_sealed(rule)
            elif rule.name == LIVE:
                self.settled[LIVE] = self._live_read(rule)
                if self.settled[LIVE]:
                    self.settled[LIVE] = self._compare_producers(rule) if rule.before is not None else self._compare_former(rule)
            else:
                self.settled[rule.name] = self._follows(rule)
            tiers[rule.name] = self._count(rule)
        self._quarantine_read({PRODUCER, *self.window.found})
        return self._sum_up(tiers)

    def row_of(self, rule: TierRule, upstream: "_Judgement") -> SinkRow | None:
        """Return the row of a reader; None where it began behind the window, or nobody named it and it never reported. `upstream`
        has made its verdict.
        """
        if not rule.is_required and not self.topic.logs.get(rule.name):
            return None
        before = rule.before or LIVE
        self.settled[before] = upstream.settled.get(before, False)
        self.settled[rule.name] = self.settled[before] and self._follows(rule)
        self._quarantine_read({rule.name})
        if not self.settled[before]:
            self.silent = {who: words for who, words in upstream.silent.items() if not who.startswith(CONSUMER)}
            self.waiting.append(not_settled(before, is_read=before in upstream.settled))
        count = self._count(rule)
        if count is None and self.settled[rule.name]:
            return None
        accepted, accounted = self._accepted(), without_address(self.losses)
        left = [one for one in self.differences if one.tier not in accepted]
        kind = self._kind(left, accounted, is_by_a_person=bool(accepted))
        return SinkRow(
            kind=kind,
            count=count,
            missing=sum(one.missing for one in self.differences),
            doubled=sum(one.doubled for one in self.differences),
            altered=sum(one.altered for one in self.differences),
            quarantined=sum(one.quarantined.count for one in self._entries(rule.name)),
            losses={name: lost for name, lost in self.losses.items() if lost},
            silent=tuple(self.silent),
            reason=self._words(kind, rule.name, accepted, accounted),
            differences=tuple(self.differences),
        )

    # -- who has said all ------------------------------------------------------------------------------------------------

    def _entries(self, tier: str) -> Iterator[Found]:
        yield from self.window.found.get(tier, {}).values()

    def _live_read(self, rule: TierRule) -> bool:
        """Return whether the live log was read to its end after everything that producers said, and their words after it."""
        if rule.before is not None and not self.settled[rule.before]:
            return False
        after_ms = self._last_word_ms() if rule.before is not None else 0
        read = self.topic.logs.get(LIVE, {})
        told = {key.partition for book in self.window.producers.values() for key in book.sent} if rule.before else set()
        if not read or not told <= read.keys():
            self._blame(LIVE, max(after_ms, self._seen_ms()), rule.deadline_ms, "the live log has not been read")
            return False
        for partition, log in read.items():
            if log.caught_up_ms is None or log.caught_up_ms <= after_ms:
                waiting_for = f"live-{partition} is not read up to the last seal"
                self._blame(LIVE, max(after_ms, log.moved_ms), rule.deadline_ms, waiting_for)
                return False
        if not self._has_heard_of_all_writers():
            self.waiting.append("the audit topic is not read up to what the live log holds")
            return False
        if rule.before is not None:
            self.unread_reports = unheard.unheard_records(self.topic, self.window)
            self._not_known(PRODUCER, self.unread_reports, unheard.words_of(self.unread_reports))
        return True

    def _not_known(self, who: str, count: int, words: str) -> None:
        """Make the window unknown for `count` records of it; accepted, where a person has said so of just as many."""
        known = self.window.known.get(who)
        if count and known is not None and known.missing == count:
            self.retired[who] = accepted_by(self.window, who)
        elif count:
            self.silent.setdefault(who, words)

    def _has_heard_of_all_writers(self) -> bool:
        """Return whether the audit topic was read up to what the live log holds: a producer announces itself before it writes."""
        return self.topic.heard_all_ms is not None and self.topic.heard_all_ms >= self._counted_ms(LIVE)

    def _last_word_ms(self) -> int:
        """Return when the last word of a producer on this window arrived: a report, a seal, or a person's retirement."""
        words = [self.window.reported_ms]
        for run in (*self.topic.runs, *self.topic.ended):
            if self._concerns(run):
                sealed_ms = run.sealed_ms(self.window.window_end_ms)
                words += [sealed_ms or 0, run.retired.heard_ms if run.retired is not None else 0]
        return max(words)

    def _counted_ms(self, tier: str) -> int:
        return max((one.updated_ms for one in self._entries(tier)), default=0)

    def _follows(self, rule: TierRule) -> bool:
        """Return whether the tier has accounted for all that the tier before it holds, and the other way round."""
        before = rule.before
        if before is None:
            return True
        if not self.settled[before]:
            return False
        logs = self.topic.logs.get(rule.name, {})
        if not logs:
            words = never_reported(self.topic, rule)
            self._blame(rule.name, self._seen_ms(), rule.deadline_ms, words)
            return False
        window = since_it_began(self.topic, self.window, rule)
        held = window.found.get(before, {})
        mine = window.found.get(rule.name, {})
        asked = sorted(held.keys() | mine.keys() | (copied(window) if before == LIVE else set()))
        for partition in asked:
            if partition in held and not accounts_for(rule.name, logs.get(partition), held[partition].held):
                self._blame_for_gap(rule.name, logs.get(partition), held[partition], rule.deadline_ms, partition)
                return False
        before_rule = next(one for one in self.topic.rules if one.name == before)
        for partition in asked:
            log = self.topic.logs.get(before, {}).get(partition)
            up_to = self._live_end(partition, mine[partition]) if partition in mine else None
            if partition in mine and not all(accounts_for(before, log, rows, up_to) for rows in mine[partition].parts):
                self._blame_for_gap(before, log, mine[partition], before_rule.deadline_ms, partition)
                return False
        return self._take(rule, compare_tiers(self.topic, window, rule, asked))

    def _blame_for_gap(self, tier: str, log: TierLog | None, entry: Found, deadline_ms: int, partition: int) -> None:
        waiting_for = f"{tier} has not accounted for {self.topic.topic}-{partition} up to offset {entry.end}"
        moved_ms, note = (0, "") if log is None else (log.moved_ms, log.note)
        self._blame(tier, max(entry.updated_ms, moved_ms), deadline_ms, waiting_for, note)

    def _live_end(self, partition: int, entry: Found) -> int | None:
        """Return where the live log ends, if it was read to its end since `entry` was found: nothing behind came from there."""
        live = self.topic.logs.get(LIVE, {}).get(partition)
        if live is None or live.caught_up_ms is None or live.caught_up_ms <= entry.updated_ms:
            return None
        return live.position

    # -- what they said --------------------------------------------------------------------------------------------------

    def _compare_producers(self, rule: TierRule) -> bool:
        """Compare what producers sent with what stands in the live log under their producer ids.

        Return False where a producer that goes on may yet tell of the surplus: a late event, its report on its way.
        """
        findings = compare_producers(self.topic, self.window)
        runs = {run.key: run for run in self.window.owners.values()}
        for key, count in sorted(findings.unreported.items()):
            if self._may_yet_tell(runs[key], rule.deadline_ms):
                words = f"{PRODUCER}:{key.instance} may yet tell of {count} late records in the live log"
                self._blame(f"{PRODUCER}:{key.instance}", self._counted_ms(LIVE), rule.deadline_ms, words)
                return False
            retired = runs[key].retired
            if retired is not None:
                self.retired.setdefault(key.instance, f"{PRODUCER}:{key.instance}, retired by {retired.by}: {retired.reason}")
                self.retired[key.instance] += f" ({count} of its records in the live log were never reported)"
        for entry in self._entries(LIVE):
            self.unaudited += sum(row[1] for row in entry.held if row[3] not in self.window.owners)
        return self._take(rule, findings)

    def _compare_former(self, rule: TierRule) -> bool:
        """Tell what live has lost, where no producers are expected."""
        findings = Findings()
        for partition, piece in lost_from_live(self.window, {}):
            findings.add(partition, piece)
        return self._take(rule, findings)

    def _quarantine_read(self, tiers: Collection[str]) -> None:
        """See that what these tiers count as quarantined is in the quarantine topic, once that is read to its end."""
        said_ms = claimed_ms(self.window, tiers)
        if said_ms is None:
            return
        gone = gone_records(self.topic, self.window, tiers)
        if gone:
            self._not_known(QUARANTINE, gone, words_of(gone))
            return
        still_ms = behind(self.topic, said_ms)
        if still_ms is not None:
            self.settled[QUARANTINE] = False
            deadline_ms = next(rule.deadline_ms for rule in self.topic.rules if rule.name == LIVE)
            waiting_for = "the quarantine topic is not read up to what was last put there"
            self._blame(QUARANTINE, max(said_ms, still_ms), deadline_ms, waiting_for)
            return
        findings = compare_quarantine(self.topic, self.window, tiers)
        self.losses.update(findings.losses)
        self.differences += differences_of(QUARANTINE, findings, self.window, self.most_records)
        self._not_known(QUARANTINE, findings.unread, unread_words(findings.unread))

    def _may_yet_tell(self, run: Run, deadline_ms: int) -> bool:
        """Return whether a report may be on its way: of a run that goes on, or was not heard since it should have told."""
        if run.is_closed or run.retired is not None:
            return False
        return run.heard_ms - max(self._counted_ms(LIVE), self.topic.listening_since_ms) <= deadline_ms

    def _take(self, rule: TierRule, findings: Findings) -> bool:
        """Take in what a comparison found; return False where nobody can say what the tier held."""
        self.losses.update(findings.losses)
        self.differences += differences_of(rule.name, findings, self.window, self.most_records)
        if findings.unread:
            words = f"{findings.unread} records may have been on {rule.name} at offsets that were gone before the audit read them"
            self._blame(rule.name, self._seen_ms(), rule.deadline_ms, words)
            return False
        return True

    def _count(self, rule: TierRule) -> int | None:
        """Return the tier's count of the window: None until it reported, 0 once it has passed it with none."""
        if rule.name == PRODUCER:
            sent = [one for book in self.window.producers.values() for one in book.sent.values()]
            said = sum(one.acknowledged.count for one in sent)
            return said if self.window.producers or self.settled[PRODUCER] else None
        entries = list(self._entries(rule.name))
        if entries:
            return sum(one.held.count for one in entries)
        if not self.settled[rule.name]:
            return None
        held = self.window.found.get(rule.before or "")
        return None if held and not since_it_began(self.topic, self.window, rule).found.get(rule.before or "") else 0

    def _sum_up(self, tiers: dict[str, int | None]) -> Verdict:
        if not all(self.settled.values()) or self.silent:
            deaf_ms = self.now_ms - (self.topic.heard_all_ms or self.topic.listening_since_ms)
            deadline_ms = max((rule.deadline_ms for rule in self.topic.rules if rule.name in (PRODUCER, LIVE)), default=0)
            if deaf_ms > deadline_ms:
                self.silent.setdefault(AUDIT, f"the audit has not been able to read its own topic for {deaf_ms // 1000} s")
        accepted = self._accepted()
        left = [one for one in self.differences if one.tier not in accepted]
        accounted = without_address(self.losses)
        kind = self._kind(left, accounted, is_by_a_person=bool(accepted or self.retired))
        bad = {one.tier for one in self.differences}
        first_bad = next((name for name in (*(rule.name for rule in self.topic.rules), QUARANTINE) if name in bad), None)
        settled = [name for name in tiers if self.settled[name]]
        aside = sum(one.quarantined.count for tier in self.window.found for one in self._entries(tier))
        return Verdict(
            kind=kind,
            tiers=tiers,
            missing=sum(one.missing for one in self.differences),
            doubled=sum(one.doubled for one in self.differences),
            altered=sum(one.altered for one in self.differences),
            accounted=accounted,
            quarantined=aside + self.losses[QUARANTINED],
            first_bad_tier=first_bad,
            unaudited=self.unaudited - self.unread_reports,
            unread_reports=self.unread_reports,
            compared_identities=max((tiers[name] or 0 for name in settled), default=0),
            compared_tiers=len(settled),
            redelivered=self.window.redelivered,
            erased=sum(self.window.known[tier].missing for tier in accepted if self.window.known[tier].kind == "erased"),
            losses={name: count for name, count in self.losses.items() if count},
            silent=tuple(self.silent),
            retired=tuple(self.retired.values()),
            reason=self._words(kind, first_bad, accepted, accounted),
            differences=tuple(self.differences),
        )

    def _accepted(self) -> list[str]:
        """Return the tiers whose differences a person has taken upon himself: just these records, no others."""
        accepted = []
        for tier, known in self.window.known.items():
            mine = [one for one in self.differences if one.tier == tier]
            numbers = tuple(sum(getattr(one, name) for one in mine) for name in ("missing", "doubled", "altered"))
            is_of_these = known.digest in ("", digest_of_tier(mine))
            if mine and is_of_these and numbers == (known.missing, known.doubled, known.altered):
                accepted.append(tier)
        return accepted

    def _kind(self, left: Sequence[Difference], accounted: dict[str, int], *, is_by_a_person: bool) -> Kind:
        if not all(self.settled.values()) or self.silent:
            return Kind.UNKNOWN if self.silent else Kind.OPEN
        if any(one.missing for one in left):
            return Kind.INCOMPLETE
        if any(one.altered for one in left):
            return Kind.ALTERED
        if any(one.doubled for one in left):
            return Kind.DOUBLED
        if accounted:
            return Kind.ACCOUNTED
        return Kind.ACCEPTED if is_by_a_person else Kind.COMPLETE

    def _words(self, kind: Kind, first_bad: str | None, accepted: Sequence[str], accounted: dict[str, int]) -> str:
        return reason_of(
            kind,
            silent=list(self.silent.values()),
            waiting=list(dict.fromkeys(self.waiting)),
            retired=list(self.retired.values()),
            known=[accepted_by(self.window, tier) for tier in accepted],
            first_bad=first_bad,
            accounted=accounted,
            differences=self.differences,
        )
