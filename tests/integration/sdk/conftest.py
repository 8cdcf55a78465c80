"""A real broker and a real registry, once for the room's tests."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headrace.client.cluster import Cluster
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess


@dataclass(frozen=True)
class Platform:
    broker: BrokerProcess
    registry_url: str

    @property
    def bootstrap(self) -> str:
        return self.broker.address


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("platform")
    with (
        BrokerProcess(folder / "broker", f"{zookeeper_address}/sdk-{uuid.uuid4().hex[:8]}") as broker,
        RegistryProcess(folder / "registry", broker.address) as registry,
    ):
        yield Platform(broker, registry.url)


@pytest.fixture
def cluster(platform: Platform) -> Iterator[Cluster]:
    made = Cluster(platform.bootstrap)
    yield made
    made.close()
