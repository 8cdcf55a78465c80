"""This suite's own idle server: ours, or Apache Kafka if `CLIENTS_AGAINST=kafka` is set, to compare."""

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from bench.peers.kafka import Kafka
from tests.clients.answers.side import Side
from tests.support.broker import BrokerProcess
from tests.support.processes import free_port
from tests.support.scraping import Scrape

from .asked import Reader
from .programs import begun
from .topics import KEPT, SMALL_SEGMENTS, Topic, filled

IS_OURS = os.environ.get("CLIENTS_AGAINST") != "kafka"


class Server:
    """The server with the topics, and its metrics of fetches."""

    def __init__(self, port: int, http_port: int | None) -> None:
        self.side = Side("server", port)
        self.address = f"127.0.0.1:{port}"
        self._http_port = http_port
        self._topics: dict[str, Topic] = {}

    def topic(self, which: str) -> Topic:
        """Return a filled topic, the same one each time."""
        if which not in self._topics:
            self._topics[which] = self.new(which)
        return self._topics[which]

    def new(self, which: str) -> Topic:
        config = KEPT | (SMALL_SEGMENTS.get(which, {}) if IS_OURS else {})
        return filled(self.side, f"{which}-{uuid.uuid4().hex[:8]}", which, config)

    def fetched(self, topic: Topic) -> tuple[int, int]:
        """Return how many fetches were answered so far, and how many bytes of the topic were sent; for Apache Kafka 0, 0."""
        if self._http_port is None:
            return 0, 0
        page = Scrape(self._http_port)
        bytes_out = sum(page.all("bytes_out_total", topic=topic.name))
        return int(sum(page.all("requests_total", api="Fetch"))), int(bytes_out)


@pytest.fixture(scope="module")
def server(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not IS_OURS:
        kafka = Kafka(tmp_path_factory.mktemp("kafka"), settings={"group.initial.rebalance.delay.ms": "0"})
        kafka.start()
        try:
            yield Server(kafka.port, None)
        finally:
            kafka.stop()
        return
    http_port = free_port()
    settings = {"num.partitions": 1, "http.port": http_port, "group.initial.rebalance.delay.ms": 0}
    chroot = f"{zookeeper_address}/positions-{uuid.uuid4().hex[:8]}"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), chroot, settings=settings) as running:
        yield Server(running.port, http_port)


@pytest.fixture(scope="module")
def reader_of(
    server: Server, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Reader]]:
    """Starts a reader by its name, once."""
    readers: dict[str, Reader] = {}

    def reader(name: str) -> Reader:
        if name not in readers:
            log = tmp_path_factory.mktemp("reader") / f"{name}.log"
            readers[name] = begun(name, server.address, request.getfixturevalue, log)
        return readers[name]

    yield reader
    for one in readers.values():
        one.stop()
