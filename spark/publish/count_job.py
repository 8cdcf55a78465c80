"""The count: reports to the audit which records are on the branch `loads`, by reading the files of each load.

The tier is `warehouse`. A load is read when it was not reported yet, and again when a file of it has changed or is gone: then its
ranges are reported as they now are. A crash before the state is stored repeats a report; the audit recognises a repetition.
"""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...audit.model.messages import RangeReport, Skipped
from ...audit.model.tiers import WAREHOUSE
from ...audit.publisher import FoundWindow, ReportSender, range_reports
from ...audit.publisher.sending import send_and_flush
from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...runtime.clock import Clock, SystemClock
from ...runtime.layout import Layout
from ...runtime.logs import get_logger
from ..errors import WarehouseError
from ..source.digest import MODULUS
from ..source.offset_ranges import OffsetRange
from ..warehouse.counted import Counted, Facts, read_counted
from ..warehouse.file_rows import FileFacts, Numbers, Rows, in_range, join_rows, no_rows, read_file, stretches
from ..warehouse.hours import BEFORE_1970
from ..warehouse.load_record import LoadRecord, read_records
from ..warehouse.settings import WarehouseSettings
from ..warehouse.store import StorePath
from ..warehouse.topic_table import MAIN, TopicTable
from ..warehouse.warehouse import Warehouse
from .altered_rows import DecodeAgain, altered, decode_from_log
from .counting.plan import Load, Plan
from .counting.rotation import rotten as rotten_files
from .counting.stray_rows import Spoken, ranges_of, together

log = get_logger(__name__)

SEND_MS = 60_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CountOutcome:
    """What was reported."""

    topic: str
    load_count: int = 0
    """Loads that were read, for the first time or again."""
    row_count: int = 0
    quarantined_count: int = 0
    window_count: int = 0
    altered_count: int = 0


def count_and_report(
    warehouse: Warehouse,
    topic: str,
    sender: ReportSender,
    *,
    instance: str,
    decode_again: DecodeAgain,
    again: bool = False,
    rotten: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> CountOutcome:
    """Report every load of the topic whose files are not as they were last reported. Without a table there is nothing to do.

    `again` reads every file, also those that look unchanged. `rotten`: what `look_again` has found. Raises ReportNotSent (nothing
    is stored then), WarehouseError.
    """
    table = warehouse.table(topic)
    if table is None:
        return CountOutcome(topic=topic)
    with warehouse.locked(f"count-{topic}"):
        count = _Count(table, decode_again, instance=instance, clock=clock or SystemClock())
        return count.run(sender, Plan(table, again=again, rotten=rotten))


def run_count(layout: Layout, topic: str, *, again: bool = False, warehouse: Warehouse | None = None) -> CountOutcome:
    """Count and report one topic of a local platform. Raises the client's errors if the live cluster is away.

    `warehouse`: the layout's, if it is open already.
    """
    warehouse = warehouse or Warehouse(WarehouseSettings.of(layout))
    table = warehouse.table(topic)
    if table is None:
        return CountOutcome(topic=topic)
    rotten = look_again(table, SystemClock())
    if not (again or needs_count(table, rotten)):
        return CountOutcome(topic=topic)
    cluster = Cluster(layout.live_bootstrap, client_id="headrace-count")
    producer = Producer(cluster)
    try:
        return count_and_report(
            warehouse,
            topic,
            producer,
            instance=f"{socket.gethostname()}/load/{os.getpid()}",
            decode_again=decode_from_log(layout.offline_bootstrap, layout.registry_url, topic),
            again=again,
            rotten=rotten,
        )
    finally:
        producer.close(0)
        cluster.close()


def look_again(table: TopicTable, clock: Clock) -> dict[str, str]:
    """Return the files whose bytes have changed though nothing shows it: some of all are read at each count, in turn."""
    table.look()
    before = read_counted(table.records_folder)
    files = {table.path_of(path): facts for path, facts in before.files().items()}
    return rotten_files(table.records_folder, files, before.rotten, now_ms=clock.now_ms())


def needs_count(table: TopicTable, rotten: Mapping[str, str] | None = None) -> bool:
    """Return whether something of the table is not as it was last reported."""
    plan = Plan(table, rotten=rotten)
    is_new = bool(plan.changed or plan.rolled_back or plan.others_changed or plan.others_gone)
    return is_new or plan.has_new_on_main(table) or plan.rotten != plan.before.rotten


class _RunRows:
    """The rows of one load that are in files now: which, and the digest, by (partition, window). Eight bytes a row."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, int], list[Numbers]] = {}
        self.digests: dict[tuple[int, int], int] = {}

    def add(self, rows: Rows) -> None:
        for partition in map(int, np.unique(rows.partitions)):
            mine = rows.where(rows.partitions == partition)
            for start, digest in mine.hashes.totals(mine.windows).items():
                key = (partition, int(start))
                self.digests[key] = (self.digests.get(key, 0) + digest) % MODULUS
                self._offsets.setdefault(key, []).append(mine.offsets[mine.windows == start])

    def windows(self, partition: int) -> list[int]:
        return sorted(start for one, start in self._offsets if one == partition)

    def offsets(self, partition: int, start: int) -> Numbers:
        return np.concatenate([np.zeros(0, np.int64), *self._offsets.get((partition, start), ())])


class _Count:
    """One count of one table."""

    def __init__(self, table: TopicTable, decode_again: DecodeAgain, *, instance: str, clock: Clock) -> None:
        self._table = table
        self._decode_again = decode_again
        self._instance = instance
        self._clock = clock
        self._facts: Facts = {}
        self._strays = no_rows()
        """Rows that are in a file of another load: there are none unless other programs rewrite files."""
        self._of_no_load: dict[str, Rows] = {}
        """File → its rows at offsets of which no load has spoken."""
        self._others: Sequence[StorePath] = ()
        self._spoken = Spoken(())
        self._told_strays: dict[str, list[OffsetRange]] = {}
        self._through: int | None = None
        self._rows = self._quarantined = self._altered = 0
        self._windows: set[int] = set()
        self._differing: dict[str, list[int]] = {}

    def run(self, sender: ReportSender, plan: Plan) -> CountOutcome:
        self._others, self._through = plan.others, self._table.expired_through()
        self._spoken = Spoken(one for run in plan.runs.values() for one in run.ranges)
        found: dict[str, _RunRows] = {}
        left = self._to_read(plan)
        while left:
            name = left.pop()
            found[name], outside = self._read_run(plan.runs[name])
            if len(outside):
                self._strays = join_rows([self._strays, outside])
                left += [
                    other
                    for other, run in plan.runs.items()
                    if other not in found and other not in left and _within(run, outside).any()
                ]
        self._add_others(plan, found)
        records = {one.run: one for one in read_records(self._table.records_folder, sorted(found))}
        if lost := found.keys() - records.keys():
            names = ", ".join(sorted(lost)[:5])
            raise WarehouseError(f"load records were deleted during the count: {names}; run the count again")
        messages: list[RangeReport] = []
        for gone in plan.rolled_back:
            messages += self._reports(gone, {}, ())
            log.warning("rows_rolled_back", topic=self._table.topic, partition=gone.partition, to_offset=gone.from_offset)
        for name in sorted(found):
            run = plan.runs[name]
            if len(self._strays):
                found[name].add(self._strays.where(_within(run, self._strays)))
            messages += self._of_run(run, records[name], found[name])
        messages += self._of_strays(plan)
        if messages:
            send_and_flush(sender, self._clock, messages, SEND_MS)
        self._store(plan, found)
        return CountOutcome(
            topic=self._table.topic,
            load_count=len(found),
            row_count=self._rows,
            quarantined_count=self._quarantined,
            window_count=len(self._windows),
            altered_count=self._altered,
        )

    def _to_read(self, plan: Plan) -> list[str]:
        """Return the loads to be read: those with changed files of their own, or with rows in a changed one of others."""
        facts = list(plan.others_gone)
        for path in plan.others_changed:
            facts += [plan.before.others[str(path)]] if str(path) in plan.before.others else []
            for rows in self._read(path):
                facts.append(self._facts[str(path)])
                self._note_strays(path, rows)
        changed = set(plan.changed)
        return [name for name, run in plan.runs.items() if name in changed or any(_may_hold(one, run) for one in facts)]

    def _add_others(self, plan: Plan, found: Mapping[str, "_RunRows"]) -> None:
        """Add to the loads their rows in files that are not theirs alone, one file at a time."""
        for path in plan.others:
            facts = self._facts.get(str(path)) or plan.before.others.get(str(path))
            mine = [name for name in found if facts is None or _may_hold(facts, plan.runs[name])]
            for rows in self._read(path) if mine else ():
                for name in mine:
                    found[name].add(rows.where(_within(plan.runs[name], rows)))

    def _store(self, plan: Plan, found: Mapping[str, _RunRows]) -> None:
        unchanged = set(map(str, plan.others)) - set(map(str, plan.others_changed))
        known = {path: one for path, one in plan.before.others.items() if path in unchanged}
        after = Counted(offsets=plan.offsets, others={**known, **self._facts_of(plan.others)})
        for name, run in plan.runs.items():
            if name in found:
                after.runs[name] = self._facts_of(run.files)
            elif name in plan.before.runs:
                after.runs[name] = plan.before.runs[name]
                self._differing[name] = plan.before.differing.get(name, [])
        after.refused = {name: dict(run.refused) for name, run in plan.runs.items() if run.refused}
        after.twice, after.rotten = plan.twice, dict(plan.rotten)
        after.main, after.main_snapshot_id = self._of_main(plan, after.files()), plan.main_snapshot_id
        after.strays = {
            path: [(one.partition, one.from_offset, one.to_offset) for one in mine] for path, mine in self._told_strays.items()
        }
        after.differing = {name: windows for name, windows in self._differing.items() if windows}
        after.write(self._table.records_folder)

    def _of_main(self, plan: Plan, counted: Facts) -> Facts:
        """Return what the files are that only `main` names: those that are new there are read."""
        if not plan.main_changed:
            return plan.before.main
        found: Facts = {}
        for path in map(self._table.path_of, self._table.files(MAIN)):
            name = str(path)
            if name in counted:
                continue
            if name in plan.before.main and plan.before.main[name].is_still(path):
                found[name] = plan.before.main[name]
                continue
            for _ in self._read(path):
                found[name] = self._facts[name]
        return found

    def _facts_of(self, files: Sequence[StorePath]) -> Facts:
        return {str(path): self._facts[str(path)] for path in files if str(path) in self._facts}

    def _read(self, path: StorePath) -> Iterator[Rows]:
        """Yield the file's rows; nothing if it is gone or cannot be read: then its rows are reported to the audit as missing."""
        try:
            self._facts[str(path)], rows = read_file(path)
        except FileNotFoundError:
            log.error("file_is_gone", topic=self._table.topic, file=str(path))
            return
        except WarehouseError as error:
            log.error("file_is_damaged", topic=self._table.topic, file=str(path), reason=str(error))
            return
        yield rows

    def _read_run(self, run: Load) -> tuple[_RunRows, Rows]:
        """Return what stands inside the run's ranges, and the rows outside of them."""
        inside, outside = _RunRows(), [no_rows()]
        for path in run.files:
            for rows in self._read(path):
                mask = _within(run, rows)
                inside.add(rows if mask.all() else rows.where(mask))
                if not mask.all():
                    log.error("rows_of_another_load", topic=self._table.topic, file=str(path), rows=int((~mask).sum()))
                    outside.append(rows.where(~mask))
                    self._note_strays(path, outside[-1])
        return inside, join_rows(outside)

    def _note_strays(self, path: StorePath, rows: Rows) -> None:
        strays = self._spoken.others(rows)
        strays = strays.where((strays.partitions >= 0) & (strays.offsets >= 0))
        if len(strays):
            log.error("rows_of_no_load", topic=self._table.topic, file=str(path), rows=len(strays))
            before = self._of_no_load.get(str(path))
            self._of_no_load[str(path)] = strays if before is None else join_rows([before, strays])

    def _of_strays(self, plan: Plan) -> list[RangeReport]:
        """Return what is to be said of rows of no load, and of those that were and are gone."""
        if not self._of_no_load and not plan.before.strays:
            return []
        rows = join_rows(list(self._of_no_load.values()))
        self._told_strays = {path: ranges_of(mine) for path, mine in self._of_no_load.items()}
        before = [
            OffsetRange(partition=p, from_offset=a, to_offset=b) for mine in plan.before.strays.values() for p, a, b in mine
        ]
        messages: list[RangeReport] = []
        for whole in together([before, *self._told_strays.values()]):
            for within in self._spoken.without(whole):
                mine = rows.where(in_range(rows, within))
                windows = {
                    int(start): FoundWindow(held=stretches(mine.offsets[mine.windows == start]))
                    for start in np.unique(mine.windows)
                }
                messages += self._reports(within, windows, ())
                self._windows.update(windows)
        self._rows += len(rows)
        return messages

    def _of_run(self, run: Load, record: LoadRecord, found: _RunRows) -> list[RangeReport]:
        messages: list[RangeReport] = []
        for within in record.ranges:
            windows = self._windows_of(run, record, found, within.partition)
            skipped = record.skipped.get(within.partition, ())
            begin = min([within.from_offset, *(one.from_offset for one in skipped if one.reason == "expired")])
            whole = OffsetRange(partition=within.partition, from_offset=begin, to_offset=within.to_offset)
            messages += self._reports(whole, windows, skipped)
            self._windows.update(windows)
        log.info("load_reported", topic=self._table.topic, run=run.run, messages=len(messages))
        return messages

    def _reports(self, within: OffsetRange, windows: Mapping[int, FoundWindow], skipped: Sequence[Skipped]) -> list[RangeReport]:
        return range_reports(
            tier=WAREHOUSE,
            instance=self._instance,
            at_ms=self._clock.now_ms(),
            topic=self._table.topic,
            partition=within.partition,
            from_offset=within.from_offset,
            to_offset=within.to_offset,
            windows=windows,
            skipped=skipped,
        )

    def _windows_of(self, run: Load, record: LoadRecord, found: _RunRows, partition: int) -> dict[int, FoundWindow]:
        windows: dict[int, FoundWindow] = {}
        for start, records in record.quarantined.get(partition, {}).items():
            windows.setdefault(start, FoundWindow()).quarantined += records
            self._quarantined += sum(one.count for one in records)
        expected = record.digests.get(partition, {})
        expired = record.expired.get(partition, {})
        for start in sorted({*found.windows(partition), *expected}):
            window = windows.setdefault(start, FoundWindow())
            if self._has_expired(start) and start in expired and (partition, start) not in found.digests:
                window.held += expired[start]
                continue
            window.held += stretches(found.offsets(partition, start))
            self._rows += sum(one.count for one in window.held)
            if found.digests.get((partition, start), 0) != expected.get(start, 0):
                self._differing.setdefault(run.run, []).append(start)
                rows = self._rows_again(run, partition, start)
                window.altered += altered(self._table.topic, rows, start, self._table.arrow_schema(), self._decode_again)
                self._altered += sum(one.count for one in window.altered)
        return windows

    def _has_expired(self, start: int) -> bool:
        return self._through is not None and max(start // HOUR_MS, BEFORE_1970) <= self._through

    def _rows_again(self, run: Load, partition: int, start: int) -> Rows:
        """Return the rows of one window, read a second time: the first time only their sum was kept."""
        parts = [self._strays.where(_within(run, self._strays))]
        for path in (*run.files, *self._others):
            facts = self._facts.get(str(path))
            if facts is None or partition not in facts.partitions:
                continue  # it was read before, or holds nothing of this load
            for rows in self._read(path):
                parts.append(rows.where((rows.partitions == partition) & (rows.windows == start) & _within(run, rows)))
        rows = join_rows(parts)
        return rows.where((rows.partitions == partition) & (rows.windows == start))


def _may_hold(facts: FileFacts, run: Load) -> bool:
    """Return whether the file may hold rows of the load, by their offsets."""
    return any(
        first < one.to_offset and one.from_offset < end
        for one in run.ranges
        for first, end, _ in (facts.partitions.get(one.partition, (0, 0, 0)),)
    )


def _within(run: Load, rows: Rows) -> NDArray[np.bool_]:
    mask = np.zeros(len(rows), np.bool_)
    for one in run.ranges:
        mask |= in_range(rows, one)
    return mask
