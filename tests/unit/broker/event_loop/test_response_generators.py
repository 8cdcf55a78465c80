"""Long requests run in slices of time: other requests are served in between, and waiting ones are bounded."""

import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.errors import FrameRefused
from headrace.broker.event_loop import response_generators
from headrace.broker.event_loop.deferred_response import DeferredResponse
from headrace.broker.event_loop.response_generators import MOST_WAITING_BYTES, ResponseGenerators
from headrace.broker.groups.coordinator import MOST_OFFERS
from headrace.broker.handlers import config_changes, describe_configs, metadata
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from headrace.wire.messages.control import MOST_ELEMENTS
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed
from tests.support.serving_broker import ServingBroker

NUMBER = 300
"""Elements of a request whose handler must pause at each."""


def by_topic(number: int, partition: dict[str, Any], *, topic: str = "name", index: str = "partition_index") -> dict[str, Any]:
    return {"topics": [{topic: "t", "partitions": [{index: one, **partition} for one in range(number)]}]}


def commit(number: int) -> dict[str, Any]:
    partition = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    group = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {**group, **by_topic(number, partition)}


def config(number: int, **setting: Any) -> dict[str, Any]:
    configs = [{"name": "retention.ms", "value": "5", **setting}]
    resources = [{"resource_type": 2, "resource_name": f"n{one}", "configs": configs} for one in range(number)]
    return {"resources": resources, "validate_only": False}


LONG: dict[tuple[int, int], Callable[[int], dict[str, Any]]] = {
    (2, 7): lambda number: {
        "replica_id": -1,
        "isolation_level": 0,
        **by_topic(number, {"current_leader_epoch": -1, "timestamp": -1}),
    },
    (3, 9): lambda number: {
        "topics": [{"name": f"n{one}"} for one in range(number)],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    },
    (8, 8): commit,
    (9, 7): lambda number: {
        "group_id": "g",
        "topics": [{"name": "t", "partition_indexes": list(range(number))}],
        "require_stable": False,
    },
    (9, 8): lambda number: {
        "groups": [{"group_id": f"g{one}", "topics": None} for one in range(number)],
        "require_stable": False,
    },
    (10, 4): lambda number: {"key_type": 0, "coordinator_keys": [f"g{one}" for one in range(number)]},
    (13, 5): lambda number: {
        "group_id": "g",
        "members": [{"member_id": f"m{one}", "group_instance_id": None, "reason": None} for one in range(number)],
    },
    (15, 5): lambda number: {"groups": [f"g{one}" for one in range(number)], "include_authorized_operations": False},
    (19, 7): lambda number: {
        "topics": [
            {"name": f"n{one}", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            for one in range(number)
        ],
        "timeout_ms": 1_000,
        "validate_only": True,
    },
    (20, 5): lambda number: {"topic_names": [f"n{one}" for one in range(number)], "timeout_ms": 1_000},
    (21, 2): lambda number: {**by_topic(number, {"offset": 0}), "timeout_ms": 1_000},
    (23, 4): lambda number: {
        "replica_id": -1,
        **by_topic(number, {"current_leader_epoch": 0, "leader_epoch": 0}, topic="topic", index="partition"),
    },
    (32, 0): lambda number: {
        "resources": [{"resource_type": 2, "resource_name": f"n{one}", "configuration_keys": None} for one in range(number)],
    },
    (32, 4): lambda number: {
        "resources": [{"resource_type": 2, "resource_name": f"n{one}", "configuration_keys": None} for one in range(number)],
        "include_synonyms": True,
        "include_documentation": True,
    },
    (33, 2): config,
    (44, 1): lambda number: config(number, config_operation=0),
    # Version 4 also has the disk's free bytes, which change.
    (35, 3): lambda number: {"topics": [{"topic": "t", "partitions": list(range(number))}]},
    (37, 3): lambda number: {
        "topics": [{"name": f"n{one}", "count": 2, "assignments": None} for one in range(number)],
        "timeout_ms": 1_000,
        "validate_only": True,
    },
    (42, 2): lambda number: {"groups_names": [f"g{one}" for one in range(number)]},
    (47, 0): lambda number: {"group_id": "g", **by_topic(number, {})},
}
"""A request of each API that may name very many things."""

BY_HAND = {
    (2, 0): struct.pack(">iih1si", -1, 1, 1, b"t", NUMBER) + b"".join(struct.pack(">iqi", one, -1, 1) for one in range(NUMBER)),
    (8, 1): struct.pack(">h1sihih1si", 1, b"g", -1, 0, 1, 1, b"t", NUMBER)
    + b"".join(struct.pack(">iqqh", one, 1, -1, -1) for one in range(NUMBER)),
}


def body_of(api: tuple[int, int], number: int) -> bytes:
    if api == (32, 0):
        return control.encode_request(32, 1, {**LONG[api](number), "include_synonyms": False})[:-1]
    return control.encode_request(*api, LONG[api](number))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"t": 2}, settings={"auto.create.topics.enable": "false"}) as serving:
        yield serving


@pytest.mark.parametrize("api", [*LONG, *BY_HAND], ids=str)
def test_a_request_that_names_many_things_gives_way_at_each_and_is_answered_as_if_it_had_not(
    broker: ServingBroker, api: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = BY_HAND[api] if api in BY_HAND else body_of(api, NUMBER)
    monkeypatch.setattr(response_generators, "SLICE_NS", 1 << 62)
    with broker.client() as client:
        at_once = bytes(client.request(*api, body))
    turns = 0
    resume = ResponseGenerators._resume

    def counted(self: ResponseGenerators) -> None:
        nonlocal turns
        turns += 1
        resume(self)

    monkeypatch.setattr(ResponseGenerators, "_resume", counted)
    monkeypatch.setattr(response_generators, "SLICE_NS", 0)
    with broker.client() as client:
        in_slices = bytes(client.request(*api, body))
    assert in_slices == at_once
    assert turns >= NUMBER, "no more than one element between two turns of the loop"
    assert len(broker.context.generators) == broker.context.generators.waiting_bytes == 0


@pytest.mark.parametrize("api", [(2, 7), (8, 8), (10, 4), (15, 5), (32, 4)], ids=str)
def test_beside_the_largest_request_others_are_served(
    broker: ServingBroker, api: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Client and broker share one interpreter here, which takes time from both.
    monkeypatch.setattr(response_generators, "SLICE_NS", 50_000)
    order: deque[str] = deque()
    with broker.client() as client, broker.client() as other:
        sent = client.send(*api, body_of(api, MOST_ELEMENTS - 1))

        def receive() -> None:
            assert client.receive(*api)[0] == sent
            order.append("long")

        receiver = threading.Thread(target=receive)
        receiver.start()
        eventually(lambda: len(broker.context.generators) > 0, what="the long request under way")
        while receiver.is_alive():
            other.request(18, 0, b"")
            order.append("short")
        receiver.join()
    assert list(order).index("long") >= 5, order


def test_one_element_more_than_are_taken_at_once_ends_the_connection_and_no_other(broker: ServingBroker) -> None:
    with broker.client() as client, broker.client() as other:
        with pytest.raises(Closed):
            client.request(10, 4, body_of((10, 4), MOST_ELEMENTS + 1))
        assert other.request(18, 0, b"")
        with pytest.raises(Closed), broker.client() as third:
            third.request(3, 9, body_of((3, 9), MOST_ELEMENTS + 1))
        assert other.request(18, 0, b"")


def test_a_fault_that_shows_after_the_first_slice_ends_the_connection(
    broker: ServingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_generators, "SLICE_NS", 0)
    whole = body_of((23, 4), NUMBER)
    with broker.client() as client, broker.client() as other:
        with pytest.raises(Closed):
            client.request(23, 4, whole[:-1])
        assert other.request(18, 0, b"")


def test_whoever_goes_away_is_not_worked_for_any_longer(broker: ServingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_generators, "SLICE_NS", 0)
    with broker.client() as client:
        client.send(10, 4, body_of((10, 4), 20_000))
        eventually(lambda: len(broker.context.generators) > 0, what="the request under way")
    eventually(lambda: len(broker.context.generators) == 0, what="the request given up")
    assert broker.context.generators.waiting_bytes == 0


class HandLoop:
    """Calls posted functions when the test runs a turn."""

    def __init__(self) -> None:
        self.posted: deque[Callable[[], None]] = deque()
        self.timers: list[int] = []
        self.clock_ns = time.perf_counter_ns

    def post(self, function: Callable[[], None]) -> None:
        self.posted.append(function)

    def call_at(self, at_ms: int, function: Callable[[], None]) -> None:
        self.timers.append(at_ms)

    def turn(self) -> None:
        for _ in range(len(self.posted)):
            self.posted.popleft()()


def counting(pauses: int, made: bytes | DeferredResponse) -> Generator[None, None, bytes | DeferredResponse]:
    for _ in range(pauses):
        yield
    return made


@pytest.fixture
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_generators, "SLICE_NS", 0)


def test_long_requests_that_wait_are_bounded_by_their_bytes(one_step_a_slice: None) -> None:
    loop = HandLoop()
    waiting = ResponseGenerators(loop)  # type: ignore[arg-type]
    first = waiting.answer(counting(3, b"first"), MOST_WAITING_BYTES - 10)
    assert waiting.answer(counting(0, b"short"), 1_000) == b"short", "what needs one slice needs no room"
    with pytest.raises(FrameRefused, match="ask for less at once, or later"):
        waiting.answer(counting(3, b"second"), 11)
    second = waiting.answer(counting(3, b"second"), 10)
    assert isinstance(first, DeferredResponse)
    assert isinstance(second, DeferredResponse)
    for _ in range(20):
        assert len(loop.posted) <= 1, "one slice a turn, however many wait"
        loop.turn()
    assert (first.answer, second.answer) == ((b"first",), (b"second",))
    assert waiting.waiting_bytes == 0


def test_an_answer_that_comes_later_still_is_hurried_expires_and_is_abandoned_through_the_one_that_waits_for_it(
    one_step_a_slice: None,
) -> None:
    loop = HandLoop()
    waiting = ResponseGenerators(loop)  # type: ignore[arg-type]
    gone: list[str] = []
    inner = [
        DeferredResponse(deadline_ms=7, at_deadline=lambda: (b"cut short",)),
        DeferredResponse(cancelled=lambda: gone.append("abandoned")),
        DeferredResponse(at_deadline=lambda: (b"hurried",)),
    ]
    outer = [waiting.answer(counting(2, one), 1) for one in inner]
    assert all(isinstance(one, DeferredResponse) for one in outer)
    outer[2].finish_now()  # type: ignore[union-attr]
    for _ in range(20):
        loop.turn()
    assert loop.timers == [7]
    outer[0].expire()  # type: ignore[union-attr]
    outer[1].cancel()  # type: ignore[union-attr]
    assert [one.answer for one in outer] == [(b"cut short",), None, (b"hurried",)]  # type: ignore[union-attr]
    assert gone == ["abandoned"]


def test_a_connection_may_end_while_its_own_answer_is_being_made(one_step_a_slice: None) -> None:
    """A generator can close the connection that waits for it. It is closed at its next pause, not while it runs."""
    loop = HandLoop()
    waiting = ResponseGenerators(loop)  # type: ignore[arg-type]
    made: list[DeferredResponse] = []
    ended: list[str] = []

    def steps() -> Generator[None, None, bytes]:
        try:
            yield
            made[0].cancel()
            yield
        finally:
            ended.append("closed")
        return b"nobody waits"

    deferred = waiting.answer(steps(), 9)
    assert isinstance(deferred, DeferredResponse)
    made.append(deferred)
    for _ in range(3):
        loop.turn()
    assert (ended, deferred.answer, len(waiting), waiting.waiting_bytes) == (["closed"], None, 0, 0)


def test_settings_beyond_what_is_looked_at_are_refused_and_a_message_names_the_first_faults(broker: ServingBroker) -> None:
    def alter(number: int) -> Any:
        configs = [{"name": f"x{one}", "value": "1"} for one in range(number)]
        resource = {"resource_type": 2, "resource_name": "t", "configs": configs}
        with broker.client() as client:
            (answer,) = client.ask(33, 2, {"resources": [resource], "validate_only": True}).responses
        return answer

    most = alter(config_changes.MOST_SETTINGS)
    assert most.error_code == ErrorCode.INVALID_CONFIG
    assert most.error_message.endswith(f"and {config_changes.MOST_SETTINGS - config_changes.MOST_NAMED_FAULTS} more")
    more = alter(config_changes.MOST_SETTINGS + 1)
    assert (more.error_code, "give at most 1000" in more.error_message) == (ErrorCode.INVALID_REQUEST, True)


def test_resources_beyond_what_one_request_is_answered_for_are_refused_by_name(broker: ServingBroker) -> None:
    message = LONG[32, 4](describe_configs.MOST_DESCRIBED + 1)
    with broker.client() as client:
        results = client.ask(32, 4, message).results
    assert {one.error_code for one in results[:-1]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert results[-1].error_code == ErrorCode.INVALID_REQUEST
    assert "ask for this one in another" in str(results[-1].error_message)


def test_one_metadata_request_calls_a_bounded_number_of_topics_into_being(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "MOST_MADE", 3)
    with ServingBroker(tmp_path) as broker, broker.client() as client:
        message = {**LONG[3, 9](5), "allow_auto_topic_creation": True}
        errors = [one.error_code for one in client.ask(3, 9, message).topics]
        assert errors == [0, 0, 0] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
        assert [one.error_code for one in client.ask(3, 9, message).topics] == [0] * 5, "asked again, the rest"


def test_an_admin_client_with_ten_thousand_topics_in_one_request_is_served(broker: ServingBroker) -> None:
    with broker.client() as client:
        answer = client.ask(19, 7, LONG[19, 7](10_000))
        assert {one.error_code for one in answer.topics} == {0}
        configs = [{"name": "retention.ms", "value": "5", "config_operation": 0}]
        resources = [{"resource_type": 2, "resource_name": f"n{one}", "configs": configs} for one in range(10_000)]
        changed = client.ask(44, 1, {"resources": resources, "validate_only": True})
        assert {one.error_code for one in changed.responses} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_member_that_offers_more_protocols_than_are_looked_at_is_refused(broker: ServingBroker) -> None:
    def join(number: int) -> int:
        protocols = [{"name": f"p{one}", "metadata": b""} for one in range(number)]
        message = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": protocols,
        }
        with broker.client() as client:
            return int(client.ask(11, 7, message).error_code)

    assert join(MOST_OFFERS) == ErrorCode.MEMBER_ID_REQUIRED
    assert join(MOST_OFFERS + 1) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
