"""Two Apache Kafkas that the whole folder shares, and a broker of ours: tests use topics and mirrors of their own names."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """The destination of most tests."""
    node = KafkaProcess(tmp_path_factory.mktemp("kafka"))
    try:
        yield node.start()
    finally:
        node.kill()


@pytest.fixture(scope="session")
def other_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    node = KafkaProcess(tmp_path_factory.mktemp("other-kafka"), {"log.cleaner.min.cleanable.ratio": "0.01"})
    try:
        yield node.start()
    finally:
        node.kill()


@pytest.fixture(scope="session")
def ours(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of ours."""
    broker = BrokerProcess(tmp_path_factory.mktemp("ours"), f"{zookeeper_address}/kafka-{uuid.uuid4().hex[:8]}")
    try:
        yield broker.start()
    finally:
        broker.kill()


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"clicks_{uuid.uuid4().hex[:8]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kafka/" in str(item.path):
            item.add_marker(pytest.mark.needs("kafka"))
