"""What the audit is told is what stands in the files; what readers see is what the audit proved."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.publisher import ReportNotSent
from headrace.runtime.clock import ManualClock
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.spark.errors import AuditUnreachable
from headrace.spark.publish.count_job import count_and_report
from headrace.spark.publish.gate import AuditedWindow
from headrace.spark.publish.publish_job import Gate, ask_audit
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.query import query
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.processes import free_port

from ..stored_rows import HOUR_MS, span, store

ROWS = [(0, 0, 5), (0, 1, HOUR_MS + 5), (1, 0, 6)]


class Topic:
    """The audit topic, as its sender sees it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[dict[str, Any]] = []
        self.fails = fails

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        assert (topic, key) == (AUDIT_TOPIC, b"warehouse")
        if self.fails:
            raise OSError("away")
        self.told.append(json.loads(value))

    def flush(self, timeout_ms: int, /) -> None:
        return None


def stored(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(tmp_path)
    store(warehouse, "r1", ROWS, [span(0, 0, 100), span(1, 0, 50), span(2, 0, 0)], quarantined={1: {0: 2}})
    return warehouse


def audit(*windows: tuple[int, str, int | None]) -> Any:
    found = [
        AuditedWindow.of({"window_start_ms": start, "verdict": verdict, "tiers": {"warehouse": count}})
        for start, verdict, count in windows
    ]
    return lambda topic: found


def shown(warehouse: Warehouse, view: str = "clicks") -> list[str]:
    return sorted(row[0] for row in query(warehouse, f"SELECT path || '@' || _partition FROM {view}").rows)


BALANCED = ((0, "COMPLETE", 2), (HOUR_MS, "COMPLETE", 1))


def test_the_count_tells_ranges_windows_and_quarantine_and_only_once(tmp_path: Path) -> None:
    warehouse, topic = stored(tmp_path), Topic()
    done = count_and_report(warehouse, "clicks", topic, instance="t")
    assert (done.load_count, done.row_count, done.quarantined_count) == (1, 3, 2)
    told = {one["partition"]: (one["from_offset"], one["to_offset"], one["windows"]) for one in topic.told}
    assert {one["tier"] for one in topic.told} == {"warehouse"}
    assert told[0][:2] == (0, 100)
    assert {start: window["count"] for start, window in told[0][2].items()} == {"0": 1, str(HOUR_MS): 1}
    assert {start: (window["count"], window["quarantined"]) for start, window in told[1][2].items()} == {"0": (1, 2)}
    assert told[2] == (0, 0, {})
    assert count_and_report(warehouse, "clicks", topic, instance="t").load_count == 0


def test_a_report_that_was_not_sent_is_repeated_by_the_next_count(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    with pytest.raises(ReportNotSent):
        count_and_report(warehouse, "clicks", Topic(fails=True), instance="t")
    assert count_and_report(warehouse, "clicks", Topic(), instance="t").load_count == 1


def test_without_a_table_there_is_nothing_to_count_or_publish(tmp_path: Path) -> None:
    assert count_and_report(Warehouse(tmp_path), "clicks", Topic(), instance="t").load_count == 0
    assert Gate(Warehouse(tmp_path), "clicks", audit()).publish().open_hours == ()


def test_complete_hours_are_opened_with_their_proof_and_shut_ones_show_no_row(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    done = Gate(warehouse, "clicks", audit((0, "INCOMPLETE", 2), (HOUR_MS, "COMPLETE", 1))).publish()
    assert done.published == (hour_name(1),)
    assert [hour for hour, _ in done.shut] == [hour_name(0)]
    assert shown(warehouse) == ["/1@0"]
    assert len(shown(warehouse, "clicks_all")) == 3
    proof = json.loads((tmp_path / "published" / "clicks" / hour_name(1) / "_SUCCESS").read_text())
    assert (proof["row_count"], proof["windows"][0]["verdict"]) == (1, "COMPLETE")
    assert not (tmp_path / "published" / "clicks" / hour_name(0)).exists()


def test_an_hour_that_is_no_longer_complete_is_withdrawn(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    assert len(Gate(warehouse, "clicks", audit(*BALANCED)).publish().published) == 2
    done = Gate(warehouse, "clicks", audit((0, "UNKNOWN", 2), (HOUR_MS, "COMPLETE", 1))).publish()
    assert done.withdrawn == (hour_name(0),)
    assert shown(warehouse) == ["/1@0"]
    assert not (tmp_path / "published" / "clicks" / hour_name(0)).exists()


def test_rows_that_came_after_the_proof_are_not_shown_before_the_next(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    Gate(warehouse, "clicks", audit(*BALANCED)).publish()
    store(warehouse, "r2", [(0, 100, 9)], [span(0, 100, 200)])
    assert shown(warehouse) == ["/0@0", "/0@1", "/1@0"]
    assert len(shown(warehouse, "clicks_all")) == 4
    assert Gate(warehouse, "clicks", audit(*BALANCED)).publish(wait_ms=0).withdrawn == (hour_name(0),)
    Gate(warehouse, "clicks", audit((0, "COMPLETE", 3), (HOUR_MS, "COMPLETE", 1))).publish()
    assert shown(warehouse) == ["/0@0", "/0@1", "/100@0", "/1@0"]


def test_the_gate_waits_for_open_windows_and_no_longer_than_told(tmp_path: Path) -> None:
    warehouse, answers, clock = stored(tmp_path), [], ManualClock(100 * HOUR_MS)

    def ask(topic: str) -> Sequence[AuditedWindow]:
        answers.append(topic)
        clock.advance(1_000)
        windows: Sequence[AuditedWindow] = audit((0, "OPEN" if len(answers) < 3 else "COMPLETE", 2), (HOUR_MS, "COMPLETE", 1))(
            topic
        )
        return windows

    assert len(Gate(warehouse, "clicks", ask, clock=clock).publish(wait_ms=60_000).open_hours) == 2
    assert len(answers) == 3
    answers.clear()
    assert len(Gate(warehouse, "clicks", ask, clock=clock).publish(wait_ms=1_000).open_hours) == 1
    assert len(answers) == 1


def test_an_audit_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    Gate(warehouse, "clicks", audit(*BALANCED)).publish()
    with pytest.raises(AuditUnreachable, match="nothing was published"):
        Gate(warehouse, "clicks", ask_audit(f"http://127.0.0.1:{free_port()}")).publish()
    assert len(shown(warehouse)) == 3


def test_a_proof_is_not_written_again_when_nothing_changed(tmp_path: Path) -> None:
    warehouse = stored(tmp_path)
    proof = tmp_path / "published" / "clicks" / hour_name(1) / "_SUCCESS"
    for now_ms in (100 * HOUR_MS, 101 * HOUR_MS):
        Gate(warehouse, "clicks", audit(*BALANCED), clock=ManualClock(now_ms)).publish()
    assert json.loads(proof.read_text())["at_ms"] == 100 * HOUR_MS
