"""A broker and a registry for each module of tests, in the module's own chroot. A test that kills one restarts it."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.registry import RegistryProcess


@pytest.fixture(scope="module")
def zookeeper(zookeeper_address: str) -> str:
    """`host:port/chroot` of the module's cluster."""
    return f"{zookeeper_address}/module-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    """The settings of the module's broker, by Kafka's names. A suite or a module that needs others overrides this fixture."""
    return {}


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: str, broker_settings: dict[str, object]
) -> Iterator[BrokerProcess]:
    """A running broker, shared by the tests of a module: each test uses its own topics."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), zookeeper, settings=broker_settings) as running:
        yield running


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    """A running schema registry on the module's broker."""
    with RegistryProcess(tmp_path_factory.mktemp("registry"), broker.address) as running:
        yield running


@pytest.fixture(scope="module")
def live(broker: BrokerProcess, registry: RegistryProcess) -> LiveSide:
    """The module's broker and registry together."""
    return LiveSide(broker, registry)
