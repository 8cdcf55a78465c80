"""kill -9 of a real broker under load, and what must hold after its restart."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from headrace.wire.batch.record_batch import crc_matches, iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient, batch


def all_values(broker: BrokerProcess, topic: str, partition: int = 0) -> list[bytes]:
    """Return everything in a partition, its batches checked."""
    found: list[bytes] = []
    with RawClient(broker.port) as client:
        offset = 0
        while len(records := client.fetch(topic, offset, partition=partition).records or b""):
            assert isinstance(records, memoryview)
            for header, data in iter_batches(records):
                assert crc_matches(data, 0, header.size_bytes)
                assert header.base_offset >= offset
                found += [record.value or b"" for record in iter_records(data)]
                offset = header.next_offset
    return found


def more_than(records: list[bytes], count: int) -> bool:
    return len(records) > count


def test_every_acknowledged_record_is_there_exactly_once_after_kills_under_load(zookeeper_chroot: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, zookeeper_chroot, settings={"log.segment.bytes": 200_000}).start()
    acknowledged: list[bytes] = []
    errors: list[Any] = []
    stop = threading.Event()
    config = {"bootstrap.servers": broker.address, "enable.idempotence": True}
    config |= {"linger.ms": 2, "reconnect.backoff.max.ms": 200, "delivery.timeout.ms": 60_000, "log_level": 0}
    producer = confluent_kafka.Producer(config)

    def delivered(error: object, message: Any) -> None:
        errors.append(error) if error else acknowledged.append(message.value())

    def send() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                producer.produce("load", b"%08d" % number + b"x" * 100, partition=0, on_delivery=delivered)
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
            if number % 200 == 0:
                time.sleep(0.001)

    thread = threading.Thread(target=send)
    try:
        thread.start()
        for _ in range(3):
            enough = len(acknowledged) + 2_000
            eventually(partial(more_than, acknowledged, enough), what="records acknowledged under load")
            broker.kill()
            broker.restart()
        stop.set()
        thread.join()
        assert producer.flush(60) == 0
        assert errors == []
        found = all_values(broker, "load")
        assert found == sorted(acknowledged), "in order, each once, none missing"
        assert len(set(found)) == len(found)
    finally:
        stop.set()
        thread.join()
        broker.kill()


def test_idempotent_producers_after_a_kill_get_ids_that_nobody_had(zookeeper_chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        seen: set[int] = set()
        for _ in range(3):
            with RawClient(broker.port) as client:
                ids = [
                    client.ask(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1_000}).producer_id for _ in range(5)
                ]
            assert seen.isdisjoint(ids)
            seen.update(ids)
            for producer_id in ids:
                write_with_sequence_0(broker, producer_id)
            broker.kill()
            broker.restart()
        assert len(all_values(broker, "fresh")) == 15, "nothing was taken for a duplicate"


def write_with_sequence_0(broker: BrokerProcess, producer_id: int) -> None:
    with RawClient(broker.port) as client:
        data = batch(b"%d" % producer_id, producer_id=producer_id, epoch=0, sequence=0)

        def written() -> bool:
            fields = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
            client.ask(3, 9, {"topics": [{"name": "fresh"}], "allow_auto_topic_creation": True, **fields})
            return client.produce("fresh", data).error_code == ErrorCode.NONE

        eventually(written, what="the topic there")


def test_a_retry_of_what_was_acknowledged_before_the_kill_is_known_for_a_duplicate_after_it(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        write_with_sequence_0(broker, 77)
        broker.kill()
        broker.restart()
        write_with_sequence_0(broker, 77)
        assert all_values(broker, "fresh") == [b"77"]


def test_a_clean_stop_answers_sigterm_with_exit_code_0_and_everything_is_there_afterwards(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        write_with_sequence_0(broker, 1)
        assert broker.stop() == 0
        broker.restart()
        assert all_values(broker, "fresh") == [b"1"]


def test_a_client_in_the_middle_of_a_request_sees_the_connection_close_when_the_broker_stops(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker, RawClient(broker.port) as client:
        write_with_sequence_0(broker, 1)
        client.fetch("fresh", 0)
        broker.stop()
        with pytest.raises((Closed, ConnectionError)):
            client.fetch("fresh", 0)
