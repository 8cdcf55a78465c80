"""The audit is told what each publish has read back, once, and later where it could not be told at once."""

from pathlib import Path

import pyarrow.compute as pc
import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import PublishedHour
from headrace.audit.publisher import ReportNotSent
from headrace.runtime.clock import ManualClock
from headrace.spark.publish.main_reports import is_reported, report_main
from headrace.spark.warehouse.topic_table import MAIN
from tests.support.other_hands import compact
from tests.support.stored_rows import HOUR_MS
from tests.support.stored_table import Stored


class Topic:
    """The audit topic."""

    def __init__(self) -> None:
        self.told: list[PublishedHour] = []
        self.fails = False

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        report = decode(value)
        assert isinstance(report, PublishedHour)
        self.told.append(report)

    def flush(self, timeout_ms: int, /) -> bool:
        return not self.fails


def tell(stored: Stored, topic: Topic) -> list[tuple[int, str, int, int]]:
    """Return revision, verdict, rows and missing ones of each hour that was told."""
    topic.told.clear()
    report_main(stored.warehouse, stored.warehouse.existing_table("clicks"), topic, instance="t", clock=ManualClock(5))
    return [(one.revision, one.verdict, one.row_count, one.missing) for one in topic.told]


def test_each_revision_is_told_once_with_what_the_audit_had_counted(tmp_path: Path) -> None:
    stored, topic = Stored(tmp_path, "clicks"), Topic()
    stored.load(0, 20)
    stored.load(1, 5)
    stored.publish()
    assert not is_reported(stored.warehouse.existing_table("clicks"))
    assert tell(stored, topic) == [(1, "COMPLETE", 20, 0), (1, "COMPLETE", 5, 0)]
    assert [dict(one.windows) for one in topic.told] == [{0: 20}, {HOUR_MS: 5}]
    assert is_reported(stored.warehouse.existing_table("clicks"))
    assert tell(stored, topic) == []
    compact(stored.warehouse, MAIN, 0)
    stored.publish()
    assert tell(stored, topic) == [(2, "COMPLETE", 20, 0)], "the same rows in other files"
    compact(stored.warehouse, MAIN, 1, lambda rows: rows.filter(pc.field("_offset") > 22))
    stored.publish()
    assert tell(stored, topic) == [(2, "REMOVED", 2, 3)]
    assert "3 rows were removed by others" in topic.told[0].reason


def test_what_could_not_be_told_is_told_after_the_next_publish(tmp_path: Path) -> None:
    stored, topic = Stored(tmp_path, "clicks"), Topic()
    stored.load(0, 20)
    stored.publish()
    topic.fails = True
    with pytest.raises(ReportNotSent):
        tell(stored, topic)
    topic.fails = False
    stored.load(1, 5)
    stored.publish()
    assert tell(stored, topic) == [(1, "COMPLETE", 20, 0), (1, "COMPLETE", 5, 0)]
