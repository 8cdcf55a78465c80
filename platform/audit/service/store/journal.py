"""Writes every change of the tier reports into the database, in the transaction that the caller has begun."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from ...model.codec import encode
from ...model.messages import RangeReport
from ...model.ranges import AcceptedRange
from ...model.runs import Run, RunKey
from ...model.tier_reports import LogKey, ProducerCell, TierLog
from ...model.tiers import LIVE
from .database import Database


class BooksJournal:
    """`model.tier_reports.Journal`, into SQLite. Loading what it wrote gives the same reports: `loading.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_log(self, key: LogKey, log: TierLog) -> None:
        self._database.do(
            "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?)", (*key, log.begins_at, log.moved_ms, log.caught_up_ms)
        )

    def drop_range(self, key: LogKey, from_offset: int) -> None:
        for table in ("ranges", "range_windows"):
            self._database.do(
                f"DELETE FROM {table} WHERE tier = ? AND topic = ? AND partition = ? AND from_offset = ?", (*key, from_offset)
            )

    def put_range(self, key: LogKey, accepted: AcceptedRange, windows: Iterable[int], now_ms: int) -> None:
        self._database.do(
            "INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?)", (*key, accepted.from_offset, accepted.to_offset)
        )
        found = [(start, accepted.windows[start]) for start in windows]
        self._database.do_many(
            "INSERT OR REPLACE INTO range_windows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*key, accepted.from_offset, start, one.count, one.quarantined, one.first_offset, one.end_offset, now_ms)
                for start, one in found
            ],
        )

    def put_live(self, topic: str, partition: int, totals: Mapping[tuple[int, int], int]) -> None:
        self._database.do_many(
            "INSERT OR REPLACE INTO live_producers VALUES (?, ?, ?, ?, ?)",
            [(topic, start, producer_id, partition, count) for (start, producer_id), count in totals.items()],
        )

    def put_redelivered(self, topic: str, totals: Mapping[int, int]) -> None:
        self._database.do_many(
            "INSERT OR REPLACE INTO redelivered VALUES (?, ?, ?)", [(topic, start, count) for start, count in totals.items()]
        )

    def put_run(self, run: Run) -> None:
        self._database.do(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *run.key,
                run.first_heard_ms,
                run.heard_ms,
                run.closed_ms,
                run.next_sequence,
                *(json.dumps(value) for value in (sorted(run.producer_ids), sorted(run.topics), run.gaps, run.seals)),
                None if run.retired is None else json.dumps(asdict(run.retired)),
            ),
        )

    def put_producer_cells(self, key: RunKey, topic: str, cells: Mapping[int, ProducerCell]) -> None:
        self._database.do_many(
            "INSERT OR REPLACE INTO producer_windows VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*key, topic, start, cell.sequence, json.dumps(cell.counts), json.dumps(cell.losses), cell.heard_ms)
                for start, cell in cells.items()
            ],
        )

    def put_part(self, report: RangeReport) -> None:
        place = (report.tier, report.topic, report.partition, report.from_offset, report.to_offset, report.parts, report.part)
        self._database.do("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, encode(report)))

    def drop_parts(self, report: RangeReport) -> None:
        self._database.do(
            "DELETE FROM parts"
            " WHERE tier = ? AND topic = ? AND partition = ? AND from_offset = ? AND to_offset = ? AND parts = ?",
            (report.tier, report.topic, report.partition, report.from_offset, report.to_offset, report.parts),
        )

    def drop_tier(self, tier: str, topic: str) -> None:
        for table in ("logs", "ranges", "range_windows", "unreadable"):
            self._database.do(f"DELETE FROM {table} WHERE tier = ? AND topic = ?", (tier, topic))
        if tier == LIVE:
            self._database.do("DELETE FROM live_producers WHERE topic = ?", (topic,))
