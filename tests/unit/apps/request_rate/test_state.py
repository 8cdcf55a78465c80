"""The state files: minutes and offset together, bounded, never overwritten by one who was overtaken."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.apps.request_rate.state import (
    MINUTE_MS,
    MOST_MINUTES,
    MinuteCounts,
    Overtaken,
    PartitionState,
    StateError,
    StateFolder,
    merged,
)


def state(offset: int, minutes: dict[int, int], *, topic: str = "t", partition: int = 0) -> PartitionState:
    return PartitionState(topic=topic, partition=partition, offset=offset, minutes=minutes)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 40 * MINUTE_MS)), st.integers(1, 10))
def test_minutes_are_counted_by_event_time_and_the_latest_stay(timestamps: list[int], most: int) -> None:
    counts = MinuteCounts(most=most)
    for timestamp_ms in timestamps:
        counts.add(timestamp_ms)
    kept = counts.as_dict()
    everything = Counter(timestamp_ms // MINUTE_MS * MINUTE_MS for timestamp_ms in timestamps)
    assert list(kept) == sorted(everything)[-most:]
    assert kept.keys() <= everything.keys()
    if len(everything) <= most:
        assert kept == dict(everything)


def test_a_week_of_minutes_is_the_bound() -> None:
    counts = MinuteCounts()
    for minute in range(MOST_MINUTES + 5):
        counts.add(minute * MINUTE_MS)
    assert len(counts.as_dict()) == MOST_MINUTES
    assert min(counts.as_dict()) == 5 * MINUTE_MS


def test_what_was_saved_is_loaded_and_nothing_else_lies_about(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    assert folder.load("t", 0) is None
    folder.save(state(10, {0: 1, 60_000: 2}))
    folder.save(state(20, {0: 1, 60_000: 5}))
    assert folder.load("t", 0) == state(20, {0: 1, 60_000: 5})
    assert json.loads((tmp_path / "t-0.json").read_text())["offset"] == 20
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["t-0.json"]


def test_one_who_was_overtaken_changes_nothing(tmp_path: Path) -> None:
    StateFolder(tmp_path).save(state(20, {0: 7}))
    with pytest.raises(Overtaken, match="another process has taken"):
        StateFolder(tmp_path).save(state(10, {0: 3}))
    assert StateFolder(tmp_path).load("t", 0) == state(20, {0: 7})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"v":2}',
        '{"v":1,"topic":"t","partition":0}',
        '{"v":1,"topic":"t","partition":0,"offset":-1,"minutes":{}}',
        '{"v":1,"topic":"t","partition":0,"offset":1,"minutes":{"x":1}}',
        '{"v":1,"topic":7,"partition":0,"offset":1,"minutes":{}}',
    ],
)
def test_a_damaged_file_is_a_clear_error_and_can_be_set_aside(tmp_path: Path, text: str) -> None:
    folder = StateFolder(tmp_path)
    (tmp_path / "t-0.json").write_text(text)
    with pytest.raises(StateError, match=r"t-0\.json"):
        folder.load("t", 0)
    aside = folder.set_aside("t", 0)
    assert aside.read_text() == text
    assert folder.load("t", 0) is None
    folder.save(state(1, {}))


def test_partitions_are_added_up_by_topic(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.save(state(5, {60_000: 1, 0: 2}))
    folder.save(state(9, {60_000: 10}, partition=1))
    folder.save(state(3, {0: 4}, topic="u-v"))
    assert merged(folder.all()) == {"t": {0: 2, 60_000: 11}, "u-v": {0: 4}}
    assert merged(folder.all("u-v")) == {"u-v": {0: 4}}
    assert StateFolder(tmp_path / "none").all() == []
