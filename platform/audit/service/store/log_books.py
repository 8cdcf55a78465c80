"""The books of the logs that are read back: where reading continues, what was found, what must be read again."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ....client.fetch.fetched import TopicPartition
from ....runtime.logs import get_logger
from ....wire.mirror_ledger import LedgerEntry
from ...model.messages import ProducerReport, ProducerWindow
from ...model.tier_reports import LogKey, Outcome, PartitionRead
from ...model.tiers import LIVE, QUARANTINE
from ..hearing.quarantines import Quarantines
from ..hearing.unheard import forget_unheard
from ..origins.origins import Origins
from ..settings import AuditSettings
from .chunks import Chunk, Chunks
from .open_books import OpenBooks, is_audited

log = get_logger(__name__)

NUMBERS_ALIKE = "numbers_alike"
"""The fact whether the offline log numbers its records as the live one does: 1 or 0."""
MADE_ANEW = "made_anew:"
"""Begins the name of the fact when a live topic was seen to be another of its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRange:
    """Offsets of a log that could not be read, and so were not counted."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """What a reader found of [from_offset, to_offset) of one partition."""

    found: PartitionRead
    digest: int = 0
    """As of `chunks.Chunk`."""
    unreadable: tuple[UnreadableRange, ...] = ()

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.found.topic, self.found.partition)


@dataclass(slots=True)
class _Level:
    """Logs that nothing is written to: one moment is known of all of them."""

    as_of_ms: int = 0
    names: set[TopicPartition] = field(default_factory=set)
    """Those that were read to their ends as of then."""


class LogBooks:
    """How far each log is read, and what its readers change in the books."""

    def __init__(self, books: OpenBooks) -> None:
        self._open = books
        self.origins = Origins()
        self._chunks = Chunks(books.database)
        self._quarantines = Quarantines(books.database)
        self._positions: dict[str, dict[TopicPartition, int]] = {}
        self._snapshots: dict[str, Mapping[TopicPartition, int]] = {}
        """What `positions` gave last, as long as it is so."""
        self._caught_up: dict[LogKey, int] = {}
        self._levels: dict[str, _Level] = {}
        """Tier → the logs of `_caught_up` that are at their ends still."""
        self._topic_ids: dict[str, dict[str, str]] = {}
        self._ids_asked_ms: int | None = None
        self._quarantines_seen_ms: int | None = None
        """As of when it is known which quarantine topics there are."""
        self._generation = 0
        books.when_loaded(self._load)

    def _load(self) -> None:
        self._topic_ids = {}
        self._quarantines.forget()
        # What is known of the logs' ends is only true of the positions that are forgotten here.
        self._caught_up = {}
        self._levels = {}
        self._generation += 1
        self._positions = {}
        self._snapshots = {}
        rows = self._open.database.rows(
            "SELECT topic, tier, partition, position FROM logs WHERE tier IN ('live', 'offline', 'quarantine')"
        )
        for topic, tier, partition, position in rows:
            self._positions.setdefault(tier, {})[TopicPartition(topic, partition)] = position

    @property
    def settings(self) -> AuditSettings:
        return self._open.settings

    def caught_up(self, key: LogKey) -> int | None:
        """Return when the log was asked for the end that is read; None: it is not read to its end. The caller holds the lock."""
        own_ms, level = self._caught_up.get(key), self._levels.get(key.tier)
        if level is not None and (key.topic, key.partition) in level.names:
            return max(own_ms or 0, level.as_of_ms)
        return own_ms

    def positions(self, tier: str, names: Iterable[TopicPartition] | None = None) -> tuple[int, Mapping[TopicPartition, int]]:
        """Return a generation and where `tier` goes on reading, of these partitions (None: of all). A recount begins a new
        generation.
        """
        with self._open.lock:
            mine = self._positions.get(tier, {})
            if names is not None:
                return self._generation, {name: mine[name] for name in names if name in mine}
            if tier not in self._snapshots:
                self._snapshots[tier] = dict(mine)
            return self._generation, self._snapshots[tier]

    def take_reads(
        self,
        tier: str,
        generation: int,
        reads: Iterable[LogRead],
        caught_up: Mapping[TopicPartition, int],
        *,
        behind: Collection[TopicPartition] = (),
        level_ms: int | None = None,
    ) -> bool:
        """Take in what a reader found behind its positions, in one transaction; return False (nothing taken) when a recount
        came between.

        `caught_up`: partition → when its log was asked for the end that is now read. With `level_ms` they are known to be at
        their ends until they are `behind`: all others as of then.
        """
        with self._open.lock:
            if generation != self._generation:
                return False
            known = self._positions.setdefault(tier, {})
            self._take(tier, [read for read in reads if known.get(read.name) in (None, read.found.from_offset)])
            self._note_ends(tier, caught_up, behind, level_ms)
            return True

    def _note_ends(
        self, tier: str, caught_up: Mapping[TopicPartition, int], behind: Collection[TopicPartition], level_ms: int | None
    ) -> None:
        for name in behind:
            self._leave_level(tier, name)
        for name, asked_ms in caught_up.items():
            self._caught_up[LogKey(tier, *name)] = asked_ms
        if level_ms is not None:
            level = self._levels.setdefault(tier, _Level())
            level.names.update(caught_up)
            level.as_of_ms = level_ms

    def _leave_level(self, tier: str, name: TopicPartition) -> None:
        """Know the partition's end by itself."""
        level, key = self._levels.get(tier), LogKey(tier, *name)
        if level is not None and name in level.names:
            level.names.discard(name)
            self._caught_up[key] = max(self._caught_up.get(key, 0), level.as_of_ms)

    def _forget_end(self, tier: str, name: TopicPartition) -> None:
        self._leave_level(tier, name)
        self._caught_up.pop(LogKey(tier, *name), None)

    def take_scan(self, tier: str, generation: int, reads: Iterable[LogRead]) -> bool:
        """Take in what was found when offsets were read again; return as `take_reads` does."""
        with self._open.lock:
            if generation != self._generation:
                return False
            self._take(tier, list(reads))
            return True

    def await_origins(self) -> None:
        """Learn that it is unknown yet whether the offline log numbers its records as the live one does; else, as it was last."""
        with self._open.lock:
            known = self._open.database.fact(NUMBERS_ALIKE)
            self.origins.is_needed = None if known is None else known != "1"

    def number_alike(self, *, is_alike: bool) -> None:
        """Learn whether the offline log numbers its records as the live one does."""
        with self._open.changing():
            self._open.database.put_fact(NUMBERS_ALIKE, int(is_alike))
            self.origins.is_needed = not is_alike

    def take_origins(self, entries: Iterable[LedgerEntry], asked_ms: int | None) -> None:
        """Take in what the mirror's ledger says: up to its end at `asked_ms`, or, with None, a part before that."""
        entries = list(entries)
        with self._open.lock:
            self.origins.take(entries, asked_ms)
            for topic in {entry.destination_topic for entry in entries} & self._open.mentioned:
                self._open.reports.stir(topic)

    def chunks(self, key: LogKey) -> list[Chunk]:
        """Return what of the log has been read, as it looked then."""
        with self._open.lock:
            return self._chunks.of(key)

    def _take(self, tier: str, reads: list[LogRead]) -> None:
        if not reads:
            return
        with self._open.changing() as now_ms:
            for read in reads:
                self._take_one(tier, read, now_ms)

    def _take_one(self, tier: str, read: LogRead, now_ms: int) -> None:
        told, mine = read.found, self._positions.setdefault(tier, {})
        key = LogKey(tier, told.topic, told.partition)
        is_news = told.to_offset > mine.get(read.name, 0)
        kept = replace(told, windows=self._open.kept(told.topic, told.windows))
        if tier == LIVE and is_news:
            for start in told.windows.keys() - kept.windows.keys():
                self._open.verdicts.note_late(told.topic, start, sum(batch.count for batch in told.windows[start]), now_ms)
        outcome = self._open.reports.take_read(tier, kept, now_ms, self._open.journal)
        if outcome is Outcome.NOT_TAKEN:
            log.error("too_many_gaps", tier=tier, topic=told.topic, partition=told.partition, at=told.from_offset)
            return
        if outcome is Outcome.REPLACED and not is_news:
            log.warning(
                "log_changed", tier=tier, topic=told.topic, partition=told.partition,
                from_offset=told.from_offset, to_offset=told.to_offset,
            )  # fmt: skip
        self._chunks.add(key, Chunk(told.from_offset, told.to_offset, read.digest))
        mine[read.name] = max(mine.get(read.name, 0), told.to_offset)
        self._snapshots.pop(tier, None)
        if tier != QUARANTINE:
            reached = self.origins.position(tier, told.topic, told.partition, told.to_offset)
            self._open.latencies.reached(tier, told.topic, told.partition, reached, now_ms)
        for one in read.unreadable:
            if self._open.notes.note_unreadable(key, one.from_offset, one.to_offset, one.reason, now_ms):
                log.warning("range_unreadable", tier=tier, **_fields(one))

    def recount(self, tier: str, topic: str, log_starts: Mapping[int, int]) -> None:
        """Forget what `tier` counted of `topic` at and above each partition's log start; its reader begins again there."""
        with self._open.changing() as now_ms:
            self._open.book(topic)
            self._open.reports.forget(tier, topic, log_starts, now_ms, self._open.journal)
            self._chunks.forget(tier, topic)
            mine = self._positions.setdefault(tier, {})
            for name in [name for name in mine if name.topic == topic]:
                tier_log = self._open.reports.log(LogKey(tier, topic, name.partition))
                if tier_log is None:
                    del mine[name]
                else:
                    mine[name] = tier_log.position
                self._forget_end(tier, name)
            self._snapshots.pop(tier, None)
            self._generation += 1
        log.info("recount", tier=tier, topic=topic)

    def log_shrank(self, tier: str, name: TopicPartition, log_start: int) -> None:
        """Have a partition of live, or of the quarantine, that ends before what was read of it read again from its start. What it
        held is remembered, and the topic's other partitions stay as they are.
        """
        with self._open.changing() as now_ms:
            mine = self._positions.setdefault(tier, {})
            starts = {one.partition: position for one, position in mine.items() if one.topic == name.topic}
            starts[name.partition] = log_start
            self._open.book(name.topic)
            self._open.reports.forget(tier, name.topic, starts, now_ms, self._open.journal)
            self._chunks.forget(tier, *name)
            mine[name] = log_start
            self._forget_end(tier, name)
            self._snapshots.pop(tier, None)
            self._generation += 1
        log.info("recount", tier=tier, topic=name.topic, partition=name.partition)

    def await_quarantines(self) -> None:
        """Learn that quarantine topics are read back, and that nobody has looked yet which there are."""
        with self._open.lock:
            self._quarantines_seen_ms = 0

    def quarantines_seen(self, topic: str) -> int | None:
        """Return as of when it is known that the topic has no quarantine on live; 0: it has one. None: nobody looks."""
        seen_ms = self._quarantines_seen_ms
        return 0 if seen_ms is not None and self._quarantines.is_known(topic) else seen_ms

    def quarantine_begins(self, starts: Mapping[TopicPartition, int]) -> None:
        """Note where each partition of quarantine topics begins now, by the topic that it is the quarantine of."""
        if starts:
            with self._open.changing() as now_ms:
                for name, log_start in starts.items():
                    self._open.book(name.topic)
                    self._open.reports.expire(LogKey(QUARANTINE, *name), log_start, now_ms, self._open.journal)

    def see_topic_ids(self, tier: str, ids: Mapping[str, str], asked_ms: int) -> None:
        """Note which topics of these names the tier's cluster had at `asked_ms`. One that was created again is counted again, so
        that two logs never mix.
        """
        with self._open.lock:
            if tier not in self._topic_ids:
                self._topic_ids[tier] = self._open.database.facts(f"topic_id:{tier}:")
            known = self._topic_ids[tier]
            for topic, topic_id in ids.items():
                if known.get(topic) != topic_id:
                    self._see_topic_id(tier, topic, topic_id, is_first=topic not in known)
                    known[topic] = topic_id
            if tier == LIVE:
                self._ids_asked_ms = asked_ms

    def see_quarantines(self, ids: Mapping[str, str], asked_ms: int | None = None) -> None:
        """Note which quarantine topics the live cluster had at `asked_ms`. `ids`: every topic and its id (empty: it has none)."""
        with self._open.lock:
            self._quarantines_seen_ms = asked_ms
            changed = self._quarantines.changes(ids)
            if not changed:
                return
            with self._open.changing() as now_ms:
                gone = self._quarantines.note(changed, now_ms)
                for topic in gone:
                    self._open.reports.all_is_news(topic)
        for topic in gone:
            log.error("quarantine_gone", topic=topic)

    def _see_topic_id(self, tier: str, topic: str, topic_id: str, *, is_first: bool) -> None:
        with self._open.changing() as now_ms:
            self._open.database.put_fact(f"topic_id:{tier}:{topic}", topic_id)
            if tier == LIVE:
                again = self._said_of_the_new(topic, now_ms)
                if not self._open.reports.begin_anew(topic, topic_id, self._open.journal):
                    return
                self._open.database.put_fact(MADE_ANEW + topic, now_ms)
                forget_unheard(self._open.database, topic)
                self._forget_positions(topic)
                for heard_ms, report in again:
                    self._open.reports.take_producer(report, heard_ms, self._open.journal, is_audited=is_audited)
            elif is_first:
                return
            else:
                self.recount(tier, topic, {})
        log.warning("topic_made_anew", tier=tier, topic=topic, topic_id=topic_id)

    def _said_of_the_new(self, topic: str, now_ms: int) -> list[tuple[int, ProducerReport]]:
        """Return what producers said since the old topic was last seen, but for batches that stood in the old log: the rest
        may be about the new one.
        """
        since_ms = now_ms if self._ids_asked_ms is None else self._ids_asked_ms
        latest = [(heard_ms, report) for heard_ms, report in self._open.latest_reports if heard_ms >= since_ms]
        starts = {window.window_start_ms for _, report in latest for window in report.windows if window.topic == topic}
        book = self._open.book(topic)
        old = {
            row[3:6]
            for start in starts & set(book.windows)
            for found in book.windows[start].found.get(LIVE, {}).values()
            for row in found.held
        }
        return [
            (heard_ms, replace(report, windows=tuple(_without(old, (one for one in report.windows if one.topic == topic)))))
            for heard_ms, report in latest
        ]

    def _forget_positions(self, topic: str) -> None:
        self._open.weigh_anew(topic)
        for tier, positions in self._positions.items():
            for name in [name for name in positions if name.topic == topic]:
                del positions[name]
                self._forget_end(tier, name)
        self._snapshots.clear()
        self._generation += 1


def _without(batches: set[tuple[int, ...]], windows: Iterable[ProducerWindow]) -> Iterator[ProducerWindow]:
    """Yield the windows without the batches of these (producer id, epoch, first sequence), where anything is left of them."""
    for window in windows:
        sent = []
        for one in window.sent:
            names = one.producer_id, one.producer_epoch
            left = replace(one, acknowledged=tuple(it for it in one.acknowledged if (*names, it.first) not in batches))
            if left.acknowledged or left.uncertain or left.renumbered:
                sent.append(left)
        if sent or window.losses:
            yield replace(window, sent=tuple(sent))


def _fields(one: UnreadableRange) -> dict[str, Any]:
    return {name: getattr(one, name) for name in UnreadableRange.__slots__}
