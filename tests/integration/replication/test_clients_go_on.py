"""Clients go on through a change of leader: nothing lost, doubled or out of order, no offset reset."""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Protocol

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer as OwnProducer
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually

BEFORE, AFTER = 300, 300
"""Values that are certainly sent before the leader is killed, and after another one leads."""


class Sender(Protocol):
    """One kind of producer: idempotent, acks=all."""

    def send(self, value: bytes) -> None: ...

    def finish(self) -> None:
        """Return when everything is acknowledged. Raises, if something was refused."""
        ...


class Reader(Protocol):
    """One kind of consumer. It begins at the log's start, and an offset that it may not read is an error."""

    def poll(self) -> list[bytes]: ...

    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self._errors: list[str] = []
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "acks": "all", "linger.ms": 1}
        self._producer = Producer(settings)

    def send(self, value: bytes) -> None:
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._errors.append(str(error))

    def finish(self) -> None:
        assert self._producer.flush(60) == 0
        assert self._errors == []


class KafkaPython:
    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self._producer = KafkaProducer(
            bootstrap_servers=address.split(","), enable_idempotence=True, acks="all", linger_ms=1, retry_backoff_ms=100
        )
        self._futures: list[object] = []

    def send(self, value: bytes) -> None:
        self._futures.append(self._producer.send(self._topic, value, partition=0))

    def finish(self) -> None:
        for future in self._futures:
            future.get(timeout=60)  # type: ignore[attr-defined]
        self._producer.close()


class Own:
    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self._cluster = Cluster(address, client_id="test", request_timeout_ms=5_000)
        self._producer = OwnProducer(self._cluster)

    def send(self, value: bytes) -> None:
        self._producer.send(self._topic, value, partition=0, timestamp_ms=1)

    def finish(self) -> None:
        self._producer.close()
        self._cluster.close()


class LibrdkafkaReader:
    def __init__(self, address: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": f"g-{topic}", "auto.offset.reset": "error", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def poll(self) -> list[bytes]:
        found = []
        for message in self._consumer.consume(500, timeout=0.2):
            error = message.error()
            if error is not None:
                if error.retriable() or error.name() in ("_ALL_BROKERS_DOWN", "_TRANSPORT"):
                    continue
                raise KafkaException(error)
            found.append(message.value())
        return found

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonReader:
    def __init__(self, address: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=address.split(","), auto_offset_reset="none", enable_auto_commit=False, group_id=None
        )
        partition = PythonPartition(topic, 0)
        self._consumer.assign([partition])
        self._consumer.seek(partition, 0)

    def poll(self) -> list[bytes]:
        return [one.value for records in self._consumer.poll(timeout_ms=200).values() for one in records]

    def close(self) -> None:
        self._consumer.close()


SENDERS: dict[str, Callable[[str, str], Sender]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "own": Own}
READERS: dict[str, Callable[[str, str], Reader]] = {"librdkafka": LibrdkafkaReader, "kafka-python": KafkaPythonReader}


@pytest.mark.parametrize(
    ("sender", "reader"), [("librdkafka", "kafka-python"), ("kafka-python", "librdkafka"), ("own", "librdkafka")]
)
def test_a_killed_leader_costs_its_clients_nothing(whole: BrokerCluster, sender: str, reader: str) -> None:
    topic = f"t_{uuid.uuid4().hex[:8]}"
    whole.create(topic)
    sending, reading = SENDERS[sender](whole.address, topic), READERS[reader](whole.address, topic)
    sent, is_over = 0, threading.Event()

    def send() -> None:
        nonlocal sent
        while not is_over.is_set():
            sending.send(b"%d" % sent)
            sent += 1
            time.sleep(0.001)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    read: list[bytes] = []
    try:
        eventually(lambda: sent >= BEFORE and (read.extend(reading.poll()) or len(read) > 0), what="values before the kill")
        whole.kill_leader(topic)
        already = sent
        eventually(lambda: sent >= already + AFTER, what="values after the kill")
        is_over.set()
        thread.join(30)
        sending.finish()
        eventually(lambda: read.extend(reading.poll()) or len(read) >= sent, within_ms=60_000, what=f"{sent} values")
        read.extend(reading.poll())
    finally:
        is_over.set()
        reading.close()
    assert read == [b"%d" % number for number in range(sent)]
