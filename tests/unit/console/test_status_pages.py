"""Pages of what processes of this machine write of themselves, over files that the real writers have written."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from headrace.agent.process.snapshot import Snapshot, SourceState
from headrace.client.fetch.fetched import TopicPartition
from headrace.console.answers import AGENT_FILE
from headrace.console.pages.schemas import indented
from headrace.console.pages.topics import setting_words
from headrace.mirror.control.orders import Orders
from headrace.mirror.partition_copy import PartitionCopy, Phase
from headrace.mirror.stall import Progress
from headrace.mirror.status_facts import Rows, facts, orders_facts
from headrace.runtime.clock import ManualClock
from headrace.runtime.status import StatusFile
from tests.support.audit_parts import START_MS

from .conftest import client, layout_of


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[TestClient]:
    yield from client(layout_of(tmp_path))


def write(path: Path, state: str, **words: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    StatusFile(path, ManualClock(START_MS)).write(state, **words)


def copies(*lags: int) -> Mapping[TopicPartition, PartitionCopy]:
    return {
        TopicPartition("clicks", number): PartitionCopy(phase=Phase.COPYING, source_end=100, copied_to=100 - lag)
        for number, lag in enumerate(lags)
    }


def mirrored(folder: Path, *lags: int) -> None:
    mine = copies(*lags)
    told = facts(mine, Progress(), trouble=None)
    rows = Rows().prepared(mine, {})
    orders = orders_facts(Orders(), None)
    write(folder / "run" / "mirror.json", "ready", mode="identical", orders=orders, **told, partitions=rows)


def test_the_page_of_a_mirror_that_is_well_is_shown(tmp_path: Path, alone: TestClient) -> None:
    """Fault: a mirror without a reason to complain was answered with "This page failed"."""
    mirrored(tmp_path, 0, 0)
    answer = alone.get("/mirror")
    assert answer.status_code == 200
    assert "The mirror is ready. It is 0 bytes behind. Both logs have the same offsets." in answer.text
    assert "clicks-1" in answer.text


def test_a_mirror_that_starts_has_told_nothing_else_yet(tmp_path: Path, alone: TestClient) -> None:
    write(tmp_path / "run" / "mirror.json", "starting", reason="looking for the source")
    page = alone.get("/mirror").text
    assert "The mirror is starting: looking for the source." in page
    assert "It copies no partition yet." in page


def test_records_behind_are_not_known_while_the_source_is_away_and_bytes_are(tmp_path: Path, alone: TestClient) -> None:
    mirrored(tmp_path, 40)
    page = alone.get("/mirror").text
    assert "<td>–</td><td>–</td><td>40 bytes</td>" in page


def test_the_page_of_producers_shows_what_the_agent_says_of_itself(tmp_path: Path, alone: TestClient) -> None:
    """Fault: it read the file that the supervisor needs, which has the agent's state and no figure."""
    source = SourceState(name="/var/log/a.log", topic="a", settled="5", lag_bytes=700, lag_ms=90_000)
    shown = Snapshot(
        name="local", instance="vm/agent/local", at_ms=START_MS, is_ready=True, reason=None, sources=[source], source_count=1,
        lag_bytes=700, lag_ms=90_000, acknowledged=1_234,
    )  # fmt: skip
    write(tmp_path / AGENT_FILE, "ready", **{name: value for name, value in shown.words().items() if name != "at_ms"})
    page = alone.get("/producers").text
    assert "It has shipped 1,234 records, is 700 bytes behind, and its oldest record waits for 2 min." in page
    assert "/var/log/a.log" in page


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 days"),
        ("retention.ms", "-1", "no limit"),
        ("flush.messages", "9223372036854775807", "never"),
        ("flush.messages", "10", ""),
        ("segment.bytes", "1073741824", "1.1 GB"),
        ("min.insync.replicas", "1", ""),
        ("cleanup.policy", "delete", ""),
        ("secret", None, ""),
    ],
)
def test_settings_say_what_their_numbers_mean(name: str, value: str | None, words: str) -> None:
    assert setting_words(name, value) == words


def test_a_schema_is_shown_on_many_lines_and_what_is_no_json_as_it_is() -> None:
    assert indented('{"type":"record"}') == json.dumps({"type": "record"}, indent=2)
    assert indented('syntax = "proto3";') == 'syntax = "proto3";'
