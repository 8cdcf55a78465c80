"""Sessions that are closed at the test's end, and a ZooKeeper server of one's own that may be killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.coordination.session import Session
from headrace.local import zookeeper
from tests.support.processes import Process, accepts, eventually, free_port

OpenSession = Callable[..., Session]


@pytest.fixture
def open_session(zookeeper_chroot: str) -> Iterator[OpenSession]:
    """Open sessions in this test's chroot (or at `hosts`), with a short session time; close what is still open at the end."""
    opened: list[Session] = []

    def open_one(name: str = "test", *, hosts: str = zookeeper_chroot, session_timeout_ms: int = 2_000) -> Session:
        session = Session(hosts, session_timeout_ms=session_timeout_ms, name=name)
        opened.append(session)
        return session.start()

    yield open_one
    for session in opened:
        session.close()


class OwnServer:
    """A ZooKeeper server on a port of its own, its data kept over kills."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._process = Process(zookeeper.command(self.port, folder), folder / "log")

    def start(self) -> None:
        self._process.start()
        eventually(lambda: accepts(self.port), what="ZooKeeper's port open")

    def kill(self) -> None:
        self._process.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OwnServer]:
    server = OwnServer(tmp_path / "zookeeper")
    server.start()
    yield server
    server.kill()
