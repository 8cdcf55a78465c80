"""Many groups are asked about in one request for each broker that serves that, and one by one where it does not."""

from typing import Any

import pytest

from headrace.client.connection import control_plane
from headrace.client.errors import ClientError, UnsupportedApi
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.groups import many_groups, topic_readers
from headrace.client.groups.group_admin import UnknownGroup, describe_group, describe_groups
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control

LIST_GROUPS, METADATA, FIND_COORDINATOR, OFFSET_FETCH, DESCRIBE_GROUPS = 16, 3, 10, 9, 15
NEW = {FIND_COORDINATOR: 4, OFFSET_FETCH: 8, DESCRIBE_GROUPS: 5, LIST_GROUPS: 4}
OLD = {**NEW, FIND_COORDINATOR: 3, OFFSET_FETCH: 7}


class Broker:
    """The wire's other side: a connection whose broker coordinates all groups and keeps these offsets of the topic `t`."""

    address = "broker:9092"

    def __init__(self, served: dict[int, int], offsets: dict[str, dict[int, int]]) -> None:
        self.served = served
        self.offsets = offsets
        self.refused = ""
        self.asked: list[tuple[int, int]] = []

    def version(self, api_key: int, lowest: int, highest: int) -> int:
        if self.served[api_key] < lowest:
            raise UnsupportedApi(self.address, str(api_key), (lowest, highest), (0, self.served[api_key]))
        return min(highest, self.served[api_key])

    def request(self, api_key: int, version: int, body: Any) -> bytes:
        self.asked.append((api_key, version))
        message = control.decode_request(api_key, version, body)
        return control.encode_response(api_key, version, self._answer(api_key, version, message))

    def _answer(self, api_key: int, version: int, message: Any) -> dict[str, Any]:
        match api_key:
            case 10:  # FindCoordinator
                names = message.coordinator_keys if version >= 4 else [message.key]
                place = {"node_id": 1, "host": "broker", "port": 9092, "error_code": 0, "error_message": None}
                each = [{"key": name, **place} for name in names]
                return {"throttle_time_ms": 0, "coordinators": each, **each[0]}
            case 9:  # OffsetFetch
                asked = message.groups if version >= 8 else [message]
                each = [{"group_id": one.group_id, **self._offsets(one)} for one in asked]
                return {"throttle_time_ms": 0, "groups": each, **each[0]}
            case 15:
                each = [self._described(name) for name in message.groups]
                return {"throttle_time_ms": 0, "groups": each}
            case 16:
                each = [{"group_id": name, "protocol_type": "consumer", "group_state": "Empty"} for name in self.offsets]
                return {"throttle_time_ms": 0, "error_code": 0, "groups": each}
        raise AssertionError(api_key)

    def _offsets(self, asked: Any) -> dict[str, Any]:
        mine = self.offsets.get(asked.group_id, {})
        indexes = list(mine) if asked.topics is None else [index for topic in asked.topics for index in topic.partition_indexes]
        partitions = [
            {
                "partition_index": one,
                "committed_offset": mine.get(one, -1),
                "committed_leader_epoch": -1,
                "metadata": "",
                "error_code": 0,
            }
            for one in indexes
        ]
        error = ErrorCode.NOT_COORDINATOR if asked.group_id == self.refused else ErrorCode.NONE
        return {"topics": [{"name": "t", "partitions": partitions}], "error_code": error}

    def _described(self, name: str) -> dict[str, Any]:
        state = {"group_state": "Empty", "protocol_type": "consumer", "protocol_data": "", "members": []}
        return {"error_code": 0, "group_id": name, "authorized_operations": 0, **state}

    def count(self, api_key: int) -> int:
        return sum(one == api_key for one, _ in self.asked)


class World:
    """A cluster of this one broker."""

    bootstrap = "broker:9092"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def coordinators(self, groups: list[str], *, lane: str = "control") -> dict[str, Broker]:
        found: Any = self.broker
        return dict.fromkeys(control_plane.ask_coordinators(found, groups), self.broker)

    def brokers(self, *, lane: str = "control") -> list[Broker]:
        return [self.broker]

    def topics(self) -> list[str]:
        return ["t"]

    def partitions(self, topic: str) -> list[int]:
        return [0, 1]


def world(served: dict[int, int], **offsets: dict[int, int]) -> Any:
    return World(Broker(served, offsets))


GROUPS = {f"g{number}": {0: number, 1: 7} for number in range(1, 6)}


def test_a_broker_that_serves_it_is_asked_about_all_groups_at_once() -> None:
    """Fault: a list of 50 groups made 150 requests, one after the other, and took seconds."""
    cluster = world(NEW, **GROUPS)
    found = describe_groups(cluster, [*GROUPS, "ended"])
    assert [one.name for one in found] == list(GROUPS)
    assert found[2].committed == {TopicPartition("t", 0): 3, TopicPartition("t", 1): 7}
    assert cluster.broker.asked == [(FIND_COORDINATOR, 4), (OFFSET_FETCH, 8), (DESCRIBE_GROUPS, 1)]


def test_an_older_broker_is_asked_group_by_group_and_answers_the_same() -> None:
    old, new = world(OLD, **GROUPS), world(NEW, **GROUPS)
    assert describe_groups(old, list(GROUPS)) == describe_groups(new, list(GROUPS))
    assert old.broker.count(OFFSET_FETCH) == old.broker.count(FIND_COORDINATOR) == len(GROUPS)


def test_requests_name_so_many_groups_and_partitions_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_groups, "AT_ONCE", 2)
    cluster = world(NEW, **GROUPS)
    assert len(describe_groups(cluster, list(GROUPS))) == 5
    assert [cluster.broker.count(key) for key in (FIND_COORDINATOR, OFFSET_FETCH, DESCRIBE_GROUPS)] == [3, 3, 3]
    monkeypatch.setattr(many_groups, "AT_ONCE", 200)
    monkeypatch.setattr(many_groups, "MOST_ELEMENTS", 6)
    cluster = world(NEW, **GROUPS)
    assert topic_readers.groups_of(cluster, "t") == list(GROUPS)
    assert cluster.broker.count(OFFSET_FETCH) == 3, "two groups of three elements a request"


@pytest.mark.parametrize("served", [NEW, OLD])
def test_the_readers_of_a_topic_are_those_that_have_committed_something(served: dict[int, int]) -> None:
    assert topic_readers.groups_of(world(served, a={0: 1}, b={}, c={1: 0}), "t") == ["a", "c"]
    assert topic_readers.groups_of(world(served, a={0: 1}), "another") == []


@pytest.mark.parametrize("served", [NEW, OLD])
def test_a_group_that_is_refused_or_unknown_is_named(served: dict[int, int]) -> None:
    cluster = world(served, a={0: 1}, b={0: 1})
    with pytest.raises(UnknownGroup, match="'ended'"):
        describe_group(cluster, "ended")
    cluster.broker.refused = "b"
    with pytest.raises(ClientError, match="OffsetFetch of 'b' to broker:9092"):
        describe_groups(cluster, ["a", "b"])
