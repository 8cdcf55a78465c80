"""A topic and a warehouse for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess
from tests.support.spark_stage import Stage


@pytest.fixture
def stage(broker: BrokerProcess, registry: RegistryProcess, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(broker, registry, tmp_path)
    yield stage
    stage.close()
