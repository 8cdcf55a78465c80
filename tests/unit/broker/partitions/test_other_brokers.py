"""How long a created topic waits for other brokers. Real sockets and brokers in this process."""

import socket
from pathlib import Path
from typing import Any, cast

from headrace.broker.partitions.catalog import BrokerAddress
from headrace.broker.partitions.other_brokers import MOST_WAITING, OtherBrokers, await_topics
from tests.support.serving_broker import ServingBroker
from tests.unit.broker.hand_worker import HandWorker


def at(port: int) -> BrokerAddress:
    return BrokerAddress(broker_id=2, host="127.0.0.1", port=port, endpoints={})


def test_a_broker_that_serves_a_topic_is_not_waited_for_and_one_that_does_not_is_for_a_bounded_time(tmp_path: Path) -> None:
    with ServingBroker(tmp_path, topics={"a": 1}) as other:
        assert await_topics([at(other.port)], {"a"}, 60_000) == set()
        assert await_topics([at(other.port)], {"a", "b"}, 30) == {"b"}


def test_brokers_that_refuse_hang_up_or_stay_silent_end_the_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert await_topics([at(port)], {"a"}, 30) == set()
    assert await_topics([at(port)], {"a"}, 60_000) == set(), "refused"


def test_topics_that_come_meanwhile_are_asked_for_together(tmp_path: Path) -> None:
    worker, ready = HandWorker(), list[str]()
    with ServingBroker(tmp_path, topics={"a": 1, "b": 1, "c": 1}) as other:
        others = OtherBrokers(cast(Any, worker), lambda: [at(other.port)], wait_ms=60_000)
        for name in ("a", "b", "c"):
            others.when_ready(name, lambda name=name: ready.append(name))  # type: ignore[misc]  # mypy finds no type for it
        assert ready == []
        worker.run()
        assert ready == ["a", "b", "c"]


def test_alone_without_a_wait_or_with_no_room_a_topic_is_ready_at_once() -> None:
    worker, ready = HandWorker(), list[str]()
    for others in (
        OtherBrokers(cast(Any, worker), list, wait_ms=1_000),
        OtherBrokers(cast(Any, worker), lambda: [at(1)], wait_ms=0),
    ):
        others.when_ready("a", lambda: ready.append("a"))
    assert len(ready) == 2
    full = OtherBrokers(cast(Any, worker), lambda: [at(1)], wait_ms=1_000)
    full._waiting = {str(number): [] for number in range(MOST_WAITING)}
    full.when_ready("a", lambda: ready.append("a"))
    worker.capacity = 0
    busy = OtherBrokers(cast(Any, worker), lambda: [at(1)], wait_ms=1_000)
    busy.when_ready("a", lambda: ready.append("a"))
    assert len(ready) == 4
