"""Everything that tiers have reported, added up so that any window's facts are at hand. Pure and in memory.

Each method that changes something passes the change to a `Journal`, so that a store can follow in the same transaction and
rebuild the same state after a restart. Knows nothing of SQL, clocks or topics' settings.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .errors import MalformedReport
from .facts import Cell
from .messages import ProducerReport, RangeReport, RangeWindow, Retirement
from .ranges import AcceptedRange, Change, Outcome, Ranges, WindowSum
from .runs import Run, RunKey
from .tiers import LIVE
from .windows import WINDOW_MS

MOST_PENDING = 1_000
"""Ranges in parts that wait for their other parts.

Beyond it the oldest is dropped, and its offsets stay unaccounted for.
"""


class LogKey(NamedTuple):
    """One tier's view of one partition."""

    tier: str
    topic: str
    partition: int


@dataclass(slots=True)
class ProducerCell:
    """One run's word on one window of one topic."""

    sequence: int
    counts: dict[int, int]
    losses: dict[str, int]
    heard_ms: int


@dataclass(slots=True)
class TierLog:
    """What one tier has accounted for in one partition."""

    ranges: Ranges
    begins_at: int
    moved_ms: int
    caught_up_ms: int | None = None


@dataclass(slots=True)
class WindowBook:
    """What everybody said of one window of one topic."""

    cells: dict[str, dict[int, Cell]] = field(default_factory=dict)
    producers: dict[RunKey, ProducerCell] = field(default_factory=dict)
    live: dict[int, dict[int, int]] = field(default_factory=dict)
    """Producer id → partition → records in the live log."""
    redelivered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWindow:
    """What a reader found of one window in one stretch of a partition."""

    first_offset: int
    end_offset: int
    by_producer: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """What a reader of a tier found behind its position: [from_offset, to_offset) of one partition."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    windows: Mapping[int, ReadWindow]


class Journal(Protocol):
    """Where changes of the books are written down. Every call is one fact that replaces the earlier one of the same key."""

    def put_log(self, key: LogKey, log: TierLog) -> None: ...

    def drop_range(self, key: LogKey, from_offset: int) -> None: ...

    def put_range(self, key: LogKey, accepted: AcceptedRange, windows: Iterable[int], now_ms: int) -> None: ...

    def put_live(self, topic: str, partition: int, totals: Mapping[tuple[int, int], int]) -> None: ...

    def put_redelivered(self, topic: str, totals: Mapping[int, int]) -> None: ...

    def put_run(self, run: Run) -> None: ...

    def put_producer_cells(self, key: RunKey, topic: str, cells: Mapping[int, ProducerCell]) -> None: ...

    def put_part(self, report: RangeReport) -> None: ...

    def drop_parts(self, report: RangeReport) -> None: ...

    def drop_tier(self, tier: str, topic: str) -> None: ...


class TopicBook:
    """The books of one topic."""

    def __init__(self) -> None:
        self.windows: defaultdict[int, WindowBook] = defaultdict(WindowBook)
        self.logs: dict[str, dict[int, TierLog]] = {}
        self.changed: set[int] = set()
        """Windows with news since somebody last took them."""
        self.all_changed = True
        """Something changed that may touch every window: a new run, a new tier, a recount."""


class TierReports:
    """Every topic's reports and every run. One owner; the caller holds the lock."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        self.window_ms = window_ms
        self.topics: defaultdict[str, TopicBook] = defaultdict(TopicBook)
        self.runs: dict[RunKey, Run] = {}
        self._by_producer_id: dict[int, RunKey] = {}
        self._pending: dict[tuple[str, str, int, int, int, int], dict[int, RangeReport]] = {}

    # -- what tiers say -------------------------------------------------------------------------------------------------

    def take_producer(self, report: ProducerReport, now_ms: int, journal: Journal, *, is_audited: Callable[[str], bool]) -> None:
        """Take in a producer's report; windows of topics that are not audited are left out."""
        key = RunKey(report.instance, report.epoch)
        run = self.runs.get(key)
        is_new = run is None
        if run is None:
            run = self.runs[key] = Run(key=key, first_heard_ms=now_ms, heard_ms=now_ms)
        before = _standing(run)
        run.take(report, now_ms)
        run.topics = {topic for topic in run.topics if is_audited(topic)}
        journal.put_run(run)
        self.index_run(run)
        told: defaultdict[str, dict[int, ProducerCell]] = defaultdict(dict)
        for window in report.windows:
            if not is_audited(window.topic):
                continue
            book = self.topics[window.topic].windows[window.window_start_ms]
            known = book.producers.get(key)
            if known is not None and known.sequence >= report.sequence:
                continue
            cell = ProducerCell(report.sequence, dict(window.counts), dict(window.losses), now_ms)
            book.producers[key] = told[window.topic][window.window_start_ms] = cell
            self.topics[window.topic].changed.add(window.window_start_ms)
        for topic, cells in told.items():
            journal.put_producer_cells(key, topic, cells)
        if is_new or before != _standing(run):
            for topic in run.topics:
                self.topics[topic].all_changed = True

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
            self.topics[topic].all_changed = True

    def index_run(self, run: Run) -> None:
        """Note whose the run's producer ids are: the latest epoch's, where several runs announced one."""
        for producer_id in run.producer_ids:
            if producer_id < 0:
                continue  # the number of all who have no id: nobody's in particular
            owner = self._by_producer_id.get(producer_id)
            if owner is None or owner <= run.key:
                self._by_producer_id[producer_id] = run.key

    def take_range(self, report: RangeReport, now_ms: int, journal: Journal) -> Outcome | None:
        """Take in a range that a tier told; None while other parts of it are still to come."""
        windows = self._whole(report, journal)
        if windows is None:
            return None
        topic = self.topics[report.topic]
        if report.tier not in topic.logs:
            topic.all_changed = True
        log = self._log(LogKey(report.tier, report.topic, report.partition), report.from_offset, now_ms)
        log.begins_at = min(log.begins_at, report.from_offset)
        change = log.ranges.accept(report.from_offset, report.to_offset, windows)
        if change.outcome in (Outcome.ADDED, Outcome.REPLACED):
            log.moved_ms = now_ms
        redelivered = dict(change.redelivered)
        for start, window in windows.items():
            if window.redelivered:
                redelivered[start] = redelivered.get(start, 0) + window.redelivered
        if report.redelivered and len(windows) == 1:
            (only,) = windows
            redelivered[only] = redelivered.get(only, 0) + report.redelivered
        self._follow(LogKey(report.tier, report.topic, report.partition), log, change, redelivered, now_ms, journal)
        return change.outcome

    def take_read(self, tier: str, read: PartitionRead, now_ms: int, journal: Journal) -> None:
        """Take in what the audit itself read behind the position of `tier` (live or offline)."""
        key = LogKey(tier, read.topic, read.partition)
        position = self.position(key)
        log = self._log(key, read.from_offset, now_ms)
        if position is None or read.to_offset > position:
            log.moved_ms = now_ms
        sums = {
            start: WindowSum(sum(found.by_producer.values()), 0, found.first_offset, found.end_offset)
            for start, found in read.windows.items()
        }
        change = log.ranges.extend(read.to_offset, sums, begins_at=read.from_offset)
        if tier == LIVE:
            totals: dict[tuple[int, int], int] = {}
            for start, found in read.windows.items():
                live = self.topics[read.topic].windows[start].live
                for producer_id, count in found.by_producer.items():
                    mine = live.setdefault(producer_id, {})
                    mine[read.partition] = mine.get(read.partition, 0) + count
                    totals[start, producer_id] = mine[read.partition]
            journal.put_live(read.topic, read.partition, totals)
        self._follow(key, log, change, {}, now_ms, journal)

    def caught_up(self, key: LogKey, asked_ms: int) -> None:
        """Note that the log was asked for its end at `asked_ms` and that all up to it is read.

        Not journalled: see `put_log`.
        """
        log = self.log(key)
        if log is not None:
            log.caught_up_ms = asked_ms

    def forget(self, tier: str, topic: str, journal: Journal) -> None:
        """Forget what `tier` counted of `topic`, to be counted again."""
        book = self.topics[topic]
        book.logs.pop(tier, None)
        for window in book.windows.values():
            window.cells.pop(tier, None)
            if tier == LIVE:
                window.live.clear()
        book.all_changed = True
        journal.drop_tier(tier, topic)

    def _whole(self, report: RangeReport, journal: Journal) -> Mapping[int, RangeWindow] | None:
        if report.parts == 1:
            return report.windows
        key = (report.tier, report.topic, report.partition, report.from_offset, report.to_offset, report.parts)
        parts = self._pending.setdefault(key, {})
        parts[report.part] = report
        if len(parts) < report.parts:
            journal.put_part(report)
            while len(self._pending) > MOST_PENDING:
                oldest = next(iter(self._pending))
                journal.drop_parts(next(iter(self._pending.pop(oldest).values())))
            return None
        del self._pending[key]
        journal.drop_parts(report)
        return {start: window for part in parts.values() for start, window in part.windows.items()}

    def restore_part(self, report: RangeReport) -> None:
        """Put back a part that waited for others when the books were last written."""
        key = (report.tier, report.topic, report.partition, report.from_offset, report.to_offset, report.parts)
        self._pending.setdefault(key, {})[report.part] = report

    def _log(self, key: LogKey, begins_at: int, now_ms: int) -> TierLog:
        logs = self.topics[key.topic].logs.setdefault(key.tier, {})
        if key.partition not in logs:
            logs[key.partition] = TierLog(Ranges(), begins_at, now_ms)
            self.topics[key.topic].all_changed = True
        return logs[key.partition]

    def _follow(
        self, key: LogKey, log: TierLog, change: Change, redelivered: Mapping[int, int], now_ms: int, journal: Journal
    ) -> None:
        """Bring the windows' cells and the journal up to a change of the ranges."""
        book = self.topics[key.topic]
        for start in change.windows:
            window = book.windows[start]
            total = log.ranges.total(start)
            if total is None:
                window.cells.get(key.tier, {}).pop(key.partition, None)
            else:
                window.cells.setdefault(key.tier, {})[key.partition] = Cell(total, now_ms)
        book.changed |= change.windows
        for from_offset in change.dropped:
            journal.drop_range(key, from_offset)
        for from_offset, starts in change.written.items():
            journal.put_range(key, log.ranges.starting_at(from_offset), starts, now_ms)
        journal.put_log(key, log)
        if redelivered:
            for start, count in redelivered.items():
                book.windows[start].redelivered += count
            book.changed |= redelivered.keys()
            journal.put_redelivered(key.topic, {start: book.windows[start].redelivered for start in redelivered})

    # -- where they stand ----------------------------------------------------------------------------------------------

    def log(self, key: LogKey) -> TierLog | None:
        """Return one tier's view of one partition, or None when it has none."""
        book = self.topics.get(key.topic)
        return None if book is None else book.logs.get(key.tier, {}).get(key.partition)

    def position(self, key: LogKey) -> int | None:
        """Return where the tier's accounted offsets end in the partition, or None when it has none."""
        log = self.log(key)
        if log is None:
            return None
        coverage = log.ranges.coverage()
        return coverage[-1][1] if coverage else log.begins_at

    def owner_of(self, producer_id: int) -> RunKey | None:
        """Return whose records carry this producer id, None when nobody announced it."""
        return self._by_producer_id.get(producer_id)

    def is_mentioned(self, topic: str, window_start_ms: int) -> bool:
        """Return whether any tier has said anything of the window: one that none mentions does not exist."""
        book = self.topics[topic].windows.get(window_start_ms)
        return book is not None and bool(book.producers or book.live or any(book.cells.values()))


def _standing(run: Run) -> tuple[object, ...]:
    """Return what, when it changes, may change the verdict on any window of the run's topics."""
    return run.is_closed, bool(run.gaps), len(run.topics), len(run.producer_ids), run.retired
