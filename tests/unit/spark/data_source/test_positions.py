"""A stream's positions: whatever happens to the log between two triggers, each offset is read, or named as lost, once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.data_source.positions import Gap, Positions, batch_between, looked_at, next_positions
from headrace.spark.data_source.rate_limits import shares
from headrace.spark.errors import WarehouseError
from headrace.spark.source.log_ends import LogEnds


def ends(**partitions: tuple[int, int]) -> LogEnds:
    named = {int(name[1:]): span for name, span in partitions.items()}
    return LogEnds(start={name: span[0] for name, span in named.items()}, end={name: span[1] for name, span in named.items()})


def step(
    start: Positions, log: LogEnds, *, topic_id: str = "a", limit: int | None = None, target: dict[int, int] | None = None
) -> tuple[Positions, list[tuple[int, int, int]], list[Gap]]:
    """Return the next positions by way of JSON, the ranges of the batch, and what is lost."""
    looked = looked_at(start, log, topic_id)
    end = next_positions(start, looked, log, topic_id, limit=limit, target=target)
    end = Positions.of_json(start.topic, json.loads(json.dumps(end.as_json())))
    ranges, lost = batch_between(start, end, looked, log, topic_id)
    assert set(looked.lost) <= set(end.lost) or end == start
    return end, [(one.partition, one.from_offset, one.to_offset) for one in ranges], lost


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[LogEnds, int | None]]:
    """Return what a stream sees at its triggers: partitions are added, logs grow at their ends and expire at their starts."""
    start, end, found = {0: 0}, {0: draw(st.integers(0, 50))}, []
    for _ in range(draw(st.integers(1, 12))):
        if len(start) < 4 and draw(st.booleans()):
            start[len(start)] = end[len(end)] = 0
        for one in end:
            end[one] += draw(st.integers(0, 60))
            if draw(st.integers(0, 3)) == 0:
                start[one] = draw(st.integers(start[one], end[one]))
        found.append((LogEnds(start=dict(start), end=dict(end)), draw(st.none() | st.integers(1, 80))))
    return found


@given(lives())
def test_each_offset_is_read_once_or_named_as_lost_once(life: list[tuple[LogEnds, int | None]]) -> None:
    at = Positions(topic="clicks", offsets={0: 0}, topic_id="a")
    seen: dict[int, list[tuple[int, str]]] = {}
    for log, limit in [*life, (life[-1][0], None)]:
        at, ranges, lost = step(at, log, limit=limit)
        for gap in lost:
            seen.setdefault(gap.partition, []).extend((offset, "lost") for offset in range(gap.from_offset, gap.to_offset))
        for partition, begin, end in ranges:
            assert log.start[partition] <= begin < end <= log.end[partition], "only what the log has"
            seen.setdefault(partition, []).extend((offset, "read") for offset in range(begin, end))
        if limit is not None:
            assert sum(end - begin for _, begin, end in ranges) <= max(limit, len(log.end))
    for partition, end in life[-1][0].end.items():
        assert [offset for offset, _ in seen.get(partition, [])] == list(range(end))


@given(lives())
def test_a_stream_comes_to_its_end_under_any_limit(life: list[tuple[LogEnds, int | None]]) -> None:
    log, limit = life[-1]
    at, triggers = Positions(topic="clicks", offsets={0: 0}), 0
    while (end := step(at, log, limit=limit, topic_id="")[0]) != at:
        at, triggers = end, triggers + 1
        assert triggers <= sum(log.end.values()) + 1
    assert at.offsets == log.end


def test_available_now_ends_at_its_target_and_begins_no_partition_that_came_later() -> None:
    start = Positions(topic="clicks", offsets={0: 5, 1: 90}, topic_id="a")
    log = ends(p0=(0, 100), p1=(0, 100), p2=(0, 100))
    end, ranges, _ = step(start, log, target={0: 50, 1: 80})
    assert ranges == [(0, 5, 50)]
    assert end.offsets == {0: 50, 1: 90}, "where a restarted query already is beyond its target, it stays"
    assert step(end, log, target={0: 50, 1: 80})[0] == end


def test_nothing_new_is_the_same_position_also_after_a_gap() -> None:
    start = Positions(topic="clicks", offsets={0: 5}, topic_id="a")
    end, ranges, lost = step(start, ends(p0=(8, 9)))
    assert (ranges, [(gap.from_offset, gap.to_offset) for gap in lost]) == ([(0, 8, 9)], [(5, 8)])
    assert end.as_json()[":lost"]["0"]["from"] == 5
    again, ranges, lost = step(end, ends(p0=(8, 9)))
    assert (again, ranges, lost) == (end, [], [])


def test_the_first_batch_is_another_position_although_it_is_empty() -> None:
    start = Positions(topic="clicks", offsets={0: 9}, topic_id="a", is_first=True)
    end, ranges, _ = step(start, ends(p0=(0, 9)))
    assert ranges == []
    assert end.as_json() == {"clicks": {"0": 9}, ":topic_id": "a"} != start.as_json()


def test_from_the_earliest_on_what_expires_before_the_first_batch_is_no_loss() -> None:
    start = Positions(topic="clicks", offsets={0: 0}, is_first=True)
    assert looked_at(start, ends(p0=(7, 9)), "", is_earliest=True).lost == []
    assert len(looked_at(start, ends(p0=(7, 9)), "").lost) == 1


def test_a_log_that_lost_its_tail_is_named_and_read_from_its_end() -> None:
    start = Positions(topic="clicks", offsets={0: 100}, topic_id="a")
    end, ranges, lost = step(start, ends(p0=(0, 60)))
    assert (end.offsets, ranges) == ({0: 60}, [])
    assert (lost[0].from_offset, lost[0].to_offset) == (60, 100)
    assert "lost its tail" in lost[0].reason


def test_a_batch_that_is_planned_again_on_a_shorter_log_names_its_tail() -> None:
    start, end = Positions(topic="clicks", offsets={0: 10}), Positions(topic="clicks", offsets={0: 100})
    log = ends(p0=(0, 60))
    ranges, lost = batch_between(start, end, looked_at(start, log, ""), log, "")
    assert [(one.from_offset, one.to_offset) for one in ranges] == [(10, 60)]
    assert [(gap.from_offset, gap.to_offset) for gap in lost] == [(60, 100)]


def test_another_topic_of_the_same_name_is_read_from_its_start_and_an_old_batch_reads_nothing_of_it() -> None:
    start = Positions(topic="clicks", offsets={0: 30, 1: 5}, topic_id="old")
    log = ends(p0=(0, 80))
    end, ranges, lost = step(start, log, topic_id="new")
    assert (end.offsets, end.topic_id, ranges) == ({0: 80}, "new", [(0, 0, 80)])
    assert all("created again" in gap.reason for gap in lost)
    planned = Positions(topic="clicks", offsets={0: 60, 1: 9}, topic_id="old")
    ranges_then, lost = batch_between(start, planned, looked_at(start, log, "new"), log, "new")
    assert ranges_then == []
    assert lost


@pytest.mark.parametrize("words", [{"other": {"0": 1}}, {"clicks": 7}, {"clicks": {"x": 1}}, {"clicks": {"0": None}}])
def test_a_checkpoint_of_something_else_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(WarehouseError, match="'clicks': each query wants a checkpointLocation of its own"):
        Positions.of_json("clicks", words)


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 1 << 40), max_size=20), st.integers(1, 1 << 41))
def test_shares_keep_to_the_limit_and_starve_no_partition(waiting: dict[int, int], limit: int) -> None:
    found = shares(waiting, limit)
    behind = [one for one in waiting if waiting[one]]
    assert found.keys() == waiting.keys()
    assert sum(found.values()) <= max(limit, len(behind))
    assert all(found[one] <= waiting[one] for one in waiting)
    for one in behind:
        assert found[one] >= min(waiting[one], max(1, limit // (10 * len(behind))))
    if sum(waiting.values()) > limit >= 20 * max(1, len(behind)):
        assert sum(found.values()) > limit * 0.9 - 20
    assert shares(waiting, None) == waiting
