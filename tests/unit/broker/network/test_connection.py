"""Manners on a connection: frames of every wrong kind, pipelining, slow readers, limits. Others are served on throughout."""

import random
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.event_loop.loop import monotonic_ms
from headrace.broker.handlers.api_table import SUPPORTED
from headrace.wire.messages import control, produce
from tests.support.certificates import Authority
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, frame, produce_body
from tests.support.serving_broker import ServingBroker
from tests.support.tls_broker import TlsBroker

METADATA = control.encode_request(3, 1, {"topics": []})
ALL_TOPICS_V1 = b"\xff\xff\xff\xff"


Serve = Callable[..., ServingBroker]


@pytest.fixture(scope="module", params=["PLAINTEXT", "SSL"])
def serve(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """What makes a broker: the manners are the same with and without TLS."""
    if request.param == "PLAINTEXT":
        return ServingBroker
    return partial(TlsBroker, authority=Authority(tmp_path_factory.mktemp("authority")))


@pytest.fixture(scope="module")
def broker(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingBroker]:
    with serve(tmp_path_factory.mktemp("broker"), topics={"clicks": 1, "big": 1}) as serving:
        yield serving


def serves(broker: ServingBroker) -> bool:
    with broker.client() as client:
        answer = client.ask(18, 3, {"client_software_name": "t", "client_software_version": "1"})
        return bool(answer.error_code == 0)


def test_a_frame_may_arrive_byte_by_byte(broker: ServingBroker) -> None:
    with broker.client() as client:
        for byte in frame(3, 1, 7, ALL_TOPICS_V1):
            client.socket.sendall(bytes([byte]))
        assert client.receive(3, 1)[0] == 7


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_requests_cut_anywhere_are_answered_in_order(broker: ServingBroker, seed: int) -> None:
    chance = random.Random(seed)
    stream, expected = bytearray(), []
    for number in range(60):
        api_key, version, body = chance.choice(
            [
                (3, 1, ALL_TOPICS_V1),
                (1, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=chance.choice([0, 3]))),
                (0, 9, produce_body("big", batch(b"x" * chance.choice([1, 100, 60_000])))),
            ]
        )
        stream += frame(api_key, version, number, body)
        expected.append((api_key, version, number))
    with broker.client() as client:
        client.socket.settimeout(20)
        at = 0
        while at < len(stream):
            piece = chance.choice([1, 13, 500, 70_000, 400_000])
            client.socket.sendall(stream[at : at + piece])
            at += piece
        for api_key, version, number in expected:
            assert client.receive(api_key, version)[0] == number


def test_a_frame_as_large_as_allowed_is_taken_and_one_byte_more_is_not(serve: Serve, tmp_path: Path) -> None:
    body = produce_body("t", batch(b"x" * 1_000_000))
    whole = frame(0, 9, 1, body)
    limit = {"socket.request.max.bytes": len(whole) - 4, "message.max.bytes": 2_000_000}
    with serve(tmp_path / "a", topics={"t": 1}, settings=limit) as broker, broker.client() as client:
        client.socket.sendall(whole)
        answer = produce.decode_response(9, client.receive(0, 9)[1])
        assert answer.topics[0].partitions[0].error_code == 0
    limit["socket.request.max.bytes"] -= 1
    with serve(tmp_path / "b", topics={"t": 1}, settings=limit) as broker, broker.client() as client:
        client.socket.sendall(whole[:100])
        assert client.is_closed_by_peer()
        assert serves(broker)


WRONG_FRAMES = {
    "length 0": struct.pack(">i", 0) + b"\0" * 20,
    "length 9": struct.pack(">i", 9) + b"\0" * 20,
    "negative length": struct.pack(">i", -1) + b"\0" * 20,
    "most negative length": struct.pack(">i", -(2**31)),
    "2 GiB": struct.pack(">i", 2**31 - 1) + b"\0" * 20,
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("160301020001000001fc0303") + b"\x01" * 600,
    "unknown API": frame(999, 0, 1, b""),
    "negative API": frame(-1, 0, 1, b""),
    "an API whose answers have no error of their own": frame(28, 0, 1, b"\0" * 40),
    "Metadata version too high": frame(3, 14, 1, b"\0" * 40),
    "negative version": frame(1, -1, 1, b""),
    "client id beyond the frame": struct.pack(">ihhih", 14, 3, 1, 1, 500) + b"\0" * 4,
    "client id of the whole int16": struct.pack(">ihhih", 10, 3, 1, 1, 32_767),
    "flexible header without tags": struct.pack(">ihhih", 10, 3, 9, 1, -1),
    "tags of the header cut": struct.pack(">ihhih", 12, 3, 9, 1, -1) + b"\x01\x05",
    "tags beyond the frame": struct.pack(">ihhih", 16, 3, 9, 1, -1) + b"\x01\x05\xff\xff\xff\x7f",
    "huge topic array": frame(3, 1, 1, struct.pack(">i", 2**31 - 1)),
    "huge compact array": frame(3, 9, 1, b"\xff\xff\xff\xff\x0f\0\0\0\0"),
    "huge fetch array": frame(1, 4, 1, struct.pack(">iiiib", -1, 0, 0, 0, 0) + struct.pack(">i", 2**31 - 1)),
    "huge produce array": frame(0, 3, 1, struct.pack(">hhi", -1, 1, 1) + struct.pack(">i", 2**31 - 1)),
    "negative records length": frame(0, 3, 1, struct.pack(">hhii", -1, 1, 1, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, -7)),
    "topic name that is not text": frame(3, 1, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
    "empty body": frame(1, 4, 1, b""),
    "a control frame of 5 MiB": struct.pack(">ihhih", 5 << 20, 3, 1, 1, -1),
}


@pytest.mark.parametrize("what", WRONG_FRAMES)
def test_a_wrong_frame_closes_its_connection_and_no_other(
    broker: ServingBroker, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.client() as bystander, broker.client() as client:
        client.socket.sendall(WRONG_FRAMES[what])
        assert client.is_closed_by_peer()
        assert bystander.request(3, 1, ALL_TOPICS_V1)
    assert serves(broker)
    assert not [record for record in caplog.records if record.exc_info], "a fault of ours is not an answer"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(api_key=st.sampled_from(sorted(SUPPORTED)), version=st.integers(0, 9), body=st.binary(max_size=80))
def test_whatever_stands_in_a_body_the_broker_answers_or_closes_and_serves_on(
    broker: ServingBroker, api_key: int, version: int, body: bytes
) -> None:
    with broker.client() as client:
        client.socket.sendall(frame(api_key, version, 1, body) + frame(18, 0, 2, b""))
        client.socket.shutdown(socket.SHUT_WR)
        while client.socket.recv(1 << 16):  # over TLS these are encrypted bytes: Python cannot close one side of it
            pass
    assert serves(broker)


def test_api_versions_of_an_unknown_version_is_answered_as_v0_with_error_35_and_the_ranges(broker: ServingBroker) -> None:
    with broker.client() as client:
        answer = bytes(client.request(18, 4, b"\x02a\x02b\x00"))
        error, ranges = control.decode_api_versions(0, answer)
        assert (error, ranges[18]) == (35, (0, 3))
        assert client.request(18, 0, b"")


def test_api_versions_names_the_ranges_that_keep_old_librdkafkas_compression_on(broker: ServingBroker) -> None:
    with broker.client() as client:
        _, ranges = control.decode_api_versions(0, client.request(18, 0, b""))
    gates = ((0, 0), (0, 3), (0, 7), (1, 4), (1, 10), (10, 0), (9, 1), (2, 1), (8, 1), (11, 0), (12, 0), (13, 0), (14, 0))
    for api_key, version in gates:
        assert ranges[api_key][0] <= version <= ranges[api_key][1], (api_key, version)
    assert not ranges.keys() & {24, 25, 26, 28, 68, 71, 75}


# -- limits ----------------------------------------


def test_connections_beyond_the_limit_are_turned_away(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, settings={"max.connections": 3}) as broker:
        clients = [broker.client() for _ in range(3)]
        for client in clients:
            assert client.request(3, 1, ALL_TOPICS_V1)
        with RawClient(broker.port) as fourth:
            assert fourth.is_closed_by_peer()
        clients.pop().close()
        eventually(lambda: broker.server.connection_count == 2, what="one connection gone")
        assert serves(broker)
        for client in clients:
            client.close()


def test_idle_connections_are_closed(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, settings={"connections.max.idle.ms": 100}) as broker, broker.client() as client:
        assert client.is_closed_by_peer()


def test_a_request_that_arrives_too_slowly_is_cut_off_and_its_memory_freed(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path, settings={"request.read.timeout.ms": 100}) as broker, broker.client() as client:
        client.socket.sendall(frame(3, 1, 1, ALL_TOPICS_V1)[:9])
        assert client.is_closed_by_peer()
        eventually(lambda: broker.server.input_bytes == 0, what="memory freed")


@pytest.mark.parametrize("value_bytes", [100, 40_000, 400_000])
def test_each_request_has_its_own_time_to_arrive_though_every_read_ends_in_the_middle_of_one(
    serve: Serve, tmp_path: Path, value_bytes: int
) -> None:
    # Reads as from a peer that sends without a pause. Before, its connection was closed after a minute as too slow.
    whole = frame(0, 9, 1, produce_body("t", batch(b"x" * value_bytes)))
    half = len(whole) // 2
    with serve(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        client.socket.sendall(whole[:half])
        connection = eventually(lambda: next(iter(broker.server._connections.values()), None), what="accepted")
        for _ in range(3):
            eventually(lambda: connection.unfinished_bytes == half, every_ms=1, what="half a request")
            since_ms = connection.unfinished_since_ms
            assert since_ms is not None
            eventually(lambda at_ms=since_ms: monotonic_ms() > at_ms + 1, every_ms=1, what="the clock to move")
            client.socket.sendall(whole[half:] + whole[:half])
            assert client.receive(0, 9)[0] == 1
            eventually(lambda: connection.unfinished_bytes == half, every_ms=1, what="half of the next")
            assert connection.unfinished_since_ms is not None
            assert connection.unfinished_since_ms > since_ms


def test_a_peer_with_thousands_of_dear_requests_in_one_read_does_not_keep_the_loop_from_others(
    serve: Serve, tmp_path: Path
) -> None:
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    everything = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    asked = frame(32, 4, 1, control.encode_request(32, 4, everything))
    count = 1_000
    settings = {"connection.output.max.bytes": 1 << 30, "queued.max.response.bytes": 1 << 31}
    with serve(tmp_path, settings=settings) as broker, broker.client() as greedy, broker.client() as modest:
        assert serves(broker)
        held, sent = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            assert sent.wait(10)

        broker.loop.post(hold)
        assert held.wait(10)
        greedy.socket.sendall(asked * count)
        modest.send(3, 1, ALL_TOPICS_V1)
        sent.set()
        modest.receive(3, 1)
        assert broker.context.metrics.api(32).latency.count < count
        greedy.socket.settimeout(30)
        for _ in range(count):
            assert len(greedy.receive(32, 4)[1]) > 5_000


def test_unfinished_requests_together_stay_within_their_bound(serve: Serve, tmp_path: Path) -> None:
    limit = {"queued.max.request.bytes": 1 << 20, "message.max.bytes": 10_000_000}
    with serve(tmp_path, topics={"t": 1}, settings=limit) as broker:
        whole = frame(0, 9, 1, produce_body("t", batch(b"x" * 400_000)))
        clients = [broker.client() for _ in range(6)]
        for client in clients:
            client.socket.sendall(whole[:300_000])
        closed = eventually(lambda: [client for client in clients if has_ended(client)], what="some turned away")
        assert broker.server.input_bytes <= 2 << 20
        last = clients[-1]
        assert last not in closed, "the one that waits longest goes first"
        last.socket.sendall(whole[300_000:])
        assert produce.decode_response(9, last.receive(0, 9)[1]).topics[0].partitions[0].error_code == 0
        for client in clients:
            client.close()


def has_ended(client: RawClient) -> bool:
    client.socket.setblocking(False)
    try:
        return client.socket.recv(1) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except ConnectionError:
        return True
    finally:
        client.socket.settimeout(10)


def test_a_client_that_does_not_read_its_answers_is_no_longer_read_from_and_costs_a_bounded_amount(
    serve: Serve, tmp_path: Path
) -> None:
    limit = {"connection.output.max.bytes": 100_000}
    with serve(tmp_path, topics={"t": 1}, settings=limit) as broker, broker.client() as client:
        for _ in range(3):
            client.produce("t", batch(b"x" * 1_000_000))
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        client.socket.settimeout(1)
        long_request = frame(1, 12, 1, fetch_body([("t", 0, 0)]), client_id="x" * 30_000)
        stream, sent = long_request * 1_000, 0
        try:
            while True:
                sent += client.socket.send(stream[sent : sent + 100_000])
        except TimeoutError:
            pass  # no longer read from
        connection = next(one for one in broker.server._connections.values() if one._send_queue)
        assert connection._send_queue.waiting_bytes < 100_000 + 1_100_000
        assert broker.server.input_bytes <= 1 << 20
        assert serves(broker)
        client.socket.settimeout(20)
        for _ in range(sent // len(long_request)):
            assert len(client.receive(1, 12)[1]) > 1_000_000


NULLS = {
    "ListOffsets topics": (2, 1, b"\xff\xff\xff\xff" * 2),
    "OffsetCommit topics": (8, 8, b"\x02g\xff\xff\xff\xff\x01\x00\x00\x00"),
    "OffsetFetch groups": (9, 8, b"\x00\x00\x00"),
    "FindCoordinator keys": (10, 4, b"\x00\x00\x00"),
    "CreateTopics topics": (19, 7, b"\x00\x00\x00\x00\x00\x00\x00"),
    "DeleteTopics names": (20, 5, b"\x00\x00\x00\x00\x00\x00"),
    "DescribeConfigs resources": (32, 4, b"\x00\x00\x00\x00"),
}


@pytest.mark.parametrize("what", NULLS)
def test_a_null_where_an_array_must_stand_is_refused_as_a_wrong_frame(
    broker: ServingBroker, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    api_key, version, body = NULLS[what]
    with broker.client() as client:
        client.socket.sendall(frame(api_key, version, 1, body))
        assert client.is_closed_by_peer()
    assert serves(broker)
    assert not [record for record in caplog.records if record.exc_info]


def test_a_partition_named_twice_in_one_list_offsets_is_refused_as_in_kafka(broker: ServingBroker) -> None:
    # A frame of 800 KB could name one partition 50,000 times, and each time a batch of it would be opened.
    latest = {"current_leader_epoch": -1, "timestamp": -1}
    partitions = [{"partition_index": index, **latest} for index in (0, 0, 1)]
    with broker.client() as client:
        answer = client.ask(2, 7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "big", "partitions": partitions}]})
    assert [int(one.error_code) for one in answer.topics[0].partitions] == [42, 42, 3]
