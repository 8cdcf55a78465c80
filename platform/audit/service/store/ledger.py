"""The one owner of the books: every reader, the collector, the judge and every question go through here, one at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ....client.fetch.fetched import TopicPartition
from ....runtime.clock import Clock
from ....runtime.logs import get_logger
from ...model.books import Found, pack_sent
from ...model.build_facts import topic_facts
from ...model.codec import decode
from ...model.errors import MalformedReport
from ...model.facts import TopicFacts, Verdict
from ...model.messages import (
    KnownDifference,
    ProducerReport,
    ProducerWindow,
    PublishedHour,
    RangeReport,
    Report,
    Retirement,
    TierChange,
)
from ...model.packed_rows import PRODUCER_ID
from ...model.runs import Run, RunKey
from ...model.tier_reports import LogKey, Outcome, TierReports
from ...model.tiers import END_MS, LIVE, PRODUCER, READ_BACK
from ...model.waits import HEARD, End, Silence, Subject, Waits, Word, earliest
from ...model.windows import News
from ..hearing.quarantines import gone_ms
from ..hearing.unheard import confirmed_positions, note_unheard, unheard_of
from ..origins.origins import SOON_MS
from ..settings import AuditSettings
from .beats import Beats
from .database import Database
from .journal import widened
from .log_books import MADE_ANEW, LogBooks
from .named_tiers import tiers_json, warn_of_contradictions
from .open_books import OpenBooks, is_audited
from .verdicts import DAY_MS, Window

log = get_logger(__name__)

T = TypeVar("T")

HEARING_BREAK_MS = 5_000
"""A pause in hearing the audit topic that is longer than this is a break: nobody counts as silent for the time of it."""


TAIL = "collector_tail:"
"""Begins the name of the fact which batch of the audit topic's partition was read last."""


class BatchName(NamedTuple):
    """By what a batch of the audit topic is known again."""

    base_offset: int
    crc: int


class Message(NamedTuple):
    """One record of the audit topic."""

    partition: int
    offset: int
    value: bytes | None
    came_ms: int | None
    """When it came to the topic, for one that stood there before the audit began to listen; None: it came now."""


class Ledger:
    """What the audit topic said and when, and what is made of it: all behind the lock of the books."""

    def __init__(self, database: Database, settings: AuditSettings, clock: Clock) -> None:
        self.books = OpenBooks(database, settings, clock)
        self.logs = LogBooks(self.books)
        self._beats = Beats(database, lambda: self.books.reports.runs, self.books.journal.put_run)
        self._collected: dict[int, int] = {}
        """Partition of the audit topic → where it is read next."""
        self._heard_all_ms: int | None = None
        self._confirmed: Mapping[TopicPartition, int] | None = None
        """How far live was read when everything was heard the time before the last; None: not since the start."""
        self._read_when_heard: Mapping[TopicPartition, int] | None = None
        self._listening_since_ms = self.books.clock.now_ms()
        self._last_report_ms = 0
        self.books.when_loaded(self._load)

    def _load(self) -> None:
        heard = self.books.database.fact("heard_all_ms")
        self._beats.load()
        self._heard_all_ms = None if heard is None else int(heard)
        self._confirmed = self._read_when_heard = None
        self._listening_since_ms = self.books.clock.now_ms()
        self._last_report_ms = self._heard_all_ms or 0
        self._collected = {int(name): int(value) for name, value in self.books.database.facts("collector:").items()}

    def mark(self) -> object:
        """Return something that differs when the books know more, or say something else, than they did."""
        with self.books.lock:
            positions = {tier: self.logs.positions(tier)[1] for tier in READ_BACK}
            return dict(self._collected), positions, self.books.notes.last_change()

    # -- the audit topic -----------------------------------------------------------------------------------------------

    def collector_positions(self) -> dict[int, int]:
        """Return the next offset of the audit topic, per partition."""
        with self.books.lock:
            return dict(self._collected)

    def collector_tail(self, partition: int) -> BatchName | None:
        """Return which batch of the audit topic was read last, None where that is not known."""
        with self.books.lock:
            words = self.books.database.fact(f"{TAIL}{partition}")
            return None if words is None else BatchName(*map(int, words.split()))

    def take_reports(
        self,
        messages: Iterable[Message],
        from_offsets: Mapping[int, int],
        next_offsets: Mapping[int, int],
        tails: Mapping[int, BatchName] | None = None,
    ) -> bool:
        """Take in messages of the audit topic and how far it is read, in one transaction; return False (nothing taken) where the
        books are not at `from_offsets`. `tails`: which batch of a partition was the last.

        A message that is not a report is noted, counted and skipped.
        """
        with self.books.lock:
            if not self._stands_at(from_offsets):
                return False
            with self.books.changing():
                self._take_reports(messages, next_offsets)
                for partition, tail in (tails or {}).items():
                    self.books.database.put_fact(f"{TAIL}{partition}", f"{tail.base_offset} {tail.crc}")
            self._collected |= next_offsets
            return True

    def lose_reports(self, next_offsets: Mapping[int, int], live_ends: Mapping[TopicPartition, int]) -> None:
        """Go on in the audit topic at `next_offsets`. Note that reports which nobody had read are gone: those of programs that
        began to write to live, which ends at `live_ends` now, since everything was last heard.
        """
        with self.books.lock:
            with self.books.changing():
                heard_to = self._confirmed
                if heard_to is None:
                    heard_to = confirmed_positions(self.books.database, self._heard_all_ms)
                self._take_reports([], next_offsets)
                self.books.notes.note_reports_lost()
                for topic in note_unheard(self.books.database, live_ends, heard_to):
                    self.books.reports.all_is_news(topic)
            self._collected |= next_offsets

    def lost_until(self, live_ends: Mapping[TopicPartition, int], since: Mapping[TopicPartition, int]) -> None:
        """Note that reports may be lost, too, of programs that began to write to live between `since` and `live_ends`."""
        with self.books.changing():
            for topic in note_unheard(self.books.database, live_ends, since):
                self.books.reports.all_is_news(topic)

    def _stands_at(self, offsets: Mapping[int, int]) -> bool:
        return all(self._collected.get(partition, offset) == offset for partition, offset in offsets.items())

    def _take_reports(self, messages: Iterable[Message], next_offsets: Mapping[int, int]) -> None:
        with self.books.changing() as now_ms:
            for message in messages:
                came_ms = now_ms if message.came_ms is None else min(now_ms, message.came_ms)
                if self._beats.hear(message.value, came_ms):
                    continue
                try:
                    report = decode(message.value)
                    self._take_report(report, came_ms)
                    if isinstance(report, ProducerReport):
                        self._beats.see(message.value, report)
                except MalformedReport as error:
                    self.books.notes.note_malformed(message.partition, message.offset, str(error), now_ms)
                    log.warning("report_malformed", partition=message.partition, offset=message.offset, reason=str(error))
            self._beats.write(now_ms)
            for partition, next_offset in next_offsets.items():
                self.books.database.put_fact(f"collector:{partition}", next_offset)
            self._last_report_ms = now_ms

    def _take_report(self, report: Report, now_ms: int) -> None:
        match report:
            case ProducerReport():
                self._see_windows(report.instance, [window.window_start_ms for window in report.windows])
                report = replace(report, windows=tuple(one for one in report.windows if self._is_kept(one)))
                self.books.reports.take_producer(report, now_ms, self.books.journal, is_audited=is_audited)
                self.books.latest_reports.append((now_ms, report))
            case RangeReport():
                self._see_windows(report.instance, report.windows)
                if not is_audited(report.topic):
                    return
                report = replace(report, windows=self.books.kept(report.topic, report.windows))
                outcome = self.books.reports.take_range(report, now_ms, self.books.journal)
                reached = self.logs.origins.position(report.tier, report.topic, report.partition, report.to_offset)
                self.books.latencies.reached(report.tier, report.topic, report.partition, reached, now_ms)
                if outcome is Outcome.NOT_TAKEN:
                    log.warning(
                        "range_not_taken", tier=report.tier, topic=report.topic, partition=report.partition,
                        from_offset=report.from_offset, to_offset=report.to_offset, reason=outcome.value,
                    )  # fmt: skip
            case Retirement():
                self.books.reports.take_retirement(report, now_ms, self.books.journal)
                log.warning("producer_retired", instance=report.instance, epoch=report.epoch, by=report.by, reason=report.reason)
            case KnownDifference():
                self._see_windows(report.by, [report.window_start_ms])
                if is_audited(report.topic):
                    self.books.book(report.topic)
                    self.books.reports.take_known_difference(report, self.books.journal)
                    log.warning("difference_known", topic=report.topic, tier=report.tier, by=report.by, reason=report.reason)
            case PublishedHour():
                self._see_windows(report.instance, report.windows)
                windows = self.books.kept(report.topic, report.windows) if is_audited(report.topic) else {}
                if windows:
                    self.books.reports.take_published(replace(report, windows=windows), self.books.journal)
            case TierChange():
                self._see_windows(report.by, [report.from_ms])
                if is_audited(report.topic):
                    self.books.named_tiers.take(report)
                    self.books.reports.all_is_news(report.topic, report.from_ms)
                    log.warning(
                        "tier_changed", topic=report.topic, tier=report.tier, change=report.change, from_ms=report.from_ms,
                        by=report.by, reason=report.reason,
                    )  # fmt: skip
                    warn_of_contradictions(self.books.settings, [report])

    def _is_kept(self, window: ProducerWindow) -> bool:
        return is_audited(window.topic) and bool(self.books.kept(window.topic, {window.window_start_ms: None}))

    def _see_windows(self, instance: str, starts: Iterable[int]) -> None:
        """Refuse a report whose windows are not ours: counts of other windows cannot be compared with anything."""
        odd = next((start for start in starts if start % self.books.settings.window_ms), None)
        if odd is not None:
            raise MalformedReport(
                f"the report of {instance} counts a window that begins at {odd}; the windows here are "
                f"{self.books.settings.window_ms} ms wide: give every process the same window_ms"
            )

    def heard_all(self, asked_ms: int, offsets: Mapping[int, int]) -> None:
        """Note that the audit topic ended at `offsets` at `asked_ms`; nothing is noted where the books stand elsewhere."""
        with self.books.lock:
            if not self._stands_at(offsets):
                return
            if self._heard_all_ms is None or asked_ms - self._heard_all_ms > HEARING_BREAK_MS:
                self._listening_since_ms = asked_ms
            must_keep = (self._heard_all_ms or 0) <= self._last_report_ms < asked_ms
            self._heard_all_ms = asked_ms
            # What live had when everything was heard the time before was all announced by now, if it ever is.
            self._confirmed, self._read_when_heard = self._read_when_heard, self.logs.positions(LIVE)[1]
            if must_keep:
                with self.books.changing():
                    self.books.database.put_fact("heard_all_ms", asked_ms)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def topics_with_news(self) -> list[str]:
        """Return the topics of which something changed."""
        with self.books.lock:
            return [topic for topic in self.books.reports.news if is_audited(topic)]

    def heard_ms(self) -> int:
        """Return as of when everything was heard; now, if it never was. The caller holds the lock, as in the next two."""
        return self.books.clock.now_ms() if self._heard_all_ms is None else self._heard_all_ms

    def standing(self) -> object:
        """Return since when the audit listens, and whether it has heard nothing for too long."""
        settings = self.books.settings
        deadline_ms = max(settings.deadline_ms.get(tier, settings.default_deadline_ms) for tier in (PRODUCER, LIVE))
        deaf_ms = self.books.clock.now_ms() - (self._heard_all_ms or self._listening_since_ms)
        return self._listening_since_ms, deaf_ms > deadline_ms

    def value(self, topic: str, subject: Subject) -> int:
        """Return the value of something that a window of the topic waits for."""
        match subject:
            case End(tier, partition):
                return self.logs.caught_up(LogKey(tier, topic, partition)) or 0
            case Word(key) if key in self.books.reports.runs:
                return self.books.reports.runs[key].heard_ms
            case Silence(key) if key in self.books.reports.runs:
                return self.heard_ms() - max(self.books.reports.runs[key].heard_ms, self._listening_since_ms)
            case Word() | Silence():
                return END_MS  # the run is forgotten
            case "heard":
                return self.heard_ms()
            case "quarantines":
                return self.logs.quarantines_seen(topic) or 0

    def waits(self, verdict: Verdict) -> Waits:
        """Return what an undecided window waits for, so that it may be judged otherwise."""
        if self.logs.origins.is_needed is False:
            return verdict.waits
        # What the mirror's ledger says is news; that it will say nothing more of some records, time alone tells.
        return earliest((verdict.waits, {HEARD: self.heard_ms() + SOON_MS}))

    @contextmanager
    def judging(self, topic: str) -> Iterator[tuple[TierReports, News | None]]:
        """Hold the books while one topic is judged, with what changed of it since it was judged last; None: nothing. What is
        written inside is kept together with the note that it was judged.
        """
        with self.books.changing():
            yield self.books.reports, self.books.reports.news.pop(topic, None)
            self.books.database.delete("to_judge", topic=topic)

    def topic_facts(self, topic: str) -> TopicFacts:
        """Return what is true of all windows of the topic now."""
        with self.books.lock:
            book = self.books.book(topic)
            for tier, logs in book.logs.items():
                for partition, tier_log in logs.items():
                    asked_ms = self.logs.caught_up(LogKey(tier, topic, partition))
                    if asked_ms is not None:
                        tier_log.caught_up_ms = asked_ms
            facts = topic_facts(
                self.books.reports,
                topic,
                rules=self.books.settings.rules(topic, set(book.logs), self.books.named_tiers.of(topic)),
                heard_all_ms=self._heard_all_ms,
                listening_since_ms=self._listening_since_ms,
                is_made_anew=self.books.database.fact(MADE_ANEW + topic) is not None,
                unheard=unheard_of(self.books.database, topic),
                quarantine_gone_ms=gone_ms(self.books.database, topic),
                quarantines_seen_ms=self.logs.quarantines_seen(topic),
            )
            return self.logs.origins.of_topic(facts)

    def settle(self, topic: str, window_start_ms: int) -> None:
        """Write the pieces of a decided window as one each; the caller is inside `judging`."""
        if window_start_ms not in self.books.book(topic).windows:
            return  # nobody mentioned it, and a run held it
        where, key = "WHERE topic = ? AND window_start_ms = ?", (topic, window_start_ms)
        pieces = self.books.database.rows(f"SELECT tier, partition, count(*) FROM found {where} GROUP BY tier, partition", key)
        window = self.books.book(topic).windows[window_start_ms]
        for tier, partition, count in pieces:
            if count > 1:
                entry = window.entry(tier, partition)
                self.books.journal.rewrite_found(LogKey(tier, topic, partition), window_start_ms, entry.pack(), entry.updated_ms)
        told = self.books.database.rows(
            f"SELECT instance, epoch, count(*), max(sequence) FROM sent {where} GROUP BY instance, epoch", key
        )
        for run, mine in window.producers.items():
            count, last = next(((n, last) for instance, epoch, n, last in told if (instance, epoch) == run), (0, 0))
            if count > 1:
                self.books.database.delete(
                    "sent", topic=topic, window_start_ms=window_start_ms, instance=run.instance, epoch=run.epoch
                )
                packed = pack_sent(mine.sent)
                self.books.journal.append_sent(run, topic, window_start_ms, last, packed, mine.losses, mine.heard_ms)

    def roll_up(self, limit: int) -> int:
        """Add at most `limit` windows that were decided `keep_windows_days` ago to their days, and forget their books; return how
        many. Days are forgotten after `keep_days`.
        """
        with self.books.changing() as now_ms:
            windows = self.books.verdicts.settled(now_ms - self.books.settings.keep_windows_days * DAY_MS, limit)
            self._add_to_days(windows, now_ms)
            self.books.verdicts.forget_days(now_ms - self.books.settings.keep_days * DAY_MS)
            return len(windows)

    def roll_up_undecided(self, limit: int) -> int:
        """Add at most `limit` windows that nobody decided in `keep_unknown_days` to their days, as UNKNOWN; return how many."""
        with self.books.changing() as now_ms:
            windows = self.books.verdicts.never_decided(now_ms - self.books.settings.keep_unknown_days * DAY_MS, limit)
            self._add_to_days(windows, now_ms)
        for window in windows:
            log.warning(
                "window_never_decided", topic=window["topic"], window_start_ms=window["window_start_ms"], reason=window["reason"]
            )
        return len(windows)

    def _add_to_days(self, windows: Iterable[Window], now_ms: int) -> None:
        for window in windows:
            topic, start = window["topic"], window["window_start_ms"]
            self.books.verdicts.add_to_day(window, now_ms)
            if topic in self.books.reports.topics:
                self.books.reports.topics[topic].windows.pop(start, None)
            self.books.journal.drop_window(topic, start)

    def ended_runs(self) -> list[RunKey]:
        """Return the runs that said all `keep_windows_days` ago, or were retired `keep_days` ago, those of early epochs first."""
        with self.books.lock:
            now_ms = self.books.clock.now_ms()
            closed_by_ms = now_ms - self.books.settings.keep_windows_days * DAY_MS
            retired_by_ms = now_ms - self.books.settings.keep_days * DAY_MS
            return sorted(
                (
                    run.key
                    for run in self.books.reports.runs.values()
                    if (run.has_said_all and (run.closed_ms or 0) <= closed_by_ms)
                    or (run.retired is not None and run.retired.heard_ms <= retired_by_ms)
                ),
                key=lambda key: (key.epoch, key.instance),
            )

    def forget_runs(self, keys: Iterable[RunKey]) -> int:
        """Forget those of these ended runs by which nothing is judged any more; return how many."""
        forgotten = 0
        with self.books.changing():
            traces: dict[str, tuple[set[RunKey], set[int]]] = {}
            for key in keys:
                run = self.books.reports.runs.get(key)
                if run is None or self.books.reports.runs.is_needed(run):
                    continue
                for topic in run.topics - traces.keys():
                    traces[topic] = self._traces(topic)
                if all(self._is_over(run, topic, *traces[topic]) for topic in run.topics):
                    self.books.reports.forget_run(key, self.books.journal)
                    forgotten += 1
        return forgotten

    def _is_over(self, run: Run, topic: str, told: set[RunKey], producer_ids: set[int]) -> bool:
        """Return whether the topic's books hold nothing of the run, and the live log was read to its end since it ended."""
        if run.key in told or not producer_ids.isdisjoint(run.producer_ids):
            return False
        if not self.books.book(topic).windows:
            return True
        ended_ms = run.heard_ms if run.retired is None else run.retired.heard_ms
        live = self.topic_facts(topic).logs.get(LIVE, {})
        return all((tier_log.caught_up_ms or 0) > max(ended_ms, run.closed_ms or 0) for tier_log in live.values())

    def _traces(self, topic: str) -> tuple[set[RunKey], set[int]]:
        """Return the runs that said something of the topic's windows, and the producer ids in its live log there."""
        told = self.books.database.rows("SELECT DISTINCT instance, epoch FROM sent WHERE topic = ?", (topic,))
        ids: set[int] = set()
        for (packed,) in self.books.database.rows("SELECT packed FROM found WHERE topic = ? AND tier = ?", (topic, LIVE)):
            entry = Found(LIVE)
            entry.unpack(widened(packed))
            ids.update(entry.held.column(PRODUCER_ID))
        return {RunKey(*one) for one in told}, ids

    # -- questions -----------------------------------------------------------------------------------------------------

    def latencies_of(self, topic: str) -> list[dict[str, Any]]:
        """Return how long after the live log the other tiers of the topic come."""
        with self.books.lock:
            return self.books.latencies.of(topic)

    def unsealed(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Return the runs of producers that have not said all, the one heard longest ago first."""
        with self.books.lock:
            now_ms = self.books.clock.now_ms()
            going = [
                run for run in self.books.reports.runs.values() if not run.has_said_all and (topic is None or topic in run.topics)
            ]
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
                for run in sorted(going, key=lambda run: (run.heard_ms, run.key))
            ]

    def tiers(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Return the tiers of the topic, what is expected of each and who said so; of all topics, the groups of which an operator
        said something.
        """
        with self.books.lock:
            if topic is None:
                return [one for name in self.books.named_tiers.topics() for one in self.tiers(name) if one["changes"]]
            changes = self.books.named_tiers.of(topic)
            reporting = set(self.books.book(topic).logs) if topic in self.books.mentioned else set[str]()
            self.books.make_room()
            return tiers_json(self.books.settings, topic, self.books.settings.rules(topic, reporting, changes), changes)

    def silent_runs(self, question: Callable[[Iterable[Run], int, int], list[T]]) -> list[T]:
        """Return the answer about all runs, as of when the audit topic was last heard to its end; nothing where it never was."""
        with self.books.lock:
            if self._heard_all_ms is None:
                return []
            return question(self.books.reports.runs.values(), self._heard_all_ms, self._listening_since_ms)

    def topic_was_away(self, began_ms: int, ended_ms: int) -> None:
        """Note that the audit topic could not be read in between: runs that were heard until then may have taken events that they
        could not announce. What had no time to be heard again by the deadline is UNKNOWN.
        """
        deadline_ms = self.books.settings.deadline_ms.get(PRODUCER, self.books.settings.default_deadline_ms)
        with self.books.changing():
            self.books.reports.cut_off(began_ms - deadline_ms, ended_ms + deadline_ms, self.books.journal)
        log.warning("audit_topic_was_away", began_ms=began_ms, ended_ms=ended_ms)

    def hearing(self) -> dict[str, Any]:
        """Return how well the audit hears, for the page and the probes."""
        with self.books.lock:
            return {
                "heard_all_ms": self._heard_all_ms,
                "listening_since_ms": self._listening_since_ms,
                "malformed_reports": self.books.notes.malformed_count(),
                "reports_lost": self.books.notes.reports_lost_count(),
            }
