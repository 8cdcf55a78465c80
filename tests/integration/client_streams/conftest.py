"""Connectors whose streams are read by threads."""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from headrace.client.streams import ConnectorSettings, ConsumerConnector, GroupConnector, KafkaStream, Message
from headrace.client.streams.connector import Connector
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A new topic of four partitions."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 4)
    return name


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


class Readers:
    """A connector and a thread for each of its streams; keeps each stream's messages in order."""

    def __init__(self, connector: Connector, act: Callable[[Message], None] | None) -> None:
        self.connector = connector
        self.streams: list[KafkaStream] = []
        self.messages: list[list[Message]] = []
        self.ended = 0
        self.errors: list[Exception] = []
        self._act = act
        self._threads: list[threading.Thread] = []

    def start(self, counts: Mapping[str, int]) -> "Readers":
        for streams in self.connector.create_message_streams(counts).values():
            self.streams += streams
        self.messages = [[] for _ in self.streams]
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(len(self.streams))]
        for thread in self._threads:
            thread.start()
        return self

    def _run(self, number: int) -> None:
        try:
            for message in self.streams[number]:
                self.messages[number].append(message)
                if self._act is not None:
                    self._act(message)
            self.ended += 1
        except Exception as error:
            self.errors.append(error)

    @property
    def values(self) -> list[bytes]:
        return [message.value or b"" for mine in self.messages for message in mine]

    def owned(self) -> list[list[int]]:
        """Return each stream's partitions."""
        return [sorted(stream.positions) for stream in self.streams]

    def close(self) -> None:
        self.connector.close()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()


MakeReaders = Callable[..., Readers]


@pytest.fixture(params=["zookeeper", "group"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of group."""
    return str(request.param)


@pytest.fixture
def readers(broker: BrokerProcess, zookeeper: str) -> Iterator[MakeReaders]:
    """Make readers of this module's cluster; close the open ones at the end."""
    made: list[Readers] = []

    def make(
        group: str,
        counts: Mapping[str, int],
        *,
        kind: str = "zookeeper",
        act: Callable[[Message], None] | None = None,
        consumer_id: str | None = None,
        **settings: Any,
    ) -> Readers:
        settings.setdefault("session_timeout_ms", 2_000 if kind == "zookeeper" else 6_000)
        chosen = ConnectorSettings(**{"fetch_wait_ms": 100, "recheck_ms": 1_000, **settings})
        connector = (
            ConsumerConnector(broker.address, zookeeper, group, settings=chosen, consumer_id=consumer_id)
            if kind == "zookeeper"
            else GroupConnector(broker.address, group, settings=chosen, consumer_id=consumer_id)
        )
        made.append(Readers(connector, act))
        return made[-1].start(counts)

    yield make
    for one in made:
        one.close()
