"""A thousand topics and more: created and deleted by one request, listed, subscribed to by a pattern. Real clients and
servers.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch

NUMBERED = [f"t{number}" for number in range(1, 1_501)]
PATIENCE = {"operation_timeout": 60, "request_timeout": 90}


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


@pytest.fixture(scope="module")
def numbered(admin: AdminClient) -> list[str]:
    """Fifteen hundred topics with the shortest names and one partition each, created by one request."""
    finish(admin.create_topics([NewTopic(name, 1, 1) for name in NUMBERED], **PATIENCE))
    return NUMBERED


def finish(futures: Mapping[str, "Future[Any]"]) -> None:
    """Wait for all; raise the first error."""
    for future in futures.values():
        future.result(120)


class Bystander:
    """A client that sends one small request after another, and counts the responses."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answered = 0
        self.errors: list[int] = []

    def _run(self) -> None:
        with RawClient(self._broker.port, timeout_ms=60_000) as client:
            while not self._stop.is_set():
                error = client.produce(self._topic, batch(b"x")).error_code
                self.answered += 1
                if error:
                    self.errors.append(error)

    def __enter__(self) -> "Bystander":
        self._thread.start()
        eventually(lambda: self.answered, what="the other client is answered")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_a_thousand_topics_are_made_and_deleted_by_one_request_each_and_others_are_answered_in_between(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    names = [f"{topic}-{number}" for number in range(1_000)]
    finish(admin.create_topics([NewTopic(topic, 1, 1)]))

    def beside(futures: Callable[[], Mapping[str, "Future[Any]"]]) -> int:
        """Return how many responses another client received meanwhile."""
        before = other.answered
        finish(futures())
        return other.answered - before

    with Bystander(broker, topic) as other:
        assert beside(lambda: admin.create_topics([NewTopic(name, 1, 1) for name in names], **PATIENCE)) > 20
        assert set(names) <= set(admin.list_topics(timeout=20).topics)
        assert beside(lambda: admin.delete_topics(names, **PATIENCE)) > 20
        assert not set(names) & set(admin.list_topics(timeout=20).topics)
    assert other.errors == []
    eventually(lambda: not list(broker.data.glob(f"{topic}-*-0*")), what="their folders are gone, whatever they were called")


def test_librdkafka_lists_all_topics_however_short_their_names(broker: BrokerProcess, numbered: list[str]) -> None:
    """Its buffer is four times the response's size: too small for version 9, where a topic has no id."""
    listed = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=20).topics
    assert {name for name in listed if re.fullmatch(r"t\d+", name)} == set(numbered)
    assert {len(listed[name].partitions) for name in numbered} == {1}


def test_librdkafka_is_told_of_many_short_names_that_are_no_topics(broker: BrokerProcess, numbered: list[str]) -> None:
    nobodys = [TopicPartition(f"n{number}") for number in range(300)]
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "nobodys", "auto.offset.reset": "earliest"})
    consumer.subscribe([one.topic for one in nobodys])
    told: set[str] = set()

    def all_told() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            told.add(str(message.topic()))
        return len(told) == len(nobodys)

    eventually(all_told, every_ms=0, what="each unknown topic told")
    consumer.close()


@pytest.fixture
def subscriber(broker: BrokerProcess, numbered: list[str], topic: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe(["^t[0-9]+$"])
    yield consumer
    consumer.close()


def test_a_subscription_by_pattern_gets_all_topics_and_reads_them(
    broker: BrokerProcess, numbered: list[str], subscriber: Consumer
) -> None:
    written = {name: f"of {name}" for name in numbered[::150]}
    producer = Producer({"bootstrap.servers": broker.address})
    for name, value in written.items():
        producer.produce(name, value)
    assert producer.flush(30) == 0
    read: dict[str, str] = {}

    def all_read() -> bool:
        message = subscriber.poll(0.1)
        if message is not None and message.error() is None:
            read[str(message.topic())] = (message.value() or b"").decode()
        return read == written

    eventually(all_read, within_ms=60_000, every_ms=0, what="all that was written is read")
    assert {one.topic for one in subscriber.assignment()} == set(numbered)


def test_kafka_python_lists_them_too(broker: BrokerProcess, numbered: list[str]) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    assert set(numbered) <= consumer.topics()
    consumer.close()
