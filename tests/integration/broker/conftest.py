"""A broker of this module's own on the session's ZooKeeper."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker, shared by a module's tests: each uses topics of its own."""
    chroot = f"{zookeeper_address}/broker-{uuid.uuid4().hex[:8]}"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), chroot, settings={"message.max.bytes": 2_000_000}) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:8]}"
