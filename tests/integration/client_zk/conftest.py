"""An independent producer, and consumers that iterate on their own threads."""

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.client import admin
from headrace.client.connection.cluster import Cluster
from headrace.client.consumer.stream_message import Message
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from tests.support.broker import BrokerProcess


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A new topic of four partitions."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 4)
    return name


def create(bootstrap: str, topic: str, partitions: int) -> None:
    cluster = Cluster(bootstrap)
    try:
        admin.create_topic(cluster, topic, partitions)
    finally:
        cluster.close()


def produce(bootstrap: str, topic: str, values: list[bytes], *, partitions: int = 4, batch: int = 20) -> None:
    """Write with librdkafka, value n to partition n modulo `partitions`, `batch` values a batch; all acknowledged on return.

    The linger is long, so that a pause of this thread does not split a batch; `flush` does not wait for it.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": batch, "linger.ms": 10_000})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % partitions, timestamp=1_000_000 + index)
    assert producer.flush(20) == 0


class Reader:
    """A consumer and the thread that iterates it; keeps the messages in order."""

    def __init__(self, consumer: ZooKeeperConsumer, act: Callable[[Message], None] | None = None) -> None:
        self.consumer = consumer
        self.messages: list[Message] = []
        self.error: Exception | None = None
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "Reader":
        self.consumer.start()
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            for message in self.consumer.stream():
                self.messages.append(message)
                if self._act is not None:
                    self._act(message)
        except Exception as error:
            self.error = error

    @property
    def values(self) -> list[bytes | None]:
        return [message.value for message in self.messages]

    def close(self) -> None:
        self.consumer.close()
        if self._thread.ident is None:
            return
        self._thread.join(20)
        assert not self._thread.is_alive()


MakeReader = Callable[..., Reader]


@pytest.fixture
def reader(broker: BrokerProcess, zookeeper: str) -> Iterator[MakeReader]:
    """Make readers of this module's cluster; close the open ones at the end."""
    made: list[Reader] = []

    def make(
        group: str,
        topic: str,
        *,
        act: Callable[[Message], None] | None = None,
        bootstrap: str = broker.address,
        hosts: str = zookeeper,
        **options: Any,
    ) -> Reader:
        options.setdefault("session_timeout_ms", 2_000)
        options.setdefault("fetch_wait_ms", 100)
        consumer = ZooKeeperConsumer(bootstrap, hosts, group, [topic], **options)
        made.append(Reader(consumer, act))
        return made[-1]

    yield make
    for one in made:
        one.close()
