"""A real broker and a real registry for `headrace replay` and `headrace quarantine`."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.processes import Process
from tests.support.registry import RegistryProcess

Background = Callable[[Process], Process]


@dataclass(frozen=True)
class LiveSide:
    broker: BrokerProcess
    registry: RegistryProcess


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str) -> Iterator[LiveSide]:
    """One for all tests here: each has a topic of its own, and who kills the broker starts it again."""
    folder: Path = tmp_path_factory.mktemp("live")
    broker = BrokerProcess(folder / "broker", f"{zookeeper_address}/replay-{uuid.uuid4().hex[:12]}").start()
    try:
        registry = RegistryProcess(folder / "registry", broker.address).start()
        try:
            yield LiveSide(broker, registry)
        finally:
            registry.process.kill()
    finally:
        broker.kill()


@pytest.fixture
def background() -> Iterator[Background]:
    """Ends, whatever happens, the processes that it is given."""
    running: list[Process] = []

    def note(process: Process) -> Process:
        running.append(process)
        return process

    yield note
    for process in running:
        process.kill()


@pytest.fixture
def topic() -> str:
    return f"log_{uuid.uuid4().hex[:8]}"
