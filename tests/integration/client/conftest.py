"""A real broker for the module's tests, and a view of its cluster."""

import uuid
from collections.abc import Iterator

import pytest

from headrace.client.cluster import Cluster
from tests.integration.client.real_broker import RealBroker


@pytest.fixture(scope="module")
def real_broker(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[RealBroker]:
    folder = tmp_path_factory.mktemp("broker")
    broker = RealBroker(folder, f"{zookeeper_address}/client-{uuid.uuid4().hex[:8]}")
    try:
        yield broker.start().await_ready()
    finally:
        broker.stop()


@pytest.fixture
def cluster(real_broker: RealBroker) -> Iterator[Cluster]:
    made = Cluster(real_broker.address, request_timeout_ms=10_000)
    yield made
    made.close()
