"""A real broker and a real registry over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.schema_registry.registry_process import RegistryProcess
from tests.support.broker import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path, zookeeper_chroot: str) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", zookeeper_chroot) as running:
        yield running


@pytest.fixture
def registry(tmp_path: Path, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    running = RegistryProcess(tmp_path / "registry", broker.address).start()
    try:
        yield running
    finally:
        running.process.kill()
