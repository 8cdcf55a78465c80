"""What the audit is told is what stands in the files: which records, with their doubles, and those that are not as decoded."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport, Skipped, Stretch
from headrace.audit.publisher import ReportNotSent
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.spark.errors import WarehouseError
from headrace.spark.publish import load_ranges
from headrace.spark.publish.count_job import CountOutcome, count_and_report, needs_count
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.warehouse.topic_table import LOADS
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.other_hands import compact, files, rewrite, roll_back
from tests.support.stored_rows import HOUR_MS, span, store

ROWS = [(0, 0, 5), (0, 1, HOUR_MS + 5), (1, 0, 6)]
RANGES = [span(0, 0, 100), span(1, 0, 50), span(2, 0, 0)]


@pytest.fixture(autouse=True, params=[0, load_ranges._MAY_CHANGE_UNSEEN_NS], ids=["noted", "read"])
def ranges_of_loads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with loads whose records are read once, and again at each count."""
    monkeypatch.setattr(load_ranges, "_MAY_CHANGE_UNSEEN_NS", request.param)


class Topic:
    """The audit topic, as its sender sees it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[RangeReport] = []
        self.fails = fails

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        assert (topic, key) == (AUDIT_TOPIC, b"warehouse")
        if self.fails:
            raise OSError("away")
        report = decode(value)
        assert isinstance(report, RangeReport)
        self.told.append(report)

    def flush(self, timeout_ms: int, /) -> None:
        return None

    def held(self) -> dict[tuple[int, int], list[int]]:
        """Return (partition, window) → offsets after all reports, each range replacing what was said of it before."""
        found: dict[tuple[int, int], list[int]] = {}
        for one in self.told:
            for key, offsets in found.items():
                if key[0] == one.partition:
                    found[key] = [at for at in offsets if not one.from_offset <= at < one.to_offset]
            for start, window in one.windows.items():
                offsets = [at for stretch in window.held for at in range(stretch.first, stretch.end)]
                found.setdefault((one.partition, start), []).extend(offsets)
        return {key: sorted(offsets) for key, offsets in found.items() if offsets}


def no_log(within: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    raise WarehouseError("the log is gone")


def count(warehouse: Warehouse, topic: Topic, decode_again: Any = no_log, *, again: bool = False) -> CountOutcome:
    return count_and_report(warehouse, "clicks", topic, instance="t", decode_again=decode_again, again=again)


def stored(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", ROWS, RANGES, quarantined={1: {0: [Stretch(7, 2)]}})
    return warehouse


def test_the_count_tells_ranges_windows_and_quarantine_and_only_once(tmp_path: Path) -> None:
    warehouse, topic = stored(tmp_path), Topic()
    assert needs_count(warehouse.existing_table("clicks"))
    done = count(warehouse, topic)
    assert (done.load_count, done.row_count, done.quarantined_count, done.altered_count) == (1, 3, 2, 0)
    told = {one.partition: one for one in topic.told}
    assert (told[0].from_offset, told[0].to_offset) == (0, 100)
    assert {start: window.held for start, window in told[0].windows.items()} == {
        0: (Stretch(0, 1),),
        HOUR_MS: (Stretch(1, 1),),
    }
    assert {start: (window.held, window.quarantined) for start, window in told[1].windows.items()} == {
        0: ((Stretch(0, 1),), (Stretch(7, 2),))
    }
    assert (told[2].from_offset, told[2].to_offset, told[2].windows) == (0, 0, {})
    assert count(warehouse, topic).load_count == 0
    assert not needs_count(warehouse.existing_table("clicks"))


def test_a_report_that_was_not_sent_is_repeated_by_the_next_count(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    with pytest.raises(ReportNotSent):
        count(warehouse, Topic(fails=True))
    assert count(warehouse, Topic()).load_count == 1


def test_without_a_table_there_is_nothing_to_count(tmp_path: Path) -> None:
    assert count(Warehouse(tmp_path), Topic()).load_count == 0


def test_a_row_cut_from_a_file_after_the_count_is_told(tmp_path: Path) -> None:
    """Fault: a Parquet row cut after the count, COMPLETE for ever."""
    warehouse, topic = stored(tmp_path), Topic()
    store(warehouse, "r2", [(0, 100 + at, 7) for at in range(5)], [span(0, 100, 200)])
    count(warehouse, topic)
    assert topic.held()[0, 0] == [0, *range(100, 105)]
    rewrite(files(warehouse)[-1], lambda rows: pa.concat_tables([rows.slice(0, 2), rows.slice(3)]))
    assert count(warehouse, topic).load_count == 1
    assert topic.held()[0, 0] == [0, 100, 101, 103, 104]


def test_a_deleted_file_is_told(tmp_path: Path) -> None:
    """Fault: a file deleted after the count, COMPLETE for ever."""
    warehouse, topic = stored(tmp_path), Topic()
    count(warehouse, topic)
    files(warehouse)[0].unlink()
    count(warehouse, topic)
    assert topic.held() == {(0, HOUR_MS): [1]}


def test_a_file_with_a_row_less_and_a_row_doubled_is_told_exactly(tmp_path: Path) -> None:
    """Fault: a Parquet file swapped for one with a row less and a row doubled; the sum is the same."""
    warehouse, topic = stored(tmp_path), Topic()
    store(warehouse, "r2", [(0, 100 + at, 7) for at in range(5)], [span(0, 100, 200)])
    count(warehouse, topic)
    rewrite(files(warehouse)[-1], lambda rows: pa.concat_tables([rows.slice(0, 2), rows.slice(3), rows.slice(4)]))
    done = count(warehouse, topic)
    assert topic.held()[0, 0] == [0, 100, 101, 103, 104, 104]
    assert done.row_count == 5


def test_a_changed_value_is_told_by_its_offset(tmp_path: Path) -> None:
    """Fault: content changed with everything else made right: COMPLETE, published."""
    warehouse, topic = stored(tmp_path), Topic()
    store(warehouse, "r2", [(0, 100 + at, 7) for at in range(5)], [span(0, 100, 200)])
    decoded = pq.ParquetFile(files(warehouse)[-1]).read()
    rewrite(files(warehouse)[-1], lambda rows: rows.set_column(0, "path", pa.array(["/100", "/101", "/x", "/103", "/104"])))

    def again(within: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        assert (within.from_offset, within.to_offset) == (100, 105)
        yield from decoded.to_batches()

    done = count(warehouse, topic, again)
    assert done.altered_count == 1
    (window,) = (one.windows[0] for one in topic.told if one.from_offset == 100)
    assert (window.held, window.altered) == ((Stretch(100, 5),), (Stretch(102, 1),))


def test_a_changed_value_whose_log_is_gone_makes_the_whole_stretch_altered(tmp_path: Path) -> None:
    warehouse, topic = Warehouse(tmp_path), Topic()
    store(warehouse, "r1", [(0, 0, 5), (0, 1, 5)], [span(0, 0, 100)])
    rewrite(files(warehouse)[0], lambda rows: rows.set_column(0, "path", pa.array(["/y", "/1"])))
    assert count(warehouse, topic).altered_count == 2


def test_two_values_that_changed_places_are_seen(tmp_path: Path) -> None:
    warehouse, topic = Warehouse(tmp_path), Topic()
    store(warehouse, "r1", [(0, 0, 5), (0, 1, 5)], [span(0, 0, 100)])
    rewrite(files(warehouse)[0], lambda rows: rows.set_column(0, "path", pa.array(["/1", "/0"])))
    assert count(warehouse, topic).altered_count == 2


def test_a_file_that_is_only_touched_is_read_again_and_told_as_it_was(tmp_path: Path) -> None:
    warehouse, topic = stored(tmp_path), Topic()
    count(warehouse, topic)
    before = topic.held()
    files(warehouse)[0].touch()
    assert count(warehouse, topic).load_count == 1
    assert topic.held() == before


def test_a_recount_reads_files_that_look_unchanged(tmp_path: Path) -> None:
    warehouse, topic = stored(tmp_path), Topic()
    count(warehouse, topic)
    assert count(warehouse, topic, again=True).load_count == 1


def test_after_a_rollback_of_the_loads_the_rows_are_told_as_gone_and_loaded_again(tmp_path: Path) -> None:
    """Fault: after a rollback of the table COMPLETE 60 over 50 rows, and nothing is loaded again."""
    warehouse, topic = stored(tmp_path), Topic()
    before = warehouse.existing_table("clicks").snapshot_id(LOADS)
    store(warehouse, "r2", [(0, 100, 7)], [span(0, 100, 200)])
    count(warehouse, topic)
    roll_back(warehouse, before)
    assert warehouse.existing_table("clicks").offsets() == {0: 100, 1: 50, 2: 0}
    count(warehouse, topic)
    assert topic.held() == {(0, 0): [0], (0, HOUR_MS): [1], (1, 0): [0]}
    assert store(warehouse, "r3", [(0, 100, 7)], [span(0, 100, 200)])
    count(warehouse, topic)
    assert topic.held()[0, 0] == [0, 100]


def test_files_that_somebody_rewrote_hold_the_same_records(tmp_path: Path) -> None:
    """Compaction by another engine on the branch `loads`: nothing is missing, nothing is altered."""
    warehouse, topic = stored(tmp_path), Topic()
    store(warehouse, "r2", [(0, 100, 7)], [span(0, 100, 200)])
    count(warehouse, topic)
    before = topic.held()
    compact(warehouse, LOADS, 0)
    done = count(warehouse, topic)
    assert (done.load_count, done.altered_count) == (2, 0)
    assert topic.held() == before
    assert warehouse.existing_table("clicks").offsets() == {0: 200, 1: 50, 2: 0}
    assert count(warehouse, topic).load_count == 0


@pytest.mark.situation("offline log", "retention comes before the load")
def test_expired_and_unreadable_offsets_are_told_as_skipped(tmp_path: Path) -> None:
    warehouse, topic = Warehouse(tmp_path), Topic()
    skipped = {0: [Skipped(0, 40, "expired"), Skipped(60, 70, "corrupt")]}
    store(warehouse, "r1", [(0, 50, 5)], [span(0, 40, 100)], skipped=skipped)
    count(warehouse, topic)
    (told,) = topic.told
    assert (told.from_offset, told.to_offset) == (0, 100)
    assert told.skipped == tuple(skipped[0])


def test_a_damaged_state_of_the_count_is_made_anew(tmp_path: Path) -> None:
    warehouse, topic = stored(tmp_path), Topic()
    count(warehouse, topic)
    state = tmp_path / "loads" / "clicks" / "counted.json"
    state.write_text(json.dumps({"v": 1, "offsets": []}))
    assert count(warehouse, topic).load_count == 1
