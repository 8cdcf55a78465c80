"""Three brokers for a module of tests. A test that kills one starts it again."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import BrokerCluster


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, zookeeper: str) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path_factory.mktemp("three"), zookeeper) as running:
        yield running


@pytest.fixture
def whole(three: BrokerCluster) -> Iterator[BrokerCluster]:
    """All three run, before and after the test."""
    yield three
    for broker in three.brokers.values():
        if not broker.process.is_running():
            broker.restart()
