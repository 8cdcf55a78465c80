"""A real broker for each file of tests, and a real registry with a topic of its own for each test.

Who kills the broker starts it again.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[BrokerProcess]:
    chroot = f"{zookeeper_address}/registry-{uuid.uuid4().hex[:12]}"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), chroot) as running:
        yield running


@pytest.fixture
def registry(tmp_path: Path, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    running = RegistryProcess(tmp_path / "registry", broker.address, f"_schemas.{uuid.uuid4().hex[:8]}").start()
    try:
        yield running
    finally:
        running.process.kill()
