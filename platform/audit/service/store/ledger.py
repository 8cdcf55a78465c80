"""The one owner of the books: every reader, the collector and every question go through here, one at a time.

Memory and file change together: the books write to the journal inside one transaction, and when that fails the books
are loaded again as the file has them. Nothing is counted twice and nothing is skipped, whenever the process is killed.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from ....client.fetch.fetched import TopicPartition
from ....runtime.clock import Clock
from ....runtime.layout import is_internal
from ....runtime.logs import get_logger
from ...model.build_facts import topic_facts
from ...model.codec import decode
from ...model.errors import MalformedReport
from ...model.facts import TopicFacts
from ...model.messages import ProducerReport, RangeReport, Report, Retirement
from ...model.ranges import Outcome
from ...model.tier_reports import LogKey, PartitionRead, TierReports
from ..settings import AuditSettings
from .audit_log import AuditLog
from .database import Database
from .journal import BooksJournal
from .loading import load

log = get_logger(__name__)

T = TypeVar("T")

HEARING_BREAK_MS = 5_000
"""A pause in hearing the audit topic that is longer than this is a break: nobody counts as silent for the time of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRange:
    """Offsets of a log that could not be read, and so were not counted."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    reason: str


class Ledger:
    """The tier reports, their file and the times of the last reports, behind one lock."""

    def __init__(self, database: Database, settings: AuditSettings, clock: Clock) -> None:
        self.settings = settings
        self._database = database
        self._journal = BooksJournal(database)
        self.notes = AuditLog(database)
        self._clock = clock
        self._lock = threading.RLock()
        self._books = TierReports(settings.window_ms)
        self._generation = 0
        self._heard_all_ms: int | None = None
        self._listening_since_ms = clock.now_ms()
        self._last_report_ms = 0

    def open(self) -> None:
        """Load the books. Raises StoreError."""
        with self._lock:
            self._books = load(self._database, self.settings.window_ms)
            with self._database.transaction():
                self._database.put_fact("window_ms", self.settings.window_ms)
            heard = self._database.fact("heard_all_ms")
            self._heard_all_ms = None if heard is None else int(heard)
            self._listening_since_ms = self._clock.now_ms()
            self._last_report_ms = self._heard_all_ms or 0

    @contextmanager
    def _changing(self) -> Iterator[int]:
        """Change books and file together; gives the time of the change."""
        with self._lock:
            try:
                with self._database.transaction():
                    yield self._clock.now_ms()
            except BaseException:
                self._books = load(self._database, self.settings.window_ms)
                raise

    @contextmanager
    def reading(self) -> Iterator[TierReports]:
        """Hold the tier reports unchanged while reading them; the caller changes nothing but the marks of what it has seen."""
        with self._lock:
            yield self._books

    # -- the logs, read back -------------------------------------------------------------------------------------------

    def positions(self, tier: str) -> tuple[int, dict[TopicPartition, int]]:
        """Return a generation and where `tier` goes on reading, per partition. A recount begins a new generation."""
        with self._lock:
            found: dict[TopicPartition, int] = {}
            for topic, book in self._books.topics.items():
                for partition in book.logs.get(tier, {}):
                    position = self._books.position(LogKey(tier, topic, partition))
                    if position is not None:
                        found[TopicPartition(topic, partition)] = position
            return self._generation, found

    def take_reads(
        self,
        tier: str,
        generation: int,
        reads: Iterable[PartitionRead],
        unreadable: Iterable[UnreadableRange],
        caught_up: Mapping[TopicPartition, int],
    ) -> bool:
        """Take in what a reader found, in one transaction; return False (nothing taken) when a recount came between.

        `caught_up`: partition → when its log was asked for the end that is now read.
        """
        with self._lock:
            if generation != self._generation:
                return False
            new = [
                read
                for read in reads
                if self._books.position(LogKey(tier, read.topic, read.partition)) in (None, read.from_offset)
            ]
            bad = list(unreadable)
            if new or bad:
                with self._changing() as now_ms:
                    for read in new:
                        self._books.take_read(tier, read, now_ms, self._journal)
                    for one in bad:
                        key = LogKey(tier, one.topic, one.partition)
                        self.notes.note_unreadable(key, one.from_offset, one.to_offset, one.reason, now_ms)
                        log.warning("range_unreadable", tier=tier, **_fields(one))
            self._note_caught_up(tier, caught_up)
            return True

    def _note_caught_up(self, tier: str, caught_up: Mapping[TopicPartition, int]) -> None:
        """Remember it; on file only where that tells more than the file does, so that idle polling writes nothing."""
        fresh = []
        for (topic, partition), asked_ms in caught_up.items():
            key = LogKey(tier, topic, partition)
            tier_log = self._books.log(key)
            if tier_log is None:
                continue
            if (tier_log.caught_up_ms or 0) <= self._last_report_ms < asked_ms:
                fresh.append(key)
            self._books.caught_up(key, asked_ms)
        if fresh:
            with self._changing():
                for key in fresh:
                    tier_log = self._books.log(key)
                    if tier_log is not None:
                        self._journal.put_log(key, tier_log)

    def forget(self, tier: str, topic: str) -> None:
        """Forget what `tier` counted of `topic`; its reader begins again at the log's start."""
        with self._changing():
            self._books.forget(tier, topic, self._journal)
            self._generation += 1
        log.info("recount", tier=tier, topic=topic)

    # -- the audit topic -----------------------------------------------------------------------------------------------

    def collector_positions(self) -> dict[int, int]:
        """Return the next offset of the audit topic, per partition."""
        with self._lock:
            return {int(name): int(value) for name, value in self._database.facts("collector:").items()}

    def take_reports(self, messages: Iterable[tuple[int, int, bytes | None]], next_offsets: Mapping[int, int]) -> None:
        """Take in messages (partition, offset, value) of the audit topic and how far it is read, in one transaction.

        A message that is no report is noted, counted and skipped.
        """
        with self._changing() as now_ms:
            for partition, offset, value in messages:
                try:
                    self._take_report(decode(value), now_ms)
                except MalformedReport as error:
                    self.notes.note_malformed(partition, offset, str(error), now_ms)
                    log.warning("report_malformed", partition=partition, offset=offset, reason=str(error))
            for partition, next_offset in next_offsets.items():
                self._database.put_fact(f"collector:{partition}", next_offset)
            self._last_report_ms = now_ms

    def _take_report(self, report: Report, now_ms: int) -> None:
        match report:
            case ProducerReport():
                self._see_windows(report.instance, [window.window_start_ms for window in report.windows])
                self._books.take_producer(report, now_ms, self._journal, is_audited=is_audited)
            case RangeReport():
                self._see_windows(report.instance, report.windows)
                if not is_audited(report.topic):
                    return
                outcome = self._books.take_range(report, now_ms, self._journal)
                if outcome is Outcome.OVERLAPPING:
                    log.warning(
                        "range_overlaps", tier=report.tier, topic=report.topic, partition=report.partition,
                        from_offset=report.from_offset, to_offset=report.to_offset,
                    )  # fmt: skip
            case Retirement():
                self._books.take_retirement(report, now_ms, self._journal)
                log.warning("producer_retired", instance=report.instance, epoch=report.epoch, by=report.by, reason=report.reason)

    def _see_windows(self, instance: str, starts: Iterable[int]) -> None:
        """Refuse a report whose windows are not ours: counts of other windows cannot be compared with anything."""
        odd = next((start for start in starts if start % self.settings.window_ms), None)
        if odd is not None:
            raise MalformedReport(
                f"the report of {instance} counts a window that begins at {odd}; the windows here are "
                f"{self.settings.window_ms} ms wide: give every process the same window_ms"
            )

    def heard_all(self, asked_ms: int) -> None:
        """Note that everything that stood on the audit topic at `asked_ms` is taken in."""
        with self._lock:
            if self._heard_all_ms is None or asked_ms - self._heard_all_ms > HEARING_BREAK_MS:
                self._listening_since_ms = asked_ms
            must_keep = (self._heard_all_ms or 0) <= self._last_report_ms < asked_ms
            self._heard_all_ms = asked_ms
            if must_keep:
                with self._changing():
                    self._database.put_fact("heard_all_ms", asked_ms)

    # -- questions -----------------------------------------------------------------------------------------------------

    def topic_facts(self, topic: str) -> TopicFacts:
        """Return what is true of all windows of the topic now."""
        with self._lock:
            return topic_facts(
                self._books,
                topic,
                rules=self.settings.rules(topic, set(self._books.topics[topic].logs)),
                heard_all_ms=self._heard_all_ms,
                listening_since_ms=self._listening_since_ms,
                presumed_dead_ms=self.settings.presumed_dead_ms,
            )

    def ask(self, question: Callable[[AuditLog], T]) -> T:
        """Return the answer of the audit log."""
        with self._lock:
            return question(self.notes)

    def note(self, write: Callable[[AuditLog], None]) -> None:
        """Write to the audit log in a transaction of its own."""
        with self._lock, self._database.transaction():
            write(self.notes)

    def unsealed(self) -> list[dict[str, Any]]:
        """Return the runs of producers that have not said all, the one heard longest ago first."""
        with self._lock:
            now_ms = self._clock.now_ms()
            runs = sorted((run for run in self._books.runs.values() if not run.has_said_all), key=lambda run: run.heard_ms)
            return [
                {
                    "instance": run.key.instance,
                    "epoch": run.key.epoch,
                    "topics": sorted(run.topics),
                    "silent_ms": max(0, now_ms - run.heard_ms),
                    "is_closed": run.is_closed,
                    "lost_reports": sum(end - start for start, end in run.gaps),
                    "retired": None if run.retired is None else {"by": run.retired.by, "reason": run.retired.reason},
                }
                for run in runs
            ]

    def topics(self) -> list[str]:
        """Return every topic that has been mentioned, sorted."""
        with self._lock:
            return sorted(topic for topic in self._books.topics if is_audited(topic))

    def hearing(self) -> dict[str, Any]:
        """Return how well the audit hears, for the page and the probes."""
        with self._lock:
            return {
                "heard_all_ms": self._heard_all_ms,
                "listening_since_ms": self._listening_since_ms,
                "malformed_reports": self.notes.malformed_count(),
            }


def is_audited(topic: str) -> bool:
    """Return whether the books are kept for `topic`: not for the platform's own."""
    return not is_internal(topic)


def _fields(one: UnreadableRange) -> dict[str, Any]:
    return {name: getattr(one, name) for name in UnreadableRange.__slots__}
