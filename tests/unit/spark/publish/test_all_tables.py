"""The count and the publish of all tables open the warehouse once, however many tables there are and however often they ask."""

from pathlib import Path

import pytest

from headrace.runtime.layout import Layout
from headrace.spark.publish import all_tables
from headrace.spark.publish.count_job import CountOutcome
from headrace.spark.publish.publish_job import PublishOutcome
from headrace.spark.warehouse.warehouse import Warehouse


@pytest.mark.parametrize("count", [3, 6])
def test_one_warehouse_serves_all_tables_and_all_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    topics = [f"t{number}" for number in range(count)]
    used: list[Warehouse] = []
    rounds: dict[str, int] = {}

    def publish(layout: Layout, topic: str, *, wait_ms: int, warehouse: Warehouse) -> PublishOutcome:
        used.append(warehouse)
        rounds[topic] = rounds.get(topic, 0) + 1
        return PublishOutcome(topic=topic, may_change_soon=rounds[topic] < 3 and topic != "t0")

    def counted(layout: Layout, topic: str, *, warehouse: Warehouse) -> CountOutcome:
        used.append(warehouse)
        return CountOutcome(topic=topic)

    monkeypatch.setattr(all_tables, "run_publish", publish)
    monkeypatch.setattr(all_tables, "run_count", counted)
    monkeypatch.setattr(all_tables.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Warehouse, "topics", lambda self: topics)
    layout = Layout(home=tmp_path)
    done = all_tables.publish_all(layout)
    assert (rounds, done.faults) == ({topic: 1 if topic == "t0" else 3 for topic in topics}, {})
    assert len(used) == 3 * count - 2
    assert len(set(map(id, used))) == 1
    used.clear()
    all_tables.count_all(layout)
    assert len(used) == count
    assert len(set(map(id, used))) == 1
