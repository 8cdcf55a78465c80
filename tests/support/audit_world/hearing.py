"""What the audit makes of what it is told and reads: the model under test, called as the service calls it."""

from collections.abc import Mapping
from functools import cache

from headrace.audit.model.build_facts import topic_facts, window_facts
from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import KnownDifference, ProducerReport, RangeReport, Report, Retirement, Stretch
from headrace.audit.model.tier_reports import Journal, LiveBatch, TierReports
from headrace.audit.model.tiers import CHAIN, TierRule, rules
from headrace.audit.model.verdict import decide
from headrace.audit.service.hearing.steady_clock import SteadyClock

GROUP = "consumer:rates"
DEADLINE_MS = 20_000


class JumpingClock:
    """A host's clocks, of which the wall clock jumps, and the audit's time by them."""

    def __init__(self, now_ms: int) -> None:
        self._wall_ms = self._monotonic_ms = now_ms
        self.steady = SteadyClock(self)

    def now_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def sleep(self, for_ms: int) -> None:
        self.go_on(for_ms)

    def go_on(self, by_ms: int) -> None:
        self._wall_ms += by_ms
        self._monotonic_ms += by_ms

    def jump(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self._wall_ms += by_ms


def judged(
    books: TierReports,
    topic: str,
    window: int,
    *,
    heard_all_ms: int | None,
    now_ms: int,
    unheard: Mapping[int, tuple[int, int]] | None = None,
) -> Verdict:
    """Return the verdict on a window that the books know."""
    facts = topic_facts(
        books,
        topic,
        rules=_rules(frozenset(books.book(topic).logs)),
        heard_all_ms=heard_all_ms,
        listening_since_ms=0,
        unheard=unheard,
    )
    return decide(facts, window_facts(books, topic, window), now_ms=now_ms)


@cache
def _rules(reporting: frozenset[str]) -> tuple[TierRule, ...]:
    return rules([*CHAIN, GROUP], reporting, {"warehouse": 2 * DEADLINE_MS}, DEADLINE_MS)


def joined_batches(records: list[LiveBatch | Stretch]) -> list[LiveBatch | Stretch]:
    """Return one batch for records that follow each other in it."""
    batches: list[LiveBatch | Stretch] = []
    for one in records:
        last = batches[-1] if batches else None
        if (
            isinstance(last, LiveBatch)
            and isinstance(one, LiveBatch)
            and last.first + last.count == one.first
            and last.crc == one.crc
            and (last.producer_id < 0 or last.base_sequence + last.count == one.base_sequence)
        ):
            batches[-1] = last._replace(count=last.count + 1)
        else:
            batches.append(one)
    return batches


def hear(books: TierReports, report: Report, now_ms: int, journal: Journal) -> None:
    """Take in one message of the audit topic."""
    match report:
        case ProducerReport():
            books.take_producer(report, now_ms, journal, is_audited=lambda topic: True)
        case RangeReport():
            books.take_range(report, now_ms, journal)
        case Retirement():
            books.take_retirement(report, now_ms, journal)
        case KnownDifference():
            books.take_known_difference(report, journal)
