"""A second replay of one file is noticed: into the same topic of the same cluster, the latest one counts."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.apps.replay import earlier_replays
from headrace.apps.replay.earlier_replays import EarlierReplay, latest_of, read, remember

ONE = EarlierReplay(head="aa", topic="log", bootstrap="localhost:9092", file="/tmp/access.log", sent=10, at_ms=1_000)


def test_only_the_same_file_into_the_same_topic_of_the_same_cluster_is_the_same_replay() -> None:
    again = replace(ONE, at_ms=2_000, file="/tmp/renamed.log")
    assert latest_of("aa", "log", "localhost:9092", [again, ONE]) == again
    assert latest_of("bb", "log", "localhost:9092", [ONE]) is None
    assert latest_of("aa", "other", "localhost:9092", [ONE]) is None
    assert latest_of("aa", "log", "localhost:19092", [ONE]) is None


def test_replays_are_remembered_in_order_and_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "replays.json"
    assert read(path) == []
    remember(path, ONE)
    remember(path, replace(ONE, at_ms=2_000))
    assert [one.at_ms for one in read(path)] == [1_000, 2_000]
    monkeypatch.setattr(earlier_replays, "REMEMBERED", 2)
    remember(path, replace(ONE, at_ms=3_000))
    assert [one.at_ms for one in read(path)] == [2_000, 3_000]


def test_a_file_that_cannot_be_read_counts_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "replays.json"
    for content in ("", "[{}]", "{", "3"):
        path.write_text(content)
        assert read(path) == []
