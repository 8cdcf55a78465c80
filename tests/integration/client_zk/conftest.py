"""Consumers that iterate on their own threads."""

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.client.consumer.stream_message import Message
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A new topic of four partitions."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 4)
    return name


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
