"""One cluster for all modules of this suite: each test has topics of its own."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.registry import RegistryProcess


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[LiveSide]:
    zookeeper = f"{zookeeper_address}/sinks-{uuid.uuid4().hex[:12]}"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), zookeeper) as broker:
        with RegistryProcess(tmp_path_factory.mktemp("registry"), broker.address) as registry:
            yield LiveSide(broker, registry)
