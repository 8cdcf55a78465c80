"""A real broker and a real registry, once for the room's tests."""

import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headrace.client.cluster import Cluster
from tests.integration.client.real_broker import RealBroker
from tests.support.processes import Process, accepts, eventually, free_port


@dataclass(frozen=True)
class Platform:
    broker: RealBroker
    registry_url: str

    @property
    def bootstrap(self) -> str:
        return self.broker.address


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("platform")
    broker = RealBroker(folder, f"{zookeeper_address}/sdk-{uuid.uuid4().hex[:8]}")
    port = free_port()
    command = [sys.executable, "-m", "headrace.cli.main", "registry", "run", "--port", str(port), "--bootstrap", broker.address]
    registry = Process(command, folder / "registry.log")
    try:
        broker.start().await_ready()
        registry.start()
        eventually(lambda: accepts(port), what="the registry listens")
        yield Platform(broker, f"http://127.0.0.1:{port}")
    finally:
        registry.stop()
        broker.stop()


@pytest.fixture
def cluster(platform: Platform) -> Iterator[Cluster]:
    made = Cluster(platform.bootstrap)
    yield made
    made.close()
