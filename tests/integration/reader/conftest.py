"""One cluster for all modules of this suite: each test has topics of its own."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.registry import RegistryProcess

SETTINGS = {"group.min.session.timeout.ms": 1_000, "group.initial.rebalance.delay.ms": 0}
"""The partitions of a killed reader soon go to the next one."""


@pytest.fixture(scope="package")
def zookeeper(zookeeper_address: str) -> str:
    return f"{zookeeper_address}/readers-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory, zookeeper: str) -> Iterator[LiveSide]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), zookeeper, settings=SETTINGS) as broker:
        with RegistryProcess(tmp_path_factory.mktemp("registry"), broker.address) as registry:
            yield LiveSide(broker, registry)
