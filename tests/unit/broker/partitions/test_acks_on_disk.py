"""Acknowledgements that wait for the disk: requests behind a waiting one are appended too and share its flush, responses stay in
order, waiting ones are bounded. Real broker; only the disk's flush is delayed.
"""

import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.errors import ErrorCode
from headrace.wire.messages import produce
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, frame, produce_body
from tests.support.serving_broker import ServingBroker


class Disk:
    """An `fdatasync` that waits while the gate is closed, and fails when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.begun = 0
        self.fails = False
        monkeypatch.setattr(os, "fdatasync", self._flush)

    def _flush(self, fd: int) -> None:
        self.begun += 1
        assert self.gate.wait(20)
        if self.fails:
            raise OSError(errno.EIO, "the disk is gone")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(monkeypatch)
    yield disk
    disk.gate.set()


@pytest.fixture
def broker(tmp_path: Path, disk: Disk) -> Iterator[ServingBroker]:
    topics: dict[str, int | tuple[int, dict[str, str]]] = {"safe": (2, {"flush.ack": "always"}), "quick": 1}
    with ServingBroker(tmp_path, topics=topics, settings={"connection.output.max.bytes": 4_000}) as serving:
        yield serving
        disk.gate.set()


def end_of(broker: ServingBroker, topic: str, index: int = 0) -> int:
    return broker.partition(topic, index).log.log_end_offset


def has_grown_to(broker: ServingBroker, offset: int) -> bool:
    return end_of(broker, "safe") == offset


def connection(broker: ServingBroker) -> Any:
    eventually(lambda: broker.server.connection_count == 1, what="the connection accepted")
    (only,) = broker.server._connections.values()
    return only


def no_answer_yet(client: RawClient) -> bool:
    client.socket.setblocking(False)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        client.socket.settimeout(10)
    return False


def answer(client: RawClient) -> tuple[int, produce.ProduceResponsePartition]:
    correlation_id, body = client.receive(0, 9)
    return correlation_id, produce.decode_response(9, body).topics[0].partitions[0]


ONE = batch(b"x" * 100)


def test_requests_that_come_one_by_one_share_a_flush(broker: ServingBroker, disk: Disk) -> None:
    with broker.client() as client:
        client.send(0, 9, produce_body("safe", ONE))
        eventually(lambda: disk.begun == 1, what="the first flush begun")
        for number in range(1, 40):
            client.send(0, 9, produce_body("safe", ONE))
            eventually(partial(has_grown_to, broker, (number + 1) * len(ONE)), what="appended", every_ms=1)
        assert no_answer_yet(client)
        disk.gate.set()
        answers = [answer(client) for _ in range(40)]
        assert [correlation_id for correlation_id, _ in answers] == list(range(1, 41))
        assert [one.base_offset for _, one in answers] == [number * len(ONE) - 1 for number in range(1, 41)]
        assert {one.error_code for _, one in answers} == {0}
        assert disk.begun <= 3


def test_what_needs_no_flush_waits_behind_what_does(broker: ServingBroker, disk: Disk) -> None:
    with broker.client() as client:
        client.send(0, 9, produce_body("safe", ONE))
        client.send(0, 9, produce_body("quick", ONE))
        client.send(0, 9, produce_body("nowhere", ONE))
        eventually(lambda: end_of(broker, "quick") > 0, what="the second request appended")
        assert no_answer_yet(client)
        disk.gate.set()
        assert [(number, one.error_code) for number, one in [answer(client) for _ in range(3)]] == [(1, 0), (2, 0), (3, 3)]


def test_another_api_is_asked_only_after_what_is_before_it(broker: ServingBroker, disk: Disk) -> None:
    with broker.client() as client:
        client.send(0, 9, produce_body("safe", ONE))
        client.send(18, 0, b"")
        eventually(lambda: connection(broker)._frames.is_held, what="the second request held back")
        client.send(0, 9, produce_body("quick", ONE))
        assert no_answer_yet(client)
        assert end_of(broker, "quick") == 0
        disk.gate.set()
        assert answer(client)[0] == 1
        assert client.receive(18, 0)[0] == 2
        assert answer(client)[0] == 3


def test_a_request_for_several_partitions_waits_for_each_that_asks_for_it(broker: ServingBroker, disk: Disk) -> None:
    topics = [
        produce.ProduceTopic("safe", [produce.ProducePartition(index, ONE) for index in (0, 1)]),
        produce.ProduceTopic("quick", [produce.ProducePartition(0, ONE)]),
    ]
    with broker.client() as client:
        client.send(0, 9, produce.encode_request(9, produce.ProduceRequest(1, 1_000, None, topics)))
        eventually(lambda: disk.begun == 2, what="both flushes begun")
        assert no_answer_yet(client)
        disk.gate.set()
        _, body = client.receive(0, 9)
        response = produce.decode_response(9, body)
        assert [one.error_code for topic in response.topics for one in topic.partitions] == [0, 0, 0]


def test_a_repeated_batch_is_acknowledged_only_when_the_first_one_is_on_disk(broker: ServingBroker, disk: Disk) -> None:
    data = batch(b"x", producer_id=7, epoch=0, sequence=0)
    with broker.client() as client, broker.client() as other:
        client.send(0, 9, produce_body("safe", data))
        eventually(lambda: end_of(broker, "safe") == len(data), what="appended")
        other.send(0, 9, produce_body("safe", data))
        eventually(lambda: len(broker.partition("safe")._flush_waiters) == 2, what="both waiting")
        assert no_answer_yet(other)
        disk.gate.set()
        assert answer(client)[1].base_offset == answer(other)[1].base_offset == len(data) - 1


def test_a_failed_flush_is_told_to_all_that_waited_for_it(broker: ServingBroker, disk: Disk) -> None:
    with broker.client() as client:
        disk.fails = True
        one = frame(0, 9, 1, produce_body("safe", ONE))
        client.socket.sendall(one)
        eventually(lambda: end_of(broker, "safe") == len(ONE), what="appended")
        client.socket.sendall(b"".join(frame(0, 9, number, produce_body("safe", ONE)) for number in range(2, 7)))
        eventually(lambda: end_of(broker, "safe") == 6 * len(ONE), what="all appended")
        client.socket.sendall(frame(0, 9, 7, produce_body("quick", ONE)))
        eventually(lambda: end_of(broker, "quick") > 0, what="the last one appended")
        disk.gate.set()
        answers = [answer(client) for _ in range(7)]
        assert [number for number, _ in answers] == list(range(1, 8))
        assert [one.error_code for _, one in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 6 + [0]
        assert "flush failed" in (answers[3][1].error_message or "")
        disk.fails = False


def test_a_run_over_two_partitions_tells_of_the_one_whose_flush_fails(
    broker: ServingBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [produce_body("safe", ONE, partition=number % 2) for number in range(6)]
    with broker.client() as client:
        disk.gate.set()
        for body in bodies[:2]:
            client.send(0, 9, body)
        assert [answer(client)[1].error_code for _ in range(2)] == [0, 0]
        failing = broker.partition("safe", 1)
        when_flushed = type(failing).when_flushed

        def fails_for_one(partition: Any, end_offset: int, done: Any) -> None:
            when_flushed(partition, end_offset, (lambda reason: done("no disk")) if partition is failing else done)

        monkeypatch.setattr(type(failing), "when_flushed", fails_for_one)
        client.socket.sendall(b"".join(frame(0, 9, number, body) for number, body in enumerate(bodies)))
        answers = [answer(client) for _ in range(6)]
        assert [number for number, _ in answers] == list(range(6))
        assert [one.error_code for _, one in answers] == [0, ErrorCode.KAFKA_STORAGE_ERROR] * 3


def test_so_many_answers_may_wait_on_a_connection_and_then_it_is_read_no_more(
    broker: ServingBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.network.frame_runner.MOST_PENDING", 5)
    bodies = [produce_body("safe", ONE, partition=number % 2, version=3 + number % 2) for number in range(30)]
    with broker.client() as client:
        for number, body in enumerate(bodies):
            # Versions alternate, so that no two requests make a run.
            client.socket.sendall(frame(0, 3 + number % 2, number, body))
        eventually(lambda: len(connection(broker)._pending.deferreds) == 5, what="five waiting")
        assert end_of(broker, "safe") + end_of(broker, "safe", 1) == 5 * len(ONE)
        disk.gate.set()
        for number in range(30):
            correlation_id, answered = client.receive(0, 3 + number % 2)
            assert correlation_id == number
            assert produce.decode_response(3 + number % 2, answered).topics[0].partitions[0].error_code == 0


def test_the_bytes_of_answers_that_wait_are_bounded_too(broker: ServingBroker, disk: Disk) -> None:
    total = 3_000
    with broker.client() as client:
        requests = b"".join(frame(0, 9, number, produce_body("safe", ONE)) for number in range(total))
        sender = threading.Thread(target=client.socket.sendall, args=(requests,))
        sender.start()
        eventually(lambda: end_of(broker, "safe") > 0 and not connection(broker)._mask & 1, what="the socket left alone")
        # A run more than the bound, at most: its answers are known when it is appended.
        assert connection(broker)._pending.expected_bytes < 4_000 + 512 * 100
        disk.gate.set()
        assert [answer(client)[0] for _ in range(total)] == list(range(total))
        sender.join(10)


def test_a_peer_that_has_finished_sending_gets_what_waits_for_the_disk(broker: ServingBroker, disk: Disk) -> None:
    with broker.client() as client:
        client.send(0, 9, produce_body("safe", ONE))
        client.send(0, 9, produce_body("safe", ONE))
        client.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: end_of(broker, "safe") == 2 * len(ONE), what="appended")
        disk.gate.set()
        assert [answer(client)[0] for _ in range(2)] == [1, 2]
        assert client.is_closed_by_peer()


def test_a_connection_that_goes_away_while_its_answers_wait_disturbs_nobody(broker: ServingBroker, disk: Disk) -> None:
    with broker.client() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.send(0, 9, produce_body("safe", ONE))
        eventually(lambda: disk.begun == 1, what="the flush begun")
    eventually(lambda: broker.server.connection_count == 0, what="the connection gone")
    disk.gate.set()
    with broker.client() as other:
        assert other.produce("safe", ONE).base_offset == 2 * len(ONE) - 1
