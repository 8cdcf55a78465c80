"""What readers of the table see is what was proven; what others removed does not come back."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.runtime.clock import ManualClock
from headrace.spark.errors import AuditUnreachable, WarehouseError
from headrace.spark.publish.asking import ask_audit, ask_for_sequences
from headrace.spark.publish.gate import AuditedWindow
from headrace.spark.publish.publish_job import Gate, PublishOutcome
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.proofs import Proof
from headrace.spark.warehouse.query import query
from headrace.spark.warehouse.topic_table import LOADS, MAIN, TopicTable
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.other_hands import compact, files, rewrite, roll_back
from tests.support.processes import free_port
from tests.support.stored_rows import HOUR_MS, span, store

from .counting import count

ROWS = [(0, 0, 5), (0, 1, HOUR_MS + 5), (1, 0, 6)]
Windows = Sequence[tuple[int, str, int | None] | tuple[int, str, int | None, dict[str, Any]]]
BALANCED: Windows = ((0, "COMPLETE", 2), (HOUR_MS, "COMPLETE", 1))


def audit(windows: Windows) -> Any:
    found = [
        AuditedWindow.of(
            {"window_start_ms": one[0], "verdict": one[1], "tiers": {"warehouse": one[2]}, **(one[3] if len(one) > 3 else {})}
        )
        for one in windows
    ]
    return lambda topic: found


def publish(
    warehouse: Warehouse, windows: Windows = BALANCED, *, counts: bool = True, restore: Sequence[int] = ()
) -> PublishOutcome:
    if counts:
        count(warehouse)
    return Gate(warehouse, "clicks", audit(windows), restore=restore).publish(wait_ms=0)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Three rows in two hours; partition 0 is loaded to 100."""
    found = Warehouse(tmp_path)
    store(found, "r1", ROWS, [span(0, 0, 100), span(1, 0, 50), span(2, 0, 0)])
    return found


def table(warehouse: Warehouse) -> TopicTable:
    return warehouse.existing_table("clicks")


def shown(warehouse: Warehouse) -> list[str]:
    """Return path@partition of what a reader of Iceberg sees by default."""
    rows = table(warehouse).iceberg.scan().to_arrow().to_pylist()
    return sorted(f"{row['path']}@{row['_topic_partition']}" for row in rows)


def proofs(warehouse: Warehouse) -> list[Proof]:
    found = warehouse.proofs("clicks").read(up_to_publish=table(warehouse).last_publish)
    return [one for hour in sorted(found) for one in found[hour]]


def test_without_a_table_there_is_nothing_to_publish(tmp_path: Path) -> None:
    assert Gate(Warehouse(tmp_path), "clicks", audit(())).publish().open_hours == ()


def test_every_reader_of_the_table_sees_proven_hours_only(warehouse: Warehouse) -> None:
    """Fault: only `headrace query` honours the gate, any other reader of the same table sees unproven rows."""
    assert shown(warehouse) == []
    done = publish(warehouse, ((0, "INCOMPLETE", 2), (HOUR_MS, "COMPLETE", 1)))
    assert done.published == (hour_name(1),)
    assert [hour for hour, _ in done.shut] == [hour_name(0)]
    assert shown(warehouse) == ["/1@0"]
    assert list(query(warehouse, "SELECT path FROM clicks").rows) == [("/1",)]
    assert list(query(warehouse, "SELECT count(*) FROM clicks_all").rows) == [(3,)]


def test_a_proof_says_files_offsets_digest_and_the_audits_words(warehouse: Warehouse) -> None:
    done = publish(warehouse)
    assert done.complete_through == hour_name(1)
    first, second = proofs(warehouse)
    assert (first.hour, first.revision, first.previous, first.verdict, first.row_count) == (0, 1, None, "COMPLETE", 2)
    assert [(one.partition, one.first_offset, one.end_offset, one.row_count, one.loaded_to) for one in first.offsets] == [
        (0, 0, 1, 1, 100),
        (1, 0, 1, 1, 50),
        (2, 0, 0, 0, 0),
    ]
    assert [one.path for one in first.files] == [f"file://{files(warehouse)[0]}"]
    assert len(first.files[0].sha256) == 64
    rows = warehouse.proofs("clicks").iceberg.scan(row_filter="hour == 0").to_arrow().to_pylist()
    assert [json.loads(one["windows"])[0]["verdict"] for one in rows] == ["COMPLETE"]
    assert second.publish == first.publish == table(warehouse).last_publish == 1


def test_a_proof_names_the_sequence_numbers_of_its_producers_as_far_as_the_audit_keeps_them(warehouse: Warehouse) -> None:
    told = {"ranges": [{"producer_id": 41, "producer_epoch": 0, "first_sequence": 0, "count": 2}], "more": 0}
    asked: list[int] = []

    def ask_sequences(topic: str, hour: int) -> Mapping[int, Mapping[str, Any]]:
        asked.append(hour)
        return {0: told} if hour == 0 else {}

    count(warehouse)
    Gate(warehouse, "clicks", audit(BALANCED), ask_sequences=ask_sequences).publish(wait_ms=0)
    rows = warehouse.proofs("clicks").iceberg.scan().to_arrow().to_pylist()
    named = {row["hour"]: [window.get("sequences") for window in json.loads(row["windows"])] for row in rows}
    assert named == {0: [told], 1: [None]}
    Gate(warehouse, "clicks", audit(BALANCED), ask_sequences=ask_sequences).publish(wait_ms=0)
    assert asked == [0, 1], "asked once a revision"


def test_nothing_is_written_when_nothing_changed(warehouse: Warehouse) -> None:
    publish(warehouse)
    before = table(warehouse).snapshot_id(MAIN)
    assert publish(warehouse).published == ()
    assert (table(warehouse).snapshot_id(MAIN), len(proofs(warehouse))) == (before, 2)


def test_late_rows_wait_and_then_extend_the_hour_as_its_next_revision(warehouse: Warehouse) -> None:
    publish(warehouse)
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    done = publish(warehouse, ((0, "OPEN", 3), (HOUR_MS, "COMPLETE", 1)))
    assert (done.withdrawn, done.complete_through) == ((), None)
    assert done.pending[0][1].startswith("1 late, pending")
    assert shown(warehouse) == ["/0@0", "/0@1", "/1@0"]
    done = publish(warehouse, ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1)))
    assert done.published == (hour_name(0),)
    assert shown(warehouse) == ["/0@0", "/0@1", "/100@0", "/1@0"]
    assert [(one.revision, one.previous, one.row_count) for one in proofs(warehouse) if one.hour == 0] == [
        (1, None, 2),
        (2, 1, 3),
    ]


def test_a_column_of_late_rows_is_null_in_published_ones(warehouse: Warehouse) -> None:
    publish(warehouse)
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)], agent="x")
    assert len(shown(warehouse)) == 3
    publish(warehouse, ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1)))
    assert sorted(str(row["agent"]) for row in table(warehouse).iceberg.scan().to_arrow().to_pylist()) == ["None"] * 3 + ["x"]


def test_a_published_file_that_is_gone_or_lost_a_row_withdraws_its_hour(warehouse: Warehouse) -> None:
    """Fault: a Parquet row cut, or a file deleted, after the count: COMPLETE for ever, hour open."""
    publish(warehouse)
    rewrite(files(warehouse)[0], lambda rows: rows.slice(1))
    files(warehouse)[1].unlink()
    done = publish(warehouse, counts=False)
    assert [hour for hour, _ in done.withdrawn] == [hour_name(0), hour_name(1)]
    assert "is not the file that was proven: it had 2 rows and has 1" in done.withdrawn[0][1]
    assert "is gone" in done.withdrawn[1][1]
    assert shown(warehouse) == []
    assert [one.verdict for one in proofs(warehouse)] == ["COMPLETE", "WITHDRAWN", "COMPLETE", "WITHDRAWN"]


def test_a_withdrawn_hour_is_published_again_once_it_is_proven(warehouse: Warehouse) -> None:
    publish(warehouse)
    path = files(warehouse)[0]
    whole = path.read_bytes()
    rewrite(path, lambda rows: rows.slice(1))
    publish(warehouse, ((0, "INCOMPLETE", 1), (HOUR_MS, "COMPLETE", 1)))
    assert shown(warehouse) == ["/1@0"]
    path.write_bytes(whole)
    publish(warehouse)
    assert shown(warehouse) == ["/0@0", "/0@1", "/1@0"]


def test_a_file_that_is_swapped_before_the_publish_is_not_published_on_old_counts(warehouse: Warehouse) -> None:
    """Fault: a file swapped for one with a row less and a row doubled: the audit was told of just as many rows."""
    count(warehouse)
    rewrite(files(warehouse)[0], lambda rows: pa.concat_tables([rows.slice(0, 1), rows.slice(0, 1)]))
    assert "have changed since they were counted" in dict(publish(warehouse, counts=False).shut)[hour_name(0)]
    assert "the audit has not named them yet" in dict(publish(warehouse).shut)[hour_name(0)]
    assert shown(warehouse) == ["/1@0"]


def test_missing_rows_of_the_audits_words_withdraw_the_hour(warehouse: Warehouse) -> None:
    publish(warehouse)
    missing = {"tier": "mirror", "partition": 0, "records": [{"kind": "missing", "first_offset": 50, "count": 1}]}
    done = publish(warehouse, ((0, "INCOMPLETE", 2, {"differences": [missing]}), (HOUR_MS, "COMPLETE", 1)))
    assert [hour for hour, _ in done.withdrawn] == [hour_name(0)]


def test_a_row_that_somebody_deleted_from_main_is_not_added_again(warehouse: Warehouse) -> None:
    publish(warehouse)
    compact(warehouse, MAIN, 0, lambda rows: rows.filter(pc.field("_topic_partition") == 0))
    assert shown(warehouse) == ["/0@0", "/1@0"]
    for _ in range(2):
        done = publish(warehouse)
        assert dict(done.pending)[hour_name(0)] == "1 rows were removed by others: they are not added again"
        assert (shown(warehouse), done.withdrawn) == (["/0@0", "/1@0"], ())
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    windows: Windows = ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1))
    assert dict(publish(warehouse, windows).pending) == {}
    assert shown(warehouse) == ["/0@0", "/100@0", "/1@0"]
    assert hour_name(0) in dict(publish(warehouse, windows).pending)
    assert publish(warehouse, windows, restore=[0]).published == (hour_name(0),)
    assert shown(warehouse) == ["/0@0", "/0@1", "/100@0", "/1@0"]
    assert dict(publish(warehouse, windows).pending) == {}


def test_an_erasure_with_a_persons_word_is_said_to_be_one(warehouse: Warehouse) -> None:
    publish(warehouse)
    compact(warehouse, MAIN, 0, lambda rows: rows.filter(pc.field("_topic_partition") == 0))
    done = publish(warehouse, ((0, "ACCEPTED", 2, {"erased": 1}), (HOUR_MS, "COMPLETE", 1)))
    assert (done.pending, done.complete_through) == ((), hour_name(1))
    assert [one.verdict for one in proofs(warehouse) if one.hour == 0] == ["COMPLETE", "ERASED"]
    assert [one.reason for one in proofs(warehouse) if one.hour == 0][-1] == "ERASED 1"


def test_an_hour_that_somebody_deleted_whole_stays_deleted(warehouse: Warehouse) -> None:
    publish(warehouse)
    table(warehouse).iceberg.delete("_timestamp < '1970-01-01T01:00:00+00:00'")
    for _ in range(2):
        publish(warehouse)
        assert shown(warehouse) == ["/1@0"]


def test_rows_that_somebody_put_on_main_are_taken_away(warehouse: Warehouse) -> None:
    publish(warehouse, ((0, "OPEN", 2), (HOUR_MS, "COMPLETE", 1)))
    table(warehouse).iceberg.add_files([f"file://{files(warehouse)[0]}"], check_duplicate_files=False)
    assert len(shown(warehouse)) == 3
    done = publish(warehouse, ((0, "OPEN", 2), (HOUR_MS, "COMPLETE", 1)))
    assert "in no proof" in dict(done.withdrawn)[hour_name(0)]
    assert shown(warehouse) == ["/1@0"]


def test_a_compaction_by_others_gets_a_proof_that_links_to_the_one_before(warehouse: Warehouse) -> None:
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    windows: Windows = ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1))
    publish(warehouse, windows)
    path = compact(warehouse, MAIN, 0)
    assert publish(warehouse, windows).withdrawn == ()
    last = [one for one in proofs(warehouse) if one.hour == 0][-1]
    assert (last.verdict, last.previous, [one.path for one in last.files]) == ("COMPACTED", 1, [f"file://{path}"])
    assert len(shown(warehouse)) == 4
    store(warehouse, "r3", [(0, 200, 9)], [span(0, 200, 300)])
    publish(warehouse, ((0, "COMPLETE", 4), (HOUR_MS, "COMPLETE", 1)))
    assert len(shown(warehouse)) == 5


def test_a_compaction_that_changed_a_value_withdraws_the_hour(warehouse: Warehouse) -> None:
    publish(warehouse)
    compact(warehouse, MAIN, 0, lambda rows: rows.set_column(0, "path", pa.array(["/x", "/0"])))
    assert "in no proof" in dict(publish(warehouse).withdrawn)[hour_name(0)]
    assert "only with `--restore HOUR`" in dict(publish(warehouse).shut)[hour_name(0)]
    assert publish(warehouse, restore=[0]).published == (hour_name(0),)
    assert len(shown(warehouse)) == 3


def test_a_compaction_of_the_loads_doubles_nothing_on_main(warehouse: Warehouse) -> None:
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    windows: Windows = ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1))
    publish(warehouse, windows)
    compact(warehouse, LOADS, 0)
    assert publish(warehouse, windows).published == ()
    assert len(shown(warehouse)) == 4


def test_after_a_rollback_of_the_loads_published_rows_stay_and_come_only_once(warehouse: Warehouse) -> None:
    before = table(warehouse).snapshot_id(LOADS)
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    publish(warehouse, ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1)))
    roll_back(warehouse, before)
    publish(warehouse, ((0, "UNKNOWN", 2), (HOUR_MS, "COMPLETE", 1)))
    assert len(shown(warehouse)) == 4
    store(warehouse, "r3", [(0, 100, 9), (0, 130, 9)], [span(0, 100, 200)])
    publish(warehouse, ((0, "COMPLETE", 4), (HOUR_MS, "COMPLETE", 1)))
    assert shown(warehouse) == ["/0@0", "/0@1", "/100@0", "/130@0", "/1@0"]


def test_a_publish_that_died_before_its_commit_leaves_nothing_behind(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TopicTable, "commit_publish", dies)
        with pytest.raises(KeyboardInterrupt):
            publish(warehouse)
    assert (shown(warehouse), proofs(warehouse)) == ([], [])
    publish(warehouse, ((0, "OPEN", 2), (HOUR_MS, "COMPLETE", 1)))
    assert [(one.hour, one.revision) for one in proofs(warehouse)] == [(1, 1)]


def test_proofs_and_published_rows_outlive_expired_snapshots(warehouse: Warehouse) -> None:
    publish(warehouse, ((0, "OPEN", 2), (HOUR_MS, "COMPLETE", 1)))
    publish(warehouse)
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    iceberg = table(warehouse).iceberg
    heads = {ref.snapshot_id for ref in iceberg.metadata.refs.values()}
    expired = [one.snapshot_id for one in iceberg.metadata.snapshots if one.snapshot_id not in heads]
    iceberg.maintenance.expire_snapshots().by_ids(expired).commit()
    done = publish(warehouse, ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1)))
    assert done.published == (hour_name(0),)
    assert len(shown(warehouse)) == 4
    assert table(warehouse).offsets() == {0: 200, 1: 50, 2: 0}


def test_hours_without_records_between_proven_ones_are_published_too(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", [(0, 0, 5), (0, 1, 3 * HOUR_MS)], [span(0, 0, 100)])
    windows: Windows = ((0, "COMPLETE", 1), (3 * HOUR_MS, "COMPLETE", 1), (4 * HOUR_MS, "COMPLETE", 0))
    done = publish(warehouse, windows)
    assert done.published == tuple(map(hour_name, range(5)))
    assert [one.row_count for one in proofs(warehouse)] == [1, 0, 0, 1, 0]
    assert publish(warehouse, windows).published == ()


def test_events_beyond_the_year_9999_or_before_1970_stop_no_publishing(tmp_path: Path) -> None:
    """Faults: an event of the year 10000 stops its topic's loads, one of 2^61 ms its publishing."""
    warehouse = Warehouse(tmp_path)
    last_ms = 253_402_300_799_999
    store(warehouse, "r1", [(0, 0, 5), (0, 1, -5_000_000), (0, 2, -62_135_596_800_000), (0, 3, last_ms)], [span(0, 0, 100)])
    late = (1 << 61) - (1 << 61) % 600_000
    windows: Windows = (
        (-600_000, "COMPLETE", 2),
        (0, "COMPLETE", 1),
        (last_ms - last_ms % 600_000, "COMPLETE", 1),
        (late, "COMPLETE", 0),
    )
    done = publish(warehouse, windows)
    assert done.published == (hour_name(-1), hour_name(0))
    assert [reason for _, reason in done.shut] == ["the hour has not ended"] * 2
    assert shown(warehouse) == ["/0@0", "/1@0", "/2@0"]


def test_the_settings_say_which_losses_do_not_matter(warehouse: Warehouse) -> None:
    expired: Windows = ((0, "ACCOUNTED", 2, {"accounted": {"expired": 9}}), (HOUR_MS, "COMPLETE", 1))
    assert publish(warehouse, expired).published == (hour_name(1),)
    settings = warehouse.folder / "publish.toml"
    settings.write_text('[topics.clicks]\ndespite = ["expired"]\n')
    assert publish(warehouse, expired).published == (hour_name(0),)
    settings.write_text('[topics.clicks]\ndespite = ["typo"]\n')
    with pytest.raises(WarehouseError, match="'typo' is not the name of a loss"):
        publish(warehouse, expired)


def test_the_gate_waits_for_open_windows_and_no_longer_than_told(warehouse: Warehouse) -> None:
    count(warehouse)
    answers, clock = list[str](), ManualClock(100 * HOUR_MS)

    def ask(topic: str) -> Sequence[AuditedWindow]:
        answers.append(topic)
        clock.advance(1_000)
        windows: Sequence[AuditedWindow] = audit(((0, "OPEN" if len(answers) < 3 else "COMPLETE", 2), (HOUR_MS, "COMPLETE", 1)))(
            topic
        )
        return windows

    assert len(Gate(warehouse, "clicks", ask, clock=clock).publish(wait_ms=60_000).open_hours) == 2
    assert len(answers) == 3


def test_an_hour_whose_windows_are_in_a_day_by_now_is_not_published_as_one_without_records(warehouse: Warehouse) -> None:
    """Fault: all records of an hour lost before the warehouse, its windows added to their day: published with 0 rows."""
    count(warehouse)
    windows = audit((*BALANCED, (4 * HOUR_MS, "COMPLETE", 0)))
    done = Gate(warehouse, "clicks", windows, ask_days=lambda topic: {2}).publish(wait_ms=0)
    assert done.published == tuple(hour_name(hour) for hour in (0, 1, 3, 4))
    assert [hour for hour, reason in done.shut if "was never proven" in reason] == [hour_name(2)]
    assert done.complete_through == hour_name(1)


def test_an_audit_that_does_not_answer_changes_nothing(warehouse: Warehouse) -> None:
    publish(warehouse)
    away = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(AuditUnreachable, match="nothing was published"):
        Gate(warehouse, "clicks", ask_audit(away)).publish()
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    count(warehouse)
    late: Windows = ((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1))
    with pytest.raises(AuditUnreachable, match="nothing was published"):
        Gate(warehouse, "clicks", audit(late), ask_sequences=ask_for_sequences(away)).publish()
    assert len(shown(warehouse)) == 3
