"""A task reads its split to the end: rows out, rejects aside and acknowledged, then the report."""

import io
import json
from collections.abc import Sequence

import fastavro
import pyarrow as pa
import pytest

from headrace.audit.model.messages import Skipped, Stretch
from headrace.client.fetch.fetched import CorruptRange
from headrace.runtime.clock import ManualClock
from headrace.spark.errors import UnusableRecord
from headrace.spark.source import split_reader, task_reports
from headrace.spark.source.columns import SYSTEM_COLUMNS
from headrace.spark.source.decoding import BlockDecoder
from headrace.spark.source.digest import MODULUS
from headrace.spark.source.offset_ranges import OffsetRange, split_ranges
from headrace.spark.source.split_reader import SplitReader
from headrace.spark.source.task_reports import TaskReport
from headrace.wire.batch.record_batch import read_header
from headrace.wire.quarantine_record import LogOrigin, QuarantineRecord
from headrace.wire.schema_id import frame

from ..pretend_log import PretendLog, pretend_log

SCHEMA = json.dumps({"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]})
TARGET = pa.schema([("n", pa.int64()), *SYSTEM_COLUMNS])
WINDOW_MS = 600_000


def event(n: int, schema_id: int = 1) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(SCHEMA)), {"n": n})
    return frame(schema_id, stream.getvalue())


class Aside:
    """A quarantine that notes in which order it was used."""

    def __init__(self) -> None:
        self.records: list[QuarantineRecord] = []
        self.flushed = 0

    def put(self, record: QuarantineRecord) -> None:
        self.records.append(record)

    def flush(self) -> None:
        self.flushed = len(self.records)


def read(
    log: PretendLog, splits: Sequence[OffsetRange] | None = None, target: pa.Schema = TARGET
) -> tuple[list[int], list[TaskReport], Aside]:
    """Return the rows' `n`, the reports and what went aside, over all splits."""
    aside, told = Aside(), list[TaskReport]()
    numbers: list[int] = []

    def on_report(report: TaskReport) -> None:
        assert aside.flushed == len(aside.records), "the report came before the quarantine was acknowledged"
        told.append(report)

    for split in splits or [OffsetRange(partition=0, from_offset=0, to_offset=log.end)]:
        for batch in SplitReader(
            topic="clicks",
            cluster="offline",
            split=split,
            batches=log.read,
            decoder=BlockDecoder(target, split.partition, lambda schema_id: SCHEMA if schema_id == 1 else None),
            quarantine=aside,
            on_report=on_report,
            clock=ManualClock(9_999_999),
        ).rows():
            numbers += batch.column("n").to_pylist()
    return numbers, told, aside


def test_all_rows_come_out_and_the_report_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_reader, "BLOCK_RECORDS", 7)
    log = pretend_log([[(at, event(batch * 10 + at)) for at in range(10)] for batch in range(5)])
    numbers, told, aside = read(log)
    assert numbers == list(range(50))
    assert [(one.row_count, one.quarantined, one.skipped) for one in told] == [(50, {}, [])]
    assert aside.records == []


def test_a_block_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_reader, "BLOCK_BYTES", 3 * len(event(1)))
    log = pretend_log([[(1, event(1))] * 10])
    decoder = BlockDecoder(TARGET, 0, lambda schema_id: SCHEMA)
    reader = SplitReader(
        topic="t",
        cluster="offline",
        split=OffsetRange(partition=0, from_offset=0, to_offset=log.end),
        batches=log.read,
        decoder=decoder,
        quarantine=None,
        on_report=lambda report: None,
        clock=ManualClock(),
    )
    assert [batch.num_rows for batch in reader.rows()] == [3, 3, 3, 1]


def test_a_bad_record_goes_aside_with_its_origin_and_its_window() -> None:
    log = pretend_log([[(5, event(1)), (WINDOW_MS + 5, b"junk!!"), (WINDOW_MS + 6, event(2, schema_id=77)), (7, event(3))]])
    numbers, told, aside = read(log)
    assert numbers == [1, 3]
    assert [(one.code, one.window_start_ms, one.window_from, one.payload) for one in aside.records] == [
        ("not_framed", WINDOW_MS, "record", b"junk!!"),
        ("unknown_schema_id", WINDOW_MS, "record", event(2, schema_id=77)),
    ]
    assert aside.records[0].origin == LogOrigin(cluster="offline", topic="clicks", partition=0, offset=log.end - 3)
    assert aside.records[0].stage == "load"
    assert told[0].quarantined == {WINDOW_MS: [Stretch(log.end - 3, 2)]}
    assert told[0].quarantined_by_code == {"not_framed": 1, "unknown_schema_id": 1}


def test_without_a_quarantine_a_bad_record_is_an_error_with_its_address() -> None:
    log = pretend_log([[(5, event(1)), (6, b"junk!!")]])
    reader = SplitReader(
        topic="clicks",
        cluster="offline",
        split=OffsetRange(partition=2, from_offset=0, to_offset=log.end),
        batches=log.read,
        decoder=BlockDecoder(TARGET, 2, lambda schema_id: SCHEMA),
        quarantine=None,
        on_report=lambda report: None,
        clock=ManualClock(),
    )
    with pytest.raises(UnusableRecord, match=f"clicks-2 offset {log.end - 1}:"):
        list(reader.rows())


def test_a_batch_that_cannot_be_opened_goes_aside_as_a_whole_in_the_window_that_the_audit_gives_it() -> None:
    log = pretend_log([[(5, event(1))], [(7, event(2)), (WINDOW_MS + 9, event(3))], [(8, event(4))]])
    header = read_header(log.batches[1])
    broken = bytearray(log.batches[1])
    broken[-1] ^= 1  # the count of headers of the last record; the pretend client does not look at the CRC
    log.batches[1] = bytes(broken)
    numbers, told, aside = read(log)
    assert numbers == [1, 4]
    (one,) = aside.records
    assert (one.code, one.window_start_ms, one.payload) == ("corrupt_batch", WINDOW_MS, bytes(broken))
    assert one.origin == LogOrigin(
        cluster="offline", topic="clicks", partition=0, offset=header.base_offset, to_offset=header.next_offset
    )
    assert told[0].quarantined == {WINDOW_MS: [Stretch(header.base_offset, 2)]}


def test_a_batch_that_failed_its_check_goes_aside_once_wherever_the_cuts_fall() -> None:
    log = pretend_log([[(WINDOW_MS + 1, event(1))], [(2, event(2))], [(3, event(3))]])
    gone = read_header(log.batches[1])
    del log.batches[1]
    log.corrupt = [CorruptRange(from_offset=gone.base_offset, to_offset=gone.next_offset, reason="the CRC does not match")]
    splits = split_ranges([OffsetRange(partition=0, from_offset=0, to_offset=log.end)], splits=9, min_span=1)
    numbers, told, aside = read(log, splits)
    assert numbers == [1, 3]
    (one,) = aside.records
    assert (one.code, one.reason) == ("corrupt_batch", "the CRC does not match")
    # Earlier tiers cannot count it either: the books miss it at the tier whose log it is, and it is not counted here again.
    assert all(report.quarantined == {} for report in told)
    assert [one for report in told for one in report.skipped] == [Skipped(gone.base_offset, gone.next_offset, "corrupt")]
    assert sum(report.quarantined_by_code.get("corrupt_batch", 0) for report in told) == 1


def test_an_unreadable_range_without_a_time_is_dated_by_what_came_before_it() -> None:
    log = pretend_log([[(WINDOW_MS + 1, event(1))]])
    log.corrupt = [CorruptRange(from_offset=log.end, to_offset=log.end + 10, reason="x")]
    _, _, aside = read(log, [OffsetRange(partition=0, from_offset=0, to_offset=log.end + 10)])
    assert (aside.records[0].window_start_ms, aside.records[0].window_from) == (WINDOW_MS, "previous")


def test_a_schema_that_the_table_does_not_cover_stops_the_rows_and_is_told() -> None:
    log = pretend_log([[(1, event(1)), (2, event(2, schema_id=77))]])
    _, told, _ = read(log, target=pa.schema([("other", pa.int64()), *SYSTEM_COLUMNS]))
    assert told[0].missing_schema_ids == (1,)
    assert told[0].row_count == 0


def test_reports_of_all_splits_add_up_in_the_order_of_offsets_and_survive_their_json() -> None:
    reports = [
        TaskReport(
            partition=0,
            from_offset=5,
            to_offset=9,
            row_count=4,
            quarantined={0: [Stretch(7, 1)]},
            skipped=(Skipped(5, 6, "corrupt"),),
        ),
        TaskReport(
            partition=0,
            from_offset=0,
            to_offset=5,
            row_count=3,
            quarantined={0: [Stretch(1, 2)]},
            quarantined_by_code={"x": 2},
            digests={0: MODULUS - 1},
        ),
        TaskReport(partition=1, from_offset=0, to_offset=9, row_count=1, digests={0: 5}, missing_schema_ids=(3,)),
        TaskReport(partition=0, from_offset=9, to_offset=10, row_count=1, digests={0: 2}, quarantined_by_code={"x": 1}),
    ]
    assert [TaskReport.of_json(json.loads(json.dumps(one.as_json()))) for one in reports] == reports
    total = task_reports.total_of(reports)
    assert (total.row_count, total.quarantined) == (9, {0: {0: [Stretch(1, 2), Stretch(7, 1)]}})
    assert total.digests == {0: {0: 1}, 1: {0: 5}}
    assert (total.skipped, total.quarantined_by_code) == ({0: [Skipped(5, 6, "corrupt")]}, {"x": 3})
    assert total.missing_schema_ids == {3}
