"""The runs of the agent's sources, kept over restarts: what ended and is not reported, losses, and the reports under way.

A report is written into the state, with its sequence numbers, in the transaction that removes what it tells. From then on its
bytes are sent until the audit topic has acknowledged them. A run has one report under way at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...audit.model.codec import encode
from ...audit.model.messages import ProducerReport, ProducerWindow
from ...audit.model.windows import window_start_ms
from ...audit.publisher.unreported import Unreported
from ...client.producer.delivery import BatchNumbers
from ...runtime.clock import Clock
from ..plan import sealing
from ..source import AuditRun
from ..state.rows import ENROLMENT, QUARANTINE_OWNER, EndRow, ReportRow, RunRow
from ..state.store import Store

REPORT_MS = 1_000
"""What ended is told after at most this long."""
BEAT_MS = 5_000
"""A run with nothing to tell says so this often; the audit calls it silent after 20 s."""
MOST_STRETCHES = 100_000
"""With more batches of one run to be reported, neighbours are reported as one, without their CRC."""


class _Run:
    """A run, and what it has to tell."""

    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.unreported = Unreported(MOST_STRETCHES)
        self.is_dirty = True
        """Something is to be reported; at a start, the totals of its losses."""
        self.reported_at_ms: int | None = None
        """Monotonic."""
        self.under_way = 0
        self.undecided: Counter[int] = Counter()
        """Window start → batches that are planned and not settled."""


class AuditReports:
    """Every run that the audit must hear of; for one thread. What it writes is on disk with the store's next commit."""

    def __init__(self, store: Store, clock: Clock, *, enrolment: str) -> None:
        """`enrolment`: the instance name of the enrolment's run."""
        self._store = store
        self._clock = clock
        self._runs: dict[int, _Run] = {row.id: _Run(row) for row in store.runs()}
        self._by_name = {_name(one.row.facts): one.row for one in self._runs.values()}
        self._closing = {row.id for row in self.rows if row.is_closing}
        for end in store.ends():
            self._note(end)
        for run_id, topic, window, name, count in store.losses():
            self._runs[run_id].unreported.add_loss((topic, window), name, count)
        self._unsent: list[ReportRow] = []
        self._reports: dict[int, ReportRow] = {}
        for report in store.reports():
            self._track(report)
        if ENROLMENT not in self._runs:
            now_ms = clock.now_ms()
            assert store.next_id("runs") == ENROLMENT, "the enrolment is the first run of a state"
            row = RunRow(id=ENROLMENT, facts=AuditRun(instance=enrolment, begins_ms=now_ms), epoch=now_ms)
            self._open(row)

    @property
    def enrolment(self) -> RunRow:
        return self._runs[ENROLMENT].row

    @property
    def rows(self) -> Iterable[RunRow]:
        """Return every run but the enrolment."""
        return [one.row for one in self._runs.values() if one.row.id != ENROLMENT]

    def get(self, run_id: int) -> RunRow:
        return self._runs[run_id].row

    # -- who reports -----------------------------------------------------------------------------------------------------

    def adopt(self, facts: AuditRun, topic: str) -> RunRow:
        """Return the run of this instance, made where there is none; `topic` is enrolled, and among the run's own."""
        row = self._by_name.get(_name(facts))
        if row is None:
            epoch = self._clock.now_ms() if facts.epoch is None else facts.epoch
            row = RunRow(id=self._store.next_id("runs"), facts=facts, epoch=epoch)
            self._open(row)
        self._add_topic(row, topic)
        self.enrol(topic)
        return row

    def enrol(self, topic: str) -> None:
        """Have the enrolment stand for this topic, from now on."""
        if topic not in self.enrolment.topics:
            self._store.add_topic(topic)
            self._add_topic(self.enrolment, topic)

    def add_producer_id(self, run_id: int, producer_id: int, producer_epoch: int) -> None:
        """Note an id under which the run's records will be sent: not before `may_send` allows it."""
        if run_id == QUARANTINE_OWNER:
            return
        row = self._runs[run_id].row
        row.producer_ids = (*row.producer_ids, (producer_id, producer_epoch))

    def may_send(self, run_id: int, producer_id: int, producer_epoch: int) -> bool:
        """Return whether the audit topic holds that the run sends under this id."""
        if run_id == QUARANTINE_OWNER:
            return True
        row = self._runs[run_id].row
        return (producer_id, producer_epoch) in row.producer_ids[: max(0, row.announced_ids)]

    def unannounced(self) -> set[int]:
        """Return the runs that the audit topic has not heard of, with all of their topics."""
        return {run_id for run_id, one in self._runs.items() if one.row.announced_ids < 0}

    # -- what happened ---------------------------------------------------------------------------------------------------

    def planned(self, run_id: int, window_start: int) -> None:
        """Note a batch of events that has no end yet."""
        self._runs[run_id].undecided[window_start] += 1

    def settled(self, run_id: int, window_start: int) -> None:
        """Note that such a batch has its end, or became others."""
        undecided = self._runs[run_id].undecided
        undecided[window_start] -= 1
        if undecided[window_start] <= 0:
            del undecided[window_start]

    def ended(
        self,
        run_id: int,
        topic: str,
        window_start: int,
        partition: int,
        numbers: tuple[BatchNumbers, ...],
        record_count: int,
        *,
        is_acknowledged: bool,
    ) -> None:
        """Note what became of a batch of events: acknowledged, or uncertain."""
        end = EndRow(
            run_id=run_id,
            topic=topic,
            window_start_ms=window_start,
            partition=partition,
            numbers=numbers,
            record_count=record_count,
            is_acknowledged=is_acknowledged,
        )
        self._store.add_end(end)
        self._note(end)

    def lost(self, run_id: int, topic: str, at_ms: int, name: str, count: int) -> None:
        """Count records that are not stored, in the window of `at_ms`."""
        window = window_start_ms(at_ms)
        self._store.add_loss(run_id, topic, window, name, count)
        self._store.add_total(name, count)
        run = self._runs[run_id]
        run.unreported.add_loss((topic, window), name, count)
        run.is_dirty = True

    # -- reports ---------------------------------------------------------------------------------------------------------

    def has_due(self, *, is_last: bool = False) -> bool:
        """Return whether some run has a report to write now; for `is_last`, only whether something is left to be reported."""
        if is_last:
            return any(run.is_dirty for run in self._runs.values())
        return any(not run.row.is_closing and self._is_due(run) for run in self._runs.values())

    def compose(
        self, settled_up_to_ms: Callable[[RunRow], int | None], *, is_alive: Callable[[RunRow], bool], is_last: bool = False
    ) -> None:
        """Write the reports that are due into the state. `is_last`: the agent stops; every run with something to tell is due.

        A run that is not alive (its source is gone, and it is unknown what it held) reports what ended, and gives no sign of
        life.
        """
        for run in list(self._runs.values()):
            if run.row.id == ENROLMENT or run.row.is_closing or not (run.is_dirty or is_alive(run.row)):
                continue
            if self._is_due(run, is_last=is_last):
                row = run.row
                border = sealing.moved_past_ms(settled_up_to_ms(row), row.facts.lateness_ms, run.undecided)
                self._write(run, sealing.later(border, row.moved_past_ms))

    def compose_enrolment(self, border_ms: int | None) -> None:
        """Write the enrolment's report, if one is due."""
        run = self._runs[ENROLMENT]
        if self._is_due(run):
            self._write(run, sealing.later(border_ms, run.row.moved_past_ms))

    def close_run(self, run_id: int) -> bool:
        """Write a run's last report, all of its batches settled. Return whether it is written: not while one is under way."""
        run = self._runs[run_id]
        if run.row.is_closing:
            return True
        if run.under_way or run.undecided:
            return False
        run.row.is_closing = True
        self._closing.add(run_id)
        self._write(run, run.row.moved_past_ms)
        return True

    def is_closed(self, run_id: int) -> bool:
        """Return whether the audit topic has acknowledged the run's last report."""
        run = self._runs[run_id]
        return run.row.is_closing and not run.under_way

    def has_reported_all(self, run_id: int) -> bool:
        """Return whether the audit topic holds everything that is known of the run."""
        run = self._runs[run_id]
        return not (run.is_dirty or run.under_way or run.undecided)

    def closed(self) -> list[int]:
        """Return the runs whose last report the audit topic has acknowledged."""
        return [run_id for run_id in self._closing if self.is_closed(run_id)]

    def forget(self, run_id: int) -> None:
        """Drop a closed run and its sources."""
        self._store.delete_run(run_id)
        self._closing.discard(run_id)
        del self._by_name[_name(self._runs.pop(run_id).row.facts)]

    def unsent(self) -> list[ReportRow]:
        """Return the reports that nobody was given yet; call it after the commit."""
        reports, self._unsent = self._unsent, []
        return reports

    def acknowledged(self, report_ids: Iterable[int]) -> None:
        """Note which reports the audit topic holds."""
        for report_id in report_ids:
            report = self._reports.pop(report_id)
            run = self._runs[report.run_id]
            run.under_way -= 1
            # A report that was written before the run's newest topic announces nothing of it.
            if report.topics == len(run.row.topics) and report.announces > run.row.announced_ids:
                run.row.announced_ids = report.announces
                self._store.put_run(run.row)
            self._store.delete_reports([report_id])

    @property
    def reports_under_way(self) -> int:
        return len(self._reports)

    def _open(self, row: RunRow) -> None:
        facts = row.facts
        if facts.begins_ms is not None:
            row.moved_past_ms = sealing.moved_past_ms(facts.begins_ms, facts.lateness_ms)
        self._runs[row.id] = _Run(row)
        self._by_name[_name(facts)] = row
        self._store.put_run(row)

    def _add_topic(self, row: RunRow, topic: str) -> None:
        if topic in row.topics:
            return
        row.topics = tuple(sorted({*row.topics, topic}))
        # Unannounced again: nothing of the new topic may be sealed, and nothing sent, before the audit has heard of it.
        row.announced_ids = -1
        self._store.put_run(row)
        self._runs[row.id].is_dirty = True

    def _note(self, end: EndRow) -> None:
        run = self._runs[end.run_id]
        key = (end.topic, end.window_start_ms)
        run.unreported.add_batch(key, end.partition, end.numbers, end.record_count, is_acknowledged=end.is_acknowledged)
        run.is_dirty = True

    def _is_due(self, run: _Run, *, is_last: bool = False) -> bool:
        if run.under_way:
            return False
        row = run.row
        if row.announced_ids < len(row.producer_ids) or row.announced_ids < 0 or run.reported_at_ms is None:
            return True
        waited_ms = self._clock.monotonic_ms() - run.reported_at_ms
        return (run.is_dirty and (is_last or waited_ms >= REPORT_MS)) or waited_ms >= BEAT_MS

    def _write(self, run: _Run, moved_past_ms: int | None) -> None:
        row = run.row
        contents = run.unreported.take()
        is_last = row.is_closing
        for number, windows in enumerate(contents, 1):
            # Only the last message seals: before it the content of the earlier ones has arrived.
            ends = number == len(contents)
            report = self._report(row, windows)
            if ends:
                report = replace(report, state="closed" if is_last else "open", moved_past_ms=moved_past_ms)
            row.next_sequence += 1
            stored = ReportRow(
                id=self._store.next_id("reports"),
                run_id=row.id,
                body=encode(report),
                announces=len(row.producer_ids),
                topics=len(row.topics),
            )
            self._store.add_report(stored)
            self._track(stored)
        row.moved_past_ms = moved_past_ms
        self._store.put_run(row)
        self._store.delete_ends(row.id)
        run.is_dirty = False
        run.reported_at_ms = self._clock.monotonic_ms()

    def _report(self, row: RunRow, windows: list[ProducerWindow]) -> ProducerReport:
        return ProducerReport(
            instance=row.facts.instance,
            epoch=row.epoch,
            sequence=row.next_sequence,
            at_ms=self._clock.now_ms(),
            state="open",
            producer_ids=tuple(sorted({one for one, _ in row.producer_ids})),
            topics=row.topics,
            moved_past_ms=row.moved_past_ms,
            only_between_ms=row.facts.only_between_ms,
            windows=tuple(windows),
        )

    def _track(self, report: ReportRow) -> None:
        self._reports[report.id] = report
        self._unsent.append(report)
        self._runs[report.run_id].under_way += 1


def _name(facts: AuditRun) -> tuple[str, int | None]:
    return facts.instance, facts.epoch
