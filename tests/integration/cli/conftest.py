"""A real broker for the commands that need no more."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), f"{zookeeper_address}/cli-{uuid.uuid4().hex[:8]}") as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"t_{uuid.uuid4().hex[:8]}"
