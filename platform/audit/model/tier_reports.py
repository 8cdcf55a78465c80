"""Everything that tiers have reported, kept so that any window's facts are at hand. Pure and in memory.

Runs are kept for all topics, and the books topic by topic: `load` brings one that is not in memory, `evict` lets it go. Each
method that changes something passes the change to a `Journal`, so that a store can follow in the same transaction and rebuild
the same state. Knows nothing of SQL, clocks or topics' settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from .books import Found, TopicBook, found_of, pack_sent, plain, sent_of
from .checks.former import REMEMBERED, contradicted
from .checks.unheard import note_strangers
from .errors import MalformedReport
from .messages import KnownDifference, ProducerReport, PublishedHour, RangeReport, Retirement, Skipped, Stretch
from .packed_rows import PLAIN, common
from .runs import Run, RunKey, Runs
from .tier_log import MOST_STRANGERS, TierLog
from .tiers import END_MS, LIVE, READ_BACK, is_sink
from .windows import WINDOW_MS, News


class LogKey(NamedTuple):
    """One tier's view of one partition."""

    tier: str
    topic: str
    partition: int


class LiveBatch(NamedTuple):
    """A batch of the live log, or the part of one that lies in one window. The producer is (-1, -1, -1) without one."""

    first: int
    count: int  # type: ignore[assignment]
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """What a reader found in [from_offset, to_offset) of one partition; all of it, replacing what was found there before.

    The first read of a partition begins where its log begins: below that it is unknown what was there.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    windows: Mapping[int, Sequence[LiveBatch | Stretch]] = field(default_factory=dict)
    """Window start → its batches: `LiveBatch` from the live log, `Stretch` from the offline one."""
    skipped: tuple[Skipped, ...] = ()
    marked: Mapping[int, int] = field(default_factory=dict)
    """The live log: producer id → offset of its first batch here that our own builder made."""


class Outcome(Enum):
    """What became of a range that was told."""

    ADDED = "added"
    REPLACED = "replaced what was known"
    REDELIVERED = "known already"
    NOT_TAKEN = "more gaps than are kept: not taken, a gap"


class Journal(Protocol):
    """Where changes of the books are written down, so that they can be rebuilt exactly.

    `put_…` replaces what has the same key; `append_…` adds a piece, and the pieces of a key are united in any order. A log is
    stored as `log.words()`. Runs outlive their topics.
    """

    def put_log(self, key: LogKey, log: TierLog) -> None: ...

    def append_found(self, key: LogKey, window_start_ms: int, from_offset: int, packed: bytes, now_ms: int) -> None:
        """A piece of an entry; restored by `WindowBook.restore_found`. `from_offset` is no other piece's of the entry."""

    def rewrite_found(self, key: LogKey, window_start_ms: int, packed: bytes, now_ms: int) -> None:
        """Drop all pieces of the entry and write this one (from_offset -1), or none if `packed` is empty."""

    def append_sent(
        self, key: RunKey, topic: str, window_start_ms: int, sequence: int, packed: bytes, losses: Mapping[str, int], now_ms: int
    ) -> None:
        """A run's word on a window; restored by `WindowBook.take_producer(key, unpack_sent(packed), losses, now_ms)`."""

    def put_redelivered(self, topic: str, window_start_ms: int, count: int) -> None: ...

    def put_known(self, known: KnownDifference) -> None:
        """Key: topic, window and tier."""

    def put_published(self, told: PublishedHour, window_start_ms: int) -> None: ...

    def put_run(self, run: Run) -> None: ...

    def drop_run(self, key: RunKey) -> None: ...

    def drop_log(self, key: LogKey) -> None:
        """Drop the log and all entries of it."""

    def drop_topic(self, topic: str) -> None: ...

    def put_topic_id(self, topic: str, topic_id: str) -> None: ...


class TierReports:
    """Every run, and the books of the topics that are in memory. One owner; the caller holds the lock."""

    def __init__(self, window_ms: int = WINDOW_MS, load: Callable[[str], TopicBook] = lambda topic: TopicBook()) -> None:
        self.window_ms = window_ms
        self._load = load
        self.topics: dict[str, TopicBook] = {}
        """The books in memory; `book` loads the others."""
        self.runs = Runs()
        self.news: dict[str, News] = {}
        """Topic → what changed since somebody last took it (with `pop`)."""
        self.touched: set[str] = set()
        """Topics whose news grew since their owner last cleared this."""

    # -- the books in memory ---------------------------------------------------------------------------------------------

    def book(self, topic: str) -> TopicBook:
        """Return the topic's book, loaded where it is not in memory."""
        if topic not in self.topics:
            self.topics[topic] = self._load(topic)
        return self.topics[topic]

    def evict(self, topic: str) -> None:
        """Let the topic's book go; everything in it has been journalled, but for `caught_up_ms`."""
        self.topics.pop(topic, None)

    def restore_run(self, run: Run) -> None:
        """Put back a stored run."""
        self.runs.put(run)

    def forget_run(self, key: RunKey, journal: Journal) -> None:
        """Forget a run that has no record in any window of the books and will say nothing more."""
        self.runs.forget(key)
        journal.drop_run(key)

    # -- what tiers say --------------------------------------------------------------------------------------------------

    def take_producer(self, report: ProducerReport, now_ms: int, journal: Journal, *, is_audited: Callable[[str], bool]) -> None:
        """Take in a producer's report; windows of topics that are not audited are left out."""
        key = RunKey(report.instance, report.epoch)
        run = self.runs.get(key)
        is_new = run is None
        if run is None:
            run = Run(key=key, first_heard_ms=now_ms, heard_ms=now_ms)
        before, held = _standing(run), run.held_windows(self.window_ms)
        said = self._said(run)
        run.take(report, now_ms)
        run.topics = {topic for topic in run.topics if is_audited(topic)}
        journal.put_run(run)
        self.runs.put(run)
        for window in report.windows:
            if not is_audited(window.topic):
                continue
            told = sent_of(window)
            book = self.book(window.topic).window(window.window_start_ms)
            if book.take_producer(key, told, window.losses, now_ms):
                packed = pack_sent(told)
                journal.append_sent(
                    key, window.topic, window.window_start_ms, report.sequence, packed, dict(window.losses), now_ms
                )
                self._news(window.topic).windows.add(window.window_start_ms)
        if is_new or before != _standing(run):
            for topic in run.topics:
                self._news(topic).add_span(run.only_between_ms)
        elif said != self._said(run):
            for topic in run.topics:
                self.stir(topic)
        for epoch in self.runs.epochs[key.instance] if is_new else ():
            for topic in self.runs[RunKey(key.instance, epoch)].topics:
                self.stir(topic)  # the earlier runs ended without a word
        now_held = run.held_windows(self.window_ms)
        for topic in run.topics if held != now_held else ():
            if held is None or now_held is None:
                self._news(topic).add_span(None)
            else:
                self._news(topic).windows.update(held ^ now_held)

    def stir(self, topic: str) -> None:
        """Note that something is new of the topic that only windows without a decision can hang on."""
        self._news(topic)

    def _said(self, run: Run) -> tuple[object, ...]:
        """Return what, when it changes, may change the verdict on windows of the run's topics that are not decided."""
        sealed = run.seals[-1][0] // self.window_ms if run.seals else None
        return sealed, run.gaps.copy(), run.holds is None, run.unsettled, run.cut_off_ms

    def cut_off(self, heard_since_ms: int, until_ms: int, journal: Journal) -> None:
        """Note that the audit topic was away and is back: runs that were heard until then may have taken events meanwhile."""
        for run in self.runs.values():
            if run.holds is not None and not run.is_closed and run.retired is None and run.heard_ms >= heard_since_ms:
                run.cut_off_ms = until_ms
                journal.put_run(run)
                for topic in run.topics:
                    self.stir(topic)

    def take_retirement(self, retirement: Retirement, now_ms: int, journal: Journal) -> None:
        """Take in that nothing more will come of a run. Raises MalformedReport for a run that nobody announced."""
        run = self.runs.get(RunKey(retirement.instance, retirement.epoch))
        if run is None:
            raise MalformedReport(
                f"the retirement by {retirement.by} names the run {retirement.epoch} of producer {retirement.instance}, "
                f"which never announced itself"
            )
        run.retire(retirement, now_ms)
        journal.put_run(run)
        for topic in run.topics:
            self._news(topic).add_span(run.only_between_ms)

    def take_known_difference(self, known: KnownDifference, journal: Journal) -> None:
        """Take in an operator's word on a difference; a later one on the same window and tier replaces it."""
        self.book(known.topic).window(known.window_start_ms).known[known.tier] = known
        journal.put_known(known)
        self._news(known.topic).windows.add(known.window_start_ms)

    def take_published(self, told: PublishedHour, journal: Journal) -> None:
        """Take in what readers get of an hour; a later word replaces it."""
        for start in told.windows:
            self.book(told.topic).window(start).published = told
            journal.put_published(told, start)
            self._news(told.topic).of_sinks.add(start)

    def take_range(self, report: RangeReport, now_ms: int, journal: Journal) -> Outcome:
        """Take in a range that a tier told."""
        key = LogKey(report.tier, report.topic, report.partition)
        told = {start: found_of(report.tier, window) for start, window in report.windows.items()}
        redelivered = {start: window.redelivered for start, window in report.windows.items() if window.redelivered}
        outcome = self._replace(key, report.from_offset, report.to_offset, told, report.skipped, redelivered, now_ms, journal)
        if (log := self.log(key)) is not None:
            log.note = report.note
        return outcome

    def take_read(self, tier: str, read: PartitionRead, now_ms: int, journal: Journal) -> Outcome:
        """Take in what the audit itself read of `tier` (live or offline)."""
        told: dict[int, Found] = {}
        for start, batches in read.windows.items():
            told[start] = Found(tier)
            told[start].held.add(one if isinstance(one, LiveBatch) else plain(one) for one in batches)
        key = LogKey(tier, read.topic, read.partition)
        strange = [one for one in read.marked.items() if one[0] >= 0 and self.runs.owner_of(one[0]) is None]
        if strange:
            note_strangers(self._log(key, read.from_offset, now_ms).strangers, strange, MOST_STRANGERS)
        return self._replace(key, read.from_offset, read.to_offset, told, read.skipped, {}, now_ms, journal)

    def caught_up(self, key: LogKey, asked_ms: int) -> None:
        """Note that the log was asked for its end at `asked_ms` and that all up to it is read. Not journalled by itself."""
        log = self.log(key)
        if log is not None:
            log.caught_up_ms = asked_ms

    def expire(self, key: LogKey, log_start: int, now_ms: int, journal: Journal) -> None:
        """Note that a quarantine's log begins at `log_start` now: what was counted below it cannot be read any more."""
        log = self.log(key)
        if log is not None and log_start > log.expired_below:
            self._news(key.topic).windows.update(self._windows_between(key, log.expired_below, log_start))
            log.expired_below = log_start
            journal.put_log(key, log)

    # -- what must be said again ------------------------------------------------------------------------------------------

    def forget(self, tier: str, topic: str, log_starts: Mapping[int, int], now_ms: int, journal: Journal) -> None:
        """Forget what `tier` said of the offsets at and above each partition's log start, to be counted again.

        What it said of offsets below stays: they were there, and have expired since. A partition without a log start is
        forgotten altogether. What live held stays known as such (`checks.former`) until it is found again.
        """
        book = self.book(topic)
        for partition, log in list(book.logs.get(tier, {}).items()):
            key = LogKey(tier, topic, partition)
            start = log_starts.get(partition)
            if start is None:
                del book.logs[tier][partition]
                journal.drop_log(key)
                for window in book.windows.values():
                    window.found.get(tier, {}).pop(partition, None)
                continue
            held = [(window_start_ms, one.end) for window_start_ms, one in book.windows.holding(tier, partition)]
            end = max([log.position, *(one_end for _, one_end in held)])
            for window_start_ms, one_end in held:
                if one_end <= start:
                    continue
                entry = book.window(window_start_ms).entry(tier, partition)
                cut = [rows.cut(start, end) for rows in entry.parts]
                if tier in REMEMBERED:
                    entry.altered.add(contradicted((*(row[:PLAIN] for row in cut[0]), *cut[2]), ()))
                    log.former_below = max(log.former_below, end)
                if any(cut):
                    journal.rewrite_found(key, window_start_ms, entry.pack() if entry else b"", entry.updated_ms)
                if not entry:
                    del book.windows[window_start_ms].found[tier][partition]
            log.uncover_from(start)
            log.caught_up_ms, log.moved_ms = None, now_ms
            journal.put_log(key, log)
        self._news(topic).add_span(None)

    def begin_anew(self, topic: str, topic_id: str, journal: Journal) -> bool:
        """Note which topic of that name the live cluster has; forget all of an earlier one. Return whether there was one.

        Every tier's offsets begin again with it, so that two logs never mix: what was said of the earlier one is dropped.
        """
        book = self.book(topic)
        if book.topic_id == topic_id:
            return False
        was_known = book.topic_id is not None
        if was_known:
            book = self.topics[topic] = TopicBook()
            journal.drop_topic(topic)
            self._news(topic).add_span(None)
        book.topic_id = topic_id
        journal.put_topic_id(topic, topic_id)
        return was_known

    def _replace(
        self,
        key: LogKey,
        from_offset: int,
        to_offset: int,
        told: Mapping[int, Found],
        skipped: Sequence[Skipped],
        redelivered: Mapping[int, int],
        now_ms: int,
        journal: Journal,
    ) -> Outcome:
        """Put what was reported for [from_offset, to_offset) in the place of what was known of it."""
        book = self.book(key.topic)
        log = self._log(key, from_offset, now_ms)
        if not log.has_room(from_offset, to_offset, skipped):
            return Outcome.NOT_TAKEN
        was_known = log.touches(from_offset, to_offset) or from_offset < log.former_below
        changed: set[int] = set()
        is_replaced = False
        again = dict(redelivered)
        for start in told.keys() | (self._windows_between(key, from_offset, to_offset) if was_known else set()):
            window = book.window(start)
            entry = window.entry(key.tier, key.partition)
            new = told[start] if start in told else Found(key.tier)
            old = [rows.between(from_offset, to_offset) for rows in entry.parts] if was_known else [[], [], []]
            if key.tier in REMEMBERED and any(old):
                new.altered.add(contradicted((*(row[:PLAIN] for row in old[0]), *old[2]), new.held, skipped))
            if was_known and key.tier not in READ_BACK:
                again[start] = again.get(start, 0) + common([*old[0], *old[1]], [*new.held, *new.quarantined])
            if old == [list(rows) for rows in new.parts]:
                if not entry:
                    del window.found[key.tier][key.partition]
                continue
            for rows, fresh in zip(entry.parts, new.parts, strict=True):
                rows.cut(from_offset, to_offset)
                rows.add(fresh)
            changed.add(start)
            entry.updated_ms = now_ms
            is_replaced |= any(map(bool, old))
            if was_known:
                journal.rewrite_found(key, start, entry.pack() if entry else b"", now_ms)
            else:
                journal.append_found(key, start, from_offset, new.pack(), now_ms)
            if not entry:
                del window.found[key.tier][key.partition]
        grew = log.cover(from_offset, to_offset, skipped)
        if grew:
            log.moved_ms = now_ms
        if key.tier == LIVE:
            log.note_firsts(row for one in told.values() for row in one.held)
        journal.put_log(key, log)
        for start, count in again.items():
            if count:
                book.window(start).redelivered += count
                journal.put_redelivered(key.topic, start, book.window(start).redelivered)
                changed.add(start)
        news = self._news(key.topic)
        (news.of_sinks if is_sink(key.tier) else news.windows).update(changed)
        if is_replaced:
            return Outcome.REPLACED
        return Outcome.ADDED if grew or not was_known else Outcome.REDELIVERED

    def _windows_between(self, key: LogKey, from_offset: int, to_offset: int) -> set[int]:
        entries = self.book(key.topic).windows.holding(key.tier, key.partition)
        return {start for start, one in entries if one.first < to_offset and from_offset < one.end}

    def _log(self, key: LogKey, begins_at: int, now_ms: int) -> TierLog:
        logs = self.book(key.topic).logs
        if key.tier not in logs and is_sink(key.tier):
            self._news(key.topic).of_sinks.update(self.book(key.topic).windows)
        elif key.tier not in logs:
            self._news(key.topic).add_span(None)
        of_tier = logs.setdefault(key.tier, {})
        if key.partition not in of_tier:
            of_tier[key.partition] = TierLog(begins_at, now_ms)
        return of_tier[key.partition]

    # -- where they stand ------------------------------------------------------------------------------------------------

    def log(self, key: LogKey) -> TierLog | None:
        """Return one tier's view of one partition, or None when it has none."""
        return self.book(key.topic).logs.get(key.tier, {}).get(key.partition)

    def position(self, key: LogKey) -> int | None:
        """Return where the tier's accounted offsets end in the partition, or None when it has none."""
        log = self.log(key)
        return None if log is None else log.position

    def all_is_news(self, topic: str, from_ms: int | None = None) -> None:
        """Note that every window of the topic, or every one from this start on, may have another verdict now."""
        self._news(topic).add_span(None if from_ms is None else (from_ms, END_MS))

    def _news(self, topic: str) -> News:
        self.touched.add(topic)
        return self.news.setdefault(topic, News())


def _standing(run: Run) -> tuple[object, ...]:
    """Return what, when it changes, may change the verdict on any window of the run's topics."""
    return run.is_closed, bool(run.gaps), len(run.topics), len(run.producer_ids), run.retired
