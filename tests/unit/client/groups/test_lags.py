"""The lags of many groups: each log is asked about once, whatever number of groups read it."""

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import EARLIEST
from headrace.client.groups import group_admin
from headrace.client.groups.group_admin import Group, lag_of, lags_of


class World:
    """A cluster of one topic with four partitions, which counts what it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        monkeypatch.setattr(group_admin, "log_offsets", self._log_offsets)

    def topics(self) -> list[str]:
        self.asked += 1
        return ["t"]

    def partitions(self, topic: str) -> list[int]:
        return [0, 1, 2, 3]

    def _log_offsets(self, cluster: object, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked += 1
        return {name: 10 if moment == EARLIEST else 100 for name, moment in wanted.items()}


def group(name: str, committed: Mapping[int, int], topic: str = "t") -> Group:
    positions = {TopicPartition(topic, partition): offset for partition, offset in committed.items()}
    return Group(name=name, kind="consumer", state="Empty", members=[], committed=positions)


def test_twice_as_many_groups_ask_the_cluster_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for number in (10, 20):
        world: Any = World(monkeypatch)
        found = lags_of(world, [group(f"g{one}", {0: 40, 1: 100}) for one in range(number)])
        assert len(found) == number
        counts.append(world.asked)
    assert counts[0] == counts[1]


def test_lag_begins_at_the_log_s_start_where_what_was_committed_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    world: Any = World(monkeypatch)
    found = lags_of(world, [group("a", {0: 5, 1: 40, 9: 1}), group("b", {0: 100})])
    assert [(one.partition.partition, one.lag) for one in found["a"]] == [(0, 90), (1, 60), (9, None)]
    assert [one.lag for one in found["b"]] == [0]
    assert lag_of(world, group("c", {0: 40}, topic="deleted"))[0].lag is None
