"""A broker for the clients in other languages, and the folders for their builds."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.building import HERE, maven, run
from tests.clients.secured import SecuredBroker
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="session")
def broker(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    chroot = f"{zookeeper_address}/clients-{uuid.uuid4().hex[:8]}"
    settings = {"message.max.bytes": 2_000_000, "num.partitions": 1}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), chroot, settings=settings) as running:
        yield running


@pytest.fixture(scope="session")
def secured(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    chroot = f"{zookeeper_address}/secured-{uuid.uuid4().hex[:8]}"
    with SecuredBroker(tmp_path_factory.mktemp("secured"), chroot) as running:
        yield running


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def jars(build_folder: Path) -> str:
    """Class path of Apache Kafka's client and console tools."""
    folder = build_folder / "jars"
    maven(build_folder / "java", "dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime")
    return f"{folder}/*"


@pytest.fixture(scope="session")
def node_folder(build_folder: Path) -> Path:
    """The folder js/ with its packages."""
    folder = build_folder / "js"
    shutil.copytree(HERE / "js", folder)
    run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], folder=folder, within_s=300)
    return folder
