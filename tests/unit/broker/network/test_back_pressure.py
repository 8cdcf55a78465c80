"""Memory that peers can make the broker hold is bounded; each bound is reached here."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.wire.messages import control
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched, frame
from tests.support.serving_broker import ServingBroker

LONG_NAME = "n" * 200
ALL_TOPICS_V1 = b"\xff\xff\xff\xff"


def asks_and_does_not_read(broker: ServingBroker, stack: ExitStack, requests: bytes) -> RawClient:
    """Return a client that has sent `requests` as far as the broker took them and reads nothing."""
    client = stack.enter_context(broker.client())
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
    client.socket.settimeout(0.3)
    try:
        client.socket.sendall(requests)
    except (TimeoutError, ConnectionError):
        pass  # no longer read from, or closed already
    return client


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_unread_answers_together_stay_within_their_bound_and_who_holds_most_is_closed(tmp_path: Path, stack: ExitStack) -> None:
    limits = {"queued.max.response.bytes": 600_000, "connection.output.max.bytes": 400_000}
    topics: dict[str, int | tuple[int, dict[str, str]]] = {f"{LONG_NAME}{number}": 1 for number in range(100)}
    with ServingBroker(tmp_path, topics=topics, settings=limits) as broker:
        requests = frame(3, 1, 1, ALL_TOPICS_V1) * 600  # about 15 MB of answers: more than the system's own buffers take
        clients = [asks_and_does_not_read(broker, stack, requests) for _ in range(4)]
        eventually(lambda: broker.server.rejections.counts.get("unread_answers_too_large", 0) > 0, what="one closed")
        assert broker.server.held_bytes <= 600_000
        assert broker.server.connection_count < len(clients)
        with broker.client() as other:
            assert other.request(3, 1, ALL_TOPICS_V1)


def test_answers_that_are_read_at_last_are_no_longer_counted(tmp_path: Path, stack: ExitStack) -> None:
    topics: dict[str, int | tuple[int, dict[str, str]]] = {f"{LONG_NAME}{number}": 1 for number in range(100)}
    with ServingBroker(tmp_path, topics=topics, settings={"connection.output.max.bytes": 400_000}) as broker:
        client = asks_and_does_not_read(broker, stack, frame(3, 1, 1, ALL_TOPICS_V1) * 600)
        eventually(lambda: broker.server.held_bytes > 0, what="answers held")
        client.socket.settimeout(10)
        client.socket.shutdown(socket.SHUT_WR)
        while client.socket.recv(1 << 20):
            pass
        eventually(lambda: broker.server.held_bytes == 0, what="nothing held")


def test_file_slices_that_are_not_read_count_as_no_memory(tmp_path: Path, stack: ExitStack) -> None:
    with ServingBroker(tmp_path, topics={"t": 1}, settings={"queued.max.response.bytes": 65_536}) as broker:
        with broker.client() as producer:
            for _ in range(8):
                producer.produce("t", batch(b"x" * 900_000))
        asks_and_does_not_read(broker, stack, frame(1, 12, 1, fetch_body([("t", 0, 0)], partition_max_bytes=1 << 23)) * 4)
        eventually(lambda: broker.server.output_bytes > 65_536, what="answers unread")
        assert broker.server.connection_count == 1


def test_fetches_that_wait_at_too_many_partitions_are_answered_at_once(tmp_path: Path) -> None:
    with (
        ServingBroker(tmp_path, topics={"t": 4}, settings={"fetch.parked.partitions.max": 6}) as broker,
        broker.client() as first,
        broker.client() as second,
    ):
        four = fetch_body([("t", index, 0) for index in range(4)], max_wait_ms=100_000)
        first.send(1, 12, four)
        eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the first one parked")
        answers = fetched(12, second.request(1, 12, four))
        assert {len(answer.records or b"") for answer in answers.values()} == {0}
        second.produce("t", batch(b"x"))
        assert len(fetched(12, first.receive(1, 12)[1])["t", 0].records or b"") > 0
        assert broker.context.fetch_request_cache.parked_partitions == 0
        first.send(1, 12, fetch_body([("t", 1, 0)], max_wait_ms=100_000))
        eventually(lambda: broker.context.metrics.parked_fetches == 1, what="there is room again")


def test_many_parked_fetches_are_all_answered_by_one_append_and_leave_nothing_behind(tmp_path: Path, stack: ExitStack) -> None:
    with ServingBroker(tmp_path, topics={"t": 1}) as broker:
        clients = [stack.enter_context(broker.client()) for _ in range(300)]
        for client in clients:
            client.send(1, 12, fetch_body([("t", 0, 0)], max_wait_ms=200_000))
        eventually(lambda: broker.context.metrics.parked_fetches == 300, what="all parked")
        for gone in clients[:100]:
            gone.close()
        with broker.client() as producer:
            producer.produce("t", batch(b"x"))
        for client in clients[100:]:
            assert len(fetched(12, client.receive(1, 12)[1])["t", 0].records or b"") > 0
        eventually(lambda: broker.context.metrics.parked_fetches == 0, what="none parked")
        assert broker.context.fetch_request_cache.parked_partitions == 0
        assert not broker.partition("t")._waiters


def test_requests_remembered_by_their_bytes_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.handlers.fetch_request_cache.MOST_KNOWN", 8)
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        for number in range(50):
            assert client.fetch("t", 0, max_bytes=1_000 + number).error_code == 0
            assert len(broker.context.fetch_request_cache) <= 8


def test_half_a_frame_costs_what_was_sent_not_what_was_claimed(tmp_path: Path, stack: ExitStack) -> None:
    with ServingBroker(tmp_path) as broker:
        for _ in range(200):
            stack.enter_context(broker.client()).socket.sendall(struct.pack(">ihhih", 90 << 20, 0, 9, 1, -1))
        eventually(lambda: broker.server.connection_count == 200, what="all there")
        eventually(lambda: broker.server.input_bytes > 0, what="something arrived")
        assert broker.server.input_bytes <= 200 * 8_192
        with broker.client() as other:
            assert other.ask(18, 3, {"client_software_name": "t", "client_software_version": "1"}).error_code == 0


def test_a_topic_named_a_hundred_thousand_times_is_answered_or_refused_and_others_are_served_on(tmp_path: Path) -> None:
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client, broker.client() as other:
        names = struct.pack(">i", 100_000) + b"\x00\x01t" * 100_000
        client.send(3, 4, names + b"\x00")
        answer = client.socket.recv(4)
        assert answer == b"" or struct.unpack(">i", answer)[0] < 16 << 20
        twice = control.encode_request(2, 1, {"replica_id": -1, "topics": [_latest("t")] * 2})
        assert len(control.decode_response(2, 1, other.request(2, 1, twice)).topics) == 2
        again = fetched(12, other.request(1, 12, fetch_body([("t", 0, 0), ("t", 0, 0)])))
        assert again["t", 0].error_code == 0


def _latest(topic: str) -> dict[str, object]:
    return {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
