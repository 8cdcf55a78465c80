"""Rebuilds the tier reports that `journal.py` wrote, as of the last transaction."""

import json

from ...model.codec import decode
from ...model.facts import Cell
from ...model.messages import RangeReport
from ...model.ranges import AcceptedRange, Ranges, WindowSum
from ...model.runs import Retired, Run, RunKey
from ...model.tier_reports import LogKey, ProducerCell, TierLog, TierReports
from ..errors import StoreError
from .database import Database


def load(database: Database, window_ms: int) -> TierReports:
    """Return the tier reports as of the last transaction.

    Raises StoreError if they were stored with other windows.
    """
    known = database.fact("window_ms")
    if known is not None and known != window_ms:
        raise StoreError(
            f"{database.path} counts windows of {known} ms and the settings say {window_ms}: set window_ms back, "
            f"or move the file away"
        )
    books = TierReports(window_ms)
    _load_runs(database, books)
    _load_logs(database, books)
    for topic, start, producer_id, partition, count in database.rows("SELECT * FROM live_producers"):
        books.topics[topic].windows[start].live.setdefault(producer_id, {})[partition] = count
    for topic, start, count in database.rows("SELECT * FROM redelivered"):
        books.topics[topic].windows[start].redelivered = count
    for (report,) in database.rows("SELECT report FROM parts"):
        part = decode(report)
        if isinstance(part, RangeReport):
            books.restore_part(part)
    return books


def _load_runs(database: Database, books: TierReports) -> None:
    rows = database.rows("SELECT * FROM runs")
    for instance, epoch, first_heard_ms, heard_ms, closed_ms, next_sequence, producer_ids, topics, gaps, seals, retired in rows:
        key = RunKey(instance, epoch)
        books.runs[key] = Run(
            key=key,
            first_heard_ms=first_heard_ms,
            heard_ms=heard_ms,
            is_closed=closed_ms is not None,
            closed_ms=closed_ms,
            producer_ids=set(json.loads(producer_ids)),
            topics=set(json.loads(topics)),
            next_sequence=next_sequence,
            gaps=[(start, end) for start, end in json.loads(gaps)],
            seals=[(past, at) for past, at in json.loads(seals)],
            retired=None if retired is None else Retired(**json.loads(retired)),
        )
        books.index_run(books.runs[key])
    for row in database.rows("SELECT * FROM producer_windows"):
        instance, epoch, topic, start, sequence, counts, losses, heard_ms = row
        by_partition = {int(partition): count for partition, count in json.loads(counts).items()}
        cell = ProducerCell(sequence, by_partition, json.loads(losses), heard_ms)
        books.topics[topic].windows[start].producers[RunKey(instance, epoch)] = cell


def _load_logs(database: Database, books: TierReports) -> None:
    accepted: dict[LogKey, dict[int, AcceptedRange]] = {}
    for tier, topic, partition, from_offset, to_offset in database.rows("SELECT * FROM ranges"):
        accepted.setdefault(LogKey(tier, topic, partition), {})[from_offset] = AcceptedRange(from_offset, to_offset)
    updated: dict[tuple[LogKey, int], int] = {}
    for row in database.rows("SELECT * FROM range_windows"):
        tier, topic, partition, from_offset, start, count, quarantined, first_offset, end_offset, updated_ms = row
        key = LogKey(tier, topic, partition)
        accepted[key][from_offset].windows[start] = WindowSum(count, quarantined, first_offset, end_offset)
        updated[key, start] = max(updated.get((key, start), 0), updated_ms)
    for tier, topic, partition, begins_at, moved_ms, caught_up_ms in database.rows("SELECT * FROM logs"):
        key = LogKey(tier, topic, partition)
        ranges = Ranges(accepted.get(key, {}).values())
        books.topics[topic].logs.setdefault(tier, {})[partition] = TierLog(ranges, begins_at, moved_ms, caught_up_ms)
        for start, total in ranges.totals().items():
            cell = Cell(total, updated[key, start])
            books.topics[topic].windows[start].cells.setdefault(tier, {})[partition] = cell
