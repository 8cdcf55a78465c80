"""One task's work: read a split to its end, yield rows in blocks, quarantine rejects, hand over the task's report.

Knows nothing of Spark; all its surroundings are passed in. Memory: one block of records, bounded in count and bytes, and one
fetch.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...audit.model.messages import Skipped, Stretch
from ...audit.model.windows import WINDOW_MS, dated, window_start_ms
from ...client.quarantine import unusable
from ...runtime.clock import Clock
from ...wire.batch.record_batch import Record
from ...wire.quarantine_record import SCHEMA_REFUSED, LogOrigin, QuarantineRecord, WindowFrom
from ..errors import UnusableRecord
from .decoding import Decoder, Rejected
from .digest import MODULUS, row_hashes
from .offset_ranges import OffsetRange
from .record_reader import Batches, Unreadable, read_runs
from .task_reports import TaskReport

BLOCK_RECORDS = 8_192
BLOCK_BYTES = 4 << 20
_VALUE = itemgetter(Record._fields.index("value"))


class Quarantine(Protocol):
    """The destination of rejects. After `flush` they are acknowledged."""

    def put(self, record: QuarantineRecord) -> None: ...

    def flush(self) -> None: ...


@dataclass(slots=True)
class _Tally:
    rows: int = 0
    digests: dict[int, int] = field(default_factory=dict)
    quarantined: dict[int, list[Stretch]] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    by_code: dict[str, int] = field(default_factory=dict)
    missing: set[int] = field(default_factory=set)
    last_timestamp_ms: int | None = None


class SplitReader:
    """Reads one split; call `rows` once and exhaust it."""

    def __init__(
        self,
        *,
        topic: str,
        cluster: str,
        split: OffsetRange,
        batches: Batches,
        decoder: Decoder,
        quarantine: Quarantine | None,
        on_report: Callable[[TaskReport], None],
        clock: Clock,
        wants_digest: bool = True,
        on_left_out: Callable[[int, Sequence[str]], None] = lambda schema_id, names: None,
    ) -> None:
        """`cluster` is the cluster's name (live, offline) in the origins. `on_left_out`: called with a schema's fields that the
        decoder's target has no place for, before the first row without them; it may raise.

        Without a quarantine the first reject raises UnusableRecord.
        """
        self._topic = topic
        self._cluster = cluster
        self._split = split
        self._batches = batches
        self._decoder = decoder
        self._quarantine = quarantine
        self._on_report = on_report
        self._clock = clock
        self._wants_digest = wants_digest
        self._on_left_out = on_left_out
        self._tally = _Tally()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield every row of the split. After the last row, flush the quarantine, then hand over the report."""
        block: list[Record] = []
        size_bytes = 0
        for one in read_runs(self._batches, self._split):
            if isinstance(one, Unreadable):
                self._put_unreadable(one)
                continue
            if one:
                self._tally.last_timestamp_ms = one[-1].timestamp_ms
            at = 0
            while at < len(one):
                some = one[at : at + BLOCK_RECORDS - len(block)]
                ends = [*accumulate(len(value or b"") for value in map(_VALUE, some))]
                some = some[: bisect_left(ends, BLOCK_BYTES - size_bytes) + 1]
                block += some
                size_bytes += ends[len(some) - 1]
                at += len(some)
                if len(block) >= BLOCK_RECORDS or size_bytes >= BLOCK_BYTES:
                    yield from self._decode(block)
                    block, size_bytes = [], 0
        if block:
            yield from self._decode(block)
        if self._quarantine is not None:
            self._quarantine.flush()
        tally = self._tally
        self._on_report(
            TaskReport(
                partition=self._split.partition,
                from_offset=self._split.from_offset,
                to_offset=self._split.to_offset,
                row_count=tally.rows,
                digests=tally.digests,
                quarantined=tally.quarantined,
                skipped=tally.skipped,
                refused=tally.refused,
                quarantined_by_code=tally.by_code,
                missing_schema_ids=tuple(sorted(tally.missing)),
            )
        )

    def _decode(self, block: list[Record]) -> Iterator[pa.RecordBatch]:
        decoded = self._decoder.decode(block)
        self._tally.missing |= decoded.missing_schema_ids
        for schema_id, names in decoded.left_out.items():
            self._on_left_out(schema_id, names)
        for rejected in decoded.rejected:
            self._put_record(rejected)
        if self._tally.missing:
            return  # the split is read again anyway: only collect further schemas
        for rows in decoded.rows:
            self._tally.rows += rows.num_rows
            if self._wants_digest:
                for start, digest in row_hashes(rows).totals(window_starts(rows)).items():
                    self._tally.digests[start] = (self._tally.digests.get(start, 0) + digest) % MODULUS
            yield rows

    def _put_record(self, rejected: Rejected) -> None:
        record = rejected.record
        origin = LogOrigin(cluster=self._cluster, topic=self._topic, partition=self._split.partition, offset=record.offset)
        window = window_start_ms(record.timestamp_ms)
        self._put(origin, rejected.code, rejected.reason, window, "record", record.value or b"", 1)

    def _put_unreadable(self, unreadable: Unreadable) -> None:
        origin = LogOrigin(
            cluster=self._cluster,
            topic=self._topic,
            partition=unreadable.partition,
            offset=unreadable.from_offset,
            to_offset=unreadable.to_offset,
        )
        at_ms, window_from = dated(
            unreadable.timestamp_ms, previous_ms=self._tally.last_timestamp_ms, clock_ms=self._clock.now_ms()
        )
        window = window_start_ms(at_ms)
        self._put(origin, "corrupt_batch", unreadable.reason, window, window_from, unreadable.payload, unreadable.record_count)

    def _put(
        self, origin: LogOrigin, code: str, reason: str, window: int, window_from: WindowFrom, payload: bytes, count: int
    ) -> None:
        if self._quarantine is None:
            raise UnusableRecord(self._topic, origin.partition, origin.offset, f"{code}: {reason}")
        self._quarantine.put(
            unusable(
                "load",
                origin,
                code,
                reason,
                timestamp_ms=window,
                window_from=window_from,
                payload=payload,
                now_ms=self._clock.now_ms(),
            )
        )
        if count:
            self._add_quarantined(window, Stretch(origin.offset, count))
        elif origin.to_offset is not None:
            self._tally.skipped.append(Skipped(origin.offset, origin.to_offset, "corrupt"))
        if code == SCHEMA_REFUSED:
            self._tally.refused[window] = self._tally.refused.get(window, 0) + count
        self._tally.by_code[code] = self._tally.by_code.get(code, 0) + 1

    def _add_quarantined(self, window: int, records: Stretch) -> None:
        found = self._tally.quarantined.setdefault(window, [])
        if found and found[-1].end == records.first:
            found[-1] = Stretch(found[-1].first, found[-1].count + records.count)
        else:
            found.append(records)


def window_starts(rows: pa.RecordBatch | pa.Table, window_ms: int = WINDOW_MS) -> NDArray[np.int64]:
    """Return each row's window, in milliseconds. The same rule as `audit.model.windows.window_start_ms`."""
    at_ms: NDArray[np.int64] = np.asarray(rows.column("_timestamp").cast("int64")) // 1_000
    return np.where(at_ms < 0, -window_ms, at_ms - at_ms % window_ms)
