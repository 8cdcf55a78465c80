"""A real registry with a topic of its own for each test, on the module's broker."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess


@pytest.fixture
def registry(tmp_path: Path, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry", broker.address, f"_schemas.{uuid.uuid4().hex[:8]}") as running:
        yield running
