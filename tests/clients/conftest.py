"""A broker for the clients of other languages, and the folder in which their tests are built."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess


@pytest.fixture(scope="session")
def broker(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    chroot = f"{zookeeper_address}/clients-{uuid.uuid4().hex[:8]}"
    settings = {"message.max.bytes": 2_000_000, "num.partitions": 1}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), chroot, settings=settings) as running:
        yield running


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")
