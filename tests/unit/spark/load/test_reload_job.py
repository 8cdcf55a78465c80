"""Hours are loaded again from the log; readers and the audit see nothing in between. The log and Spark are pretended here."""

import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.audit.model.messages import Stretch
from headrace.spark.errors import LoadSuperseded, LoadUnproven, LogMoved, ReloadRefused
from headrace.spark.load import reload_job
from headrace.spark.load.reading import Written
from headrace.spark.load.reload_job import ReloadJob
from headrace.spark.load.row_writer import RowWriter
from headrace.spark.load.settings import LoadSettings
from headrace.spark.load.staging import sweep
from headrace.spark.publish.count_job import needs_count
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.source.task_reports import Total
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.load_record import read_record
from headrace.spark.warehouse.topic_table import LOADS, MAIN, TopicTable
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.other_hands import compact, delete_rows, files, rewrite, roll_back, run_that_died
from tests.support.stored_rows import EVENT, HOUR_MS, Row, record, span, store, write_rows

from ..publish.test_publish_job import Windows, count, proofs, publish, shown, table

LOG: list[Row] = [(0, 0, 5), (0, 1, HOUR_MS + 5), (1, 0, 6), (0, 150, 9)]
"""Two rows of hour 0 and one of hour 1 in the load r1, one more of hour 0 in r2."""
WHOLE: Windows = ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1))
SHORT: Windows = ((0, "INCOMPLETE", 1), (HOUR_MS, "COMPLETE", 1))


class Log:
    """The offline log, and Spark, that reads it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = list(LOG)
        self.ends = LogEnds(start={0: 0, 1: 0}, end={0: 200, 1: 50})
        self.read: list[OffsetRange] = []
        self.aside: dict[int, dict[int, list[Stretch]]] = {}
        self.between: Callable[[], None] = lambda: None
        self.spoil: Callable[[list[Path]], None] = lambda files: None
        self._folder = folder
        monkeypatch.setattr(reload_job, "log_ends", lambda bootstrap, topic: self.ends)
        monkeypatch.setattr(RowWriter, "write", lambda _, *words, **named: self._write(*words, **named))

    def _write(
        self, columns: Any, ranges: Sequence[OffsetRange], folder: Path, *, scratch: Path, hours: Collection[int]
    ) -> Written:
        self.read += ranges
        mine = [row for row in self.rows if any(r.partition == row[0] and r.from_offset <= row[1] < r.to_offset for r in ranges)]
        wanted = [row for row in mine if row[2] // HOUR_MS in hours]
        decoded = record("-", write_rows(Path(tempfile.mkdtemp(dir=self._folder)), mine), ranges)
        written = write_rows(folder / "rows-0", wanted)
        self.between()
        self.spoil(written)
        total = Total(row_count=len(mine), digests=decoded.digests, quarantined=self.aside)
        return Written(columns=EVENT, files=written, total=total)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    found = Warehouse(tmp_path / "warehouse")
    store(found, "r1", LOG[:3], [span(0, 0, 100), span(1, 0, 50)])
    store(found, "r2", LOG[3:], [span(0, 100, 200), span(1, 50, 50)])
    return found


@pytest.fixture
def log(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    (tmp_path / "decoded").mkdir()
    return Log(tmp_path / "decoded", monkeypatch)


def load_again(warehouse: Warehouse, *hours: int, restore: Collection[int] = ()) -> reload_job.ReloadOutcome:
    settings = LoadSettings(
        topic="clicks", bootstrap="-", quarantine_bootstrap="-", registry_url="-", warehouse=warehouse.folder, home=None
    )
    return ReloadJob(settings, hours or {0}, restore=restore).run()


def of_hour(warehouse: Warehouse, hour: int = 0) -> list[Path]:
    return [path for path in files(warehouse) if f"hour={hour}/" in str(path)]


def loaded(warehouse: Warehouse) -> list[str]:
    rows = table(warehouse).iceberg.scan().use_ref(LOADS).to_arrow().to_pylist()
    return sorted(f"{row['path']}@{row['_topic_partition']}" for row in rows)


ALL = sorted(["/0@0", "/0@1", "/1@0", "/150@0"])


def test_the_rows_of_an_hour_are_replaced_by_those_of_the_log_and_other_hours_keep_their_files(
    warehouse: Warehouse, log: Log
) -> None:
    other = of_hour(warehouse, 1)
    of_hour(warehouse)[0].unlink()
    done = load_again(warehouse, 0)
    assert (done.hours, done.load_count, done.row_count, done.replaced_count) == ((hour_name(0),), 2, 3, 3)
    assert log.read == [span(0, 0, 100), span(1, 0, 50), span(0, 100, 200)], "a partition without a record of the hour was read"
    assert loaded(warehouse) == ALL
    assert of_hour(warehouse, 1) == other
    now = table(warehouse)
    assert now.offsets() == {0: 200, 1: 50}
    assert [run.record.run for run in now.runs()] == ["r1", "r2"]
    assert all(".again-" in str(path) for path in of_hour(warehouse))


def test_a_published_hour_stays_as_it_is_until_the_reloaded_one_is_proven(warehouse: Warehouse, log: Log) -> None:
    publish(warehouse, WHOLE)
    before = {file.file_path for file in table(warehouse).files(MAIN)}
    load_again(warehouse, 0)
    assert needs_count(table(warehouse)), "the audit is told of the new files"
    not_yet = publish(warehouse, WHOLE, counts=False)
    assert "loaded again, pending: its files have changed since they were counted" in dict(not_yet.pending)[hour_name(0)]
    still = publish(warehouse, ((0, "OPEN", 3), (HOUR_MS, "COMPLETE", 1)))
    assert dict(still.pending)[hour_name(0)].startswith("loaded again, pending: 1 of 1 windows are not COMPLETE")
    assert {file.file_path for file in table(warehouse).files(MAIN)} == before
    assert publish(warehouse, WHOLE).published == (hour_name(0),)
    assert shown(warehouse) == ALL
    of_main = {file.file_path for file in table(warehouse).files_by_hour(MAIN)[0]}
    assert of_main == {file.file_path for file in table(warehouse).files_by_hour(LOADS)[0]}
    assert [(one.revision, one.verdict, one.reason) for one in proofs(warehouse) if one.hour == 0] == [
        (1, "COMPLETE", "every window is COMPLETE"),
        (2, "COMPLETE", "loaded again; every window is COMPLETE"),
    ]
    assert publish(warehouse, WHOLE).published == (), "published once"


def test_a_damaged_published_hour_is_replaced_in_one_step_and_a_withdrawn_one_comes_back(warehouse: Warehouse, log: Log) -> None:
    publish(warehouse, WHOLE)
    rewrite(of_hour(warehouse)[0], lambda rows: rows.slice(1))
    load_again(warehouse, 0)
    done = publish(warehouse, WHOLE)
    assert (done.published, done.withdrawn) == ((hour_name(0),), ())
    assert "is not the file that was proven: it had 2 rows and has 1)" in proofs(warehouse)[1].reason
    rewrite(of_hour(warehouse)[0], lambda rows: rows.slice(1))
    assert [hour for hour, _ in publish(warehouse, SHORT).withdrawn] == [hour_name(0)]
    load_again(warehouse, 0)
    assert publish(warehouse, WHOLE).published == (hour_name(0),)
    assert shown(warehouse) == ALL


def test_a_reloaded_hour_that_does_not_balance_is_not_published(warehouse: Warehouse, log: Log) -> None:
    publish(warehouse, WHOLE)
    before = shown(warehouse)
    log.rows.remove((0, 0, 5))
    load_again(warehouse, 0)
    done = publish(warehouse, ((0, "INCOMPLETE", 2), (HOUR_MS, "COMPLETE", 1)))
    assert "INCOMPLETE 1" in dict(done.pending)[hour_name(0)]
    assert shown(warehouse) == before


def test_late_rows_come_after_a_reload_as_ever(warehouse: Warehouse, log: Log) -> None:
    publish(warehouse, WHOLE)
    load_again(warehouse, 0)
    store(warehouse, "r3", [(0, 250, 9)], [span(0, 200, 300)])
    more: Windows = ((0, "COMPLETE", 4), (HOUR_MS, "COMPLETE", 1))
    assert publish(warehouse, more).published == (hour_name(0),)
    assert shown(warehouse) == sorted([*ALL, "/250@0"])


def test_several_hours_are_replaced_in_one_commit(warehouse: Warehouse, log: Log) -> None:
    commits = len(table(warehouse).iceberg.metadata.snapshots)
    assert load_again(warehouse, 0, 1).row_count == 4
    assert len(table(warehouse).iceberg.metadata.snapshots) - commits <= 2, "an overwrite of pyiceberg is at most two snapshots"
    assert loaded(warehouse) == ALL


def test_rows_that_another_engine_rewrote_are_replaced_too(warehouse: Warehouse, log: Log) -> None:
    compact(warehouse, LOADS, 0, lambda rows: rows.slice(1))
    assert load_again(warehouse, 0).replaced_count == 2
    assert loaded(warehouse) == ALL


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"rot")])
def test_a_rewritten_file_that_is_gone_or_damaged_is_replaced(
    warehouse: Warehouse, log: Log, spoil: Callable[[Path], object]
) -> None:
    spoil(compact(warehouse, LOADS, 0))
    load_again(warehouse, 0)
    assert loaded(warehouse) == ALL


def test_rows_of_loads_that_nobody_remembers_are_not_dropped(warehouse: Warehouse, log: Log) -> None:
    path = compact(warehouse, LOADS, 0)
    (table(warehouse).records_folder / "r2.json").unlink()
    with pytest.raises(ReloadRefused, match="holds 1 rows of loads whose snapshots have expired"):
        load_again(warehouse, 0)
    assert path in files(warehouse)


def test_records_that_were_quarantined_become_rows_once_they_can_be_decoded(tmp_path: Path, log: Log) -> None:
    warehouse = Warehouse(tmp_path / "another")
    aside = {0: {0: [Stretch(0, 1)]}}
    store(warehouse, "r1", [(1, 0, 6)], [span(0, 0, 100), span(1, 0, 50)], quarantined=aside)
    load_again(warehouse, 0)
    (run,) = table(warehouse).runs()
    assert loaded(warehouse) == ["/0@0", "/0@1"]
    assert (run.record.quarantined, sorted(run.record.digests)) == ({}, [0, 1])


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (LogEnds(start={0: 120, 1: 0}, end={0: 200, 1: 50}), "read offsets 0 to 100 and the offline log holds 120 to 200"),
        (LogEnds(start={0: 0, 1: 0}, end={0: 90, 1: 50}), "read offsets 0 to 100 and the offline log holds 0 to 90"),
        (LogEnds(start={1: 0}, end={1: 50}), "the offline log holds 0 to 0"),
    ],
)
def test_a_log_that_no_longer_holds_the_range_is_refused_before_anything_is_read(
    warehouse: Warehouse, log: Log, ends: LogEnds, words: str
) -> None:
    log.ends = ends
    with pytest.raises(ReloadRefused, match=words):
        load_again(warehouse, 0)
    assert (log.read, loaded(warehouse)) == ([], ALL)


def test_a_log_whose_beginning_expired_is_refused_only_where_rows_of_the_hour_are_gone(warehouse: Warehouse, log: Log) -> None:
    log.ends = LogEnds(start={0: 1, 1: 0}, end={0: 200, 1: 50})
    before = files(warehouse)
    with pytest.raises(ReloadRefused, match="no longer holds what the load r1 read of the window 0: partition 0 was read from 0"):
        load_again(warehouse, 0)
    assert files(warehouse) == before
    assert load_again(warehouse, 1).row_count == 1
    assert loaded(warehouse) == ALL


def test_a_log_that_became_unreadable_is_refused(warehouse: Warehouse, log: Log) -> None:
    log.rows.remove((0, 0, 5))
    log.aside = {0: {0: [Stretch(0, 1)]}}
    with pytest.raises(ReloadRefused, match="offsets 0 to 0 of partition 0 are no rows any more, but quarantined"):
        load_again(warehouse, 0)
    assert loaded(warehouse) == ALL


def test_a_log_that_moves_during_the_reload_is_not_committed(warehouse: Warehouse, log: Log) -> None:
    def expire() -> None:
        log.ends = LogEnds(start={0: 1, 1: 0}, end={0: 200, 1: 50})

    log.between = expire
    before = files(warehouse)
    log.rows = LOG[1:] + LOG[:1]
    with pytest.raises(LogMoved, match="now begins at 1"):
        load_again(warehouse, 0)
    assert files(warehouse) == before
    assert list(table(warehouse).data_folder.glob("*.again-*")) == []


def test_files_that_hold_other_rows_than_were_read_are_not_committed(warehouse: Warehouse, log: Log) -> None:
    log.spoil = lambda files: rewrite(files[0], lambda rows: rows.slice(1))
    with pytest.raises(LoadUnproven, match="are not those that were read"):
        load_again(warehouse, 0)
    assert loaded(warehouse) == ALL


def test_an_hour_that_no_load_knows_is_refused(warehouse: Warehouse, log: Log) -> None:
    with pytest.raises(ReloadRefused, match=f"no load on the branch 'loads' has a record of {hour_name(7)}"):
        load_again(warehouse, 7)


def test_rows_that_somebody_removed_on_purpose_come_back_only_with_a_persons_word(warehouse: Warehouse, log: Log) -> None:
    publish(warehouse, WHOLE)
    for branch in (MAIN, LOADS):
        compact(warehouse, branch, 0, lambda rows: rows.filter(pc.field("_topic_partition") == 0))
    for _ in range(2):
        with pytest.raises(ReloadRefused, match=f"removed 1 published rows of {hour_name(0)}.*--restore {hour_name(0)}"):
            load_again(warehouse, 0)
        publish(warehouse, ((0, "ACCEPTED", 2, {"erased": 1}), (HOUR_MS, "COMPLETE", 1)))
    assert "/0@1" not in loaded(warehouse)
    load_again(warehouse, 0, restore=[0])
    assert "only with `--restore HOUR`" in dict(publish(warehouse, WHOLE).pending)[hour_name(0)]
    assert "/0@1" not in shown(warehouse)
    publish(warehouse, WHOLE, restore=[0])
    assert shown(warehouse) == ALL


def test_rows_that_a_delete_file_takes_come_back_only_with_a_persons_word(warehouse: Warehouse, log: Log) -> None:
    publish(warehouse, WHOLE)
    delete_rows(warehouse, MAIN, 0, [0])
    for _ in range(2):
        with pytest.raises(ReloadRefused, match=f"another program removed . published rows of {hour_name(0)}"):
            load_again(warehouse, 0)
        publish(warehouse, WHOLE)


def test_removed_rows_do_not_come_back_with_a_rollback_and_another_load(warehouse: Warehouse, log: Log) -> None:
    """Fault: of an hour that was deleted whole, the proof has no rows, so what was loaded again counted as late."""
    empty = table(warehouse).iceberg.metadata.snapshots[0].snapshot_id
    publish(warehouse, WHOLE)
    table(warehouse).iceberg.delete("_timestamp < '1970-01-01T01:00:00+00:00'")
    publish(warehouse, WHOLE)
    roll_back(warehouse, empty)
    store(warehouse, "r4", LOG, [span(0, 0, 200), span(1, 0, 50)])
    assert "only with `--restore HOUR`" in dict(publish(warehouse, WHOLE).pending)[hour_name(0)]
    assert shown(warehouse) == ["/1@0"]
    assert publish(warehouse, WHOLE, restore=[0]).published == (hour_name(0),)


def test_a_load_in_between_stays_and_a_reload_in_between_makes_this_one_begin_again(warehouse: Warehouse, log: Log) -> None:
    def another_load() -> None:
        if len(log.read) == 1:
            store(warehouse, "r3", [(0, 250, 9)], [span(0, 200, 300)])

    log.between = another_load
    load_again(warehouse, 1)
    assert loaded(warehouse) == sorted([*ALL, "/250@0"])
    assert table(warehouse).offsets() == {0: 300, 1: 50}
    log.ends = LogEnds(start={0: 0, 1: 0}, end={0: 300, 1: 50})
    log.rows.append((0, 250, 9))
    log.read.clear()
    log.between = lambda: len(log.read) == 2 and compact(warehouse, LOADS, 0) and None
    load_again(warehouse, 0)
    assert log.read == 2 * [span(0, 0, 100), span(1, 0, 50), span(0, 100, 200), span(0, 200, 300)]
    assert loaded(warehouse) == sorted([*ALL, "/250@0"])
    left = list(table(warehouse).data_folder.glob("*.again-*/rows-*/*hour=0/*"))
    assert len(left) == 3, "the files of the first attempt"


def test_a_reload_that_is_always_overtaken_ends_with_an_error(
    warehouse: Warehouse, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [read_record(table(warehouse).records_folder, name) for name in ("r1", "r2")]
    monkeypatch.setattr(TopicTable, "commit", lambda *_, **__: False)
    with pytest.raises(LoadSuperseded, match=f"{reload_job.ROUNDS} times"):
        load_again(warehouse, 0)
    assert len(log.read) == 3 * reload_job.ROUNDS
    assert [read_record(table(warehouse).records_folder, name) for name in ("r1", "r2")] == before
    assert list(table(warehouse).data_folder.glob("*.again-*")) == []


def test_files_of_a_reload_that_died_are_swept_and_committed_ones_are_not(warehouse: Warehouse, log: Log) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    load_again(warehouse, 0)
    kept = files(warehouse)
    left = table(warehouse).data_folder / "r1.again-dead"
    write_rows(left, [(0, 0, 5)])
    run_that_died(warehouse, "r1.again-dead")
    assert sweep(warehouse, "clicks") == 1
    assert not left.exists()
    assert files(warehouse) == kept
    assert all(path.exists() for path in kept)
    log.between = dies
    with pytest.raises(KeyboardInterrupt):
        load_again(warehouse, 0)
    assert (loaded(warehouse), files(warehouse)) == (ALL, kept)


def test_the_count_tells_the_audit_of_the_whole_load_again(warehouse: Warehouse, log: Log) -> None:
    count(warehouse)
    assert not needs_count(table(warehouse))
    load_again(warehouse, 0)
    count(warehouse)
    assert not needs_count(table(warehouse))
    for run in table(warehouse).runs():
        assert run.record.digests == record("-", list(run.files), run.record.ranges).digests


def test_a_column_that_is_new_since_the_load_is_added(warehouse: Warehouse, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    wider = pa.schema([*EVENT, ("agent", pa.string())])
    write = log._write

    def with_agent(*words: Any, **named: Any) -> Written:
        found = write(*words, **named)
        return Written(columns=wider, files=found.files, total=found.total)

    monkeypatch.setattr(RowWriter, "write", lambda _, *words, **named: with_agent(*words, **named))
    load_again(warehouse, 0)
    assert "agent" in table(warehouse).event_columns().names
    assert loaded(warehouse) == ALL
