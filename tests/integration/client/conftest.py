"""A real broker for the module's tests, and a view of its cluster."""

import uuid
from collections.abc import Iterator

import pytest

from headrace.client.cluster import Cluster
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def real_broker(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), f"{zookeeper_address}/client-{uuid.uuid4().hex[:8]}") as broker:
        yield broker


@pytest.fixture
def cluster(real_broker: BrokerProcess) -> Iterator[Cluster]:
    made = Cluster(real_broker.address, request_timeout_ms=10_000)
    yield made
    made.close()
