"""A warehouse as loads and publishes leave it, without Spark's own run, registry and brokers: what they commit is their own code.

The audit is a double: it believes every word of the count, and finds each hour complete except those in `incomplete`, and those
in which a record stands twice or is none of the log's.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from headrace.audit.model import codec
from headrace.audit.model.messages import RangeReport
from headrace.spark.errors import WarehouseError
from headrace.spark.publish.count_job import count_and_report
from headrace.spark.publish.gate import AuditedWindow
from headrace.spark.publish.publish_job import Gate, PublishOutcome
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.warehouse.settings import WarehouseSettings
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import HOUR_MS, span, store

LONG_AGO_S = 1_600_000_000
"""Orphan removal leaves files alone that are younger than a day."""


class Audit:
    """The audit topic and the audit service of one topic."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int, int], RangeReport] = {}
        self.incomplete: set[int] = set()
        self.altered: dict[int, int] = {}
        """Hour → offset of a row of which the audit says that the warehouse holds it with another content."""
        self.log_end = 1 << 62
        """A row at or behind it is of no record."""

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        report = codec.decode(value)
        assert isinstance(report, RangeReport)
        self._told[report.partition, report.from_offset, report.to_offset] = report

    def flush(self, timeout_ms: int, /) -> None:
        return None

    def ask(self, topic: str) -> Sequence[AuditedWindow]:
        held: dict[int, Counter[tuple[int, int]]] = {}
        for report in self._told.values():
            for start, window in report.windows.items():
                found = held.setdefault(start, Counter())
                found.update((report.partition, at) for one in window.held for at in range(one.first, one.end))
        return [self._window(start, records) for start, records in sorted(held.items())]

    def _window(self, start: int, held: Counter[tuple[int, int]]) -> AuditedWindow:
        hour = start // HOUR_MS
        words = {"window_start_ms": start, "verdict": "COMPLETE", "tiers": {"warehouse": held.total()}}
        bad = sorted(record for record, count in held.items() if count > 1 or record[1] >= self.log_end)
        if bad:
            differences = [
                {
                    "tier": "warehouse",
                    "partition": partition,
                    "records": [{"kind": "doubled", "first_offset": at, "count": 1} | self._stray(at)],
                }
                for partition, at in bad
            ]
            words |= {"verdict": "DOUBLED", "doubled": len(bad), "differences": differences}
        if hour in self.incomplete:
            words["verdict"] = "INCOMPLETE"
        if hour in self.altered:
            record = {"kind": "altered", "first_offset": self.altered[hour], "count": 1}
            words |= {"verdict": "ALTERED", "differences": [{"tier": "warehouse", "partition": 0, "records": [record]}]}
        return AuditedWindow.of(words)

    def _stray(self, at: int) -> dict[str, bool]:
        return {"stray": True} if at >= self.log_end else {}


class Stored:
    """The table of a topic with one partition."""

    def __init__(self, where: WarehouseSettings | Path, topic: str) -> None:
        self.warehouse = Warehouse(where)
        self.audit = Audit()
        self.topic = topic

    def load(self, hour: int, count: int) -> None:
        """Load `count` new records of an hour."""
        table = self.warehouse.table(self.topic)
        begin = 0 if table is None else table.offsets().get(0, 0)
        rows = [(0, offset, hour * HOUR_MS + offset) for offset in range(begin, begin + count)]
        assert store(self.warehouse, f"run-{begin}", rows, [span(0, begin, begin + count)], topic=self.topic)
        self.age()

    def count(self) -> int:
        """Tell the audit what is new in `loads`; return how many loads were read."""
        return count_and_report(self.warehouse, self.topic, self.audit, instance="t", decode_again=_no_log).load_count

    def publish(self) -> PublishOutcome:
        self.count()
        return Gate(self.warehouse, self.topic, self.audit.ask).publish(wait_ms=0)

    def rows(self, branch: str) -> list[int]:
        """Return the offsets that pyiceberg reads, sorted."""
        found = self.warehouse.existing_table(self.topic).iceberg.scan().use_ref(branch).to_arrow()
        return sorted(found["_offset"].to_pylist())

    def age(self) -> None:
        """Make every file look old enough for the removal of orphans."""
        folder = self.warehouse.folder
        for path in folder.rglob("*") if isinstance(folder, Path) else ():
            os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def _no_log(within: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    raise WarehouseError("there is no log here")
