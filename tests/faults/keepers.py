"""The ZooKeeper of a cluster: one server, or an ensemble of three."""

from pathlib import Path
from typing import Protocol

from tests.support.zookeeper import ZooKeeperProcess
from tests.support.zookeeper_ensemble import ZooKeeperEnsemble


class Keepers(Protocol):
    ports: list[int]

    def start(self) -> None: ...

    def kill_all(self) -> None: ...

    def kill_leader(self) -> None: ...

    def heal(self) -> None:
        """Start what does not run, and return when it serves."""
        ...


class OneKeeper:
    def __init__(self, folder: Path) -> None:
        self._server = ZooKeeperProcess(folder)
        self.ports = [self._server.port]

    def start(self) -> None:
        self._server.start()

    def kill_all(self) -> None:
        self._server.kill()

    kill_leader = kill_all

    def heal(self) -> None:
        if not self._server.process.is_running():
            self._server.start()


class ThreeKeepers:
    def __init__(self, folder: Path) -> None:
        self._ensemble = ZooKeeperEnsemble(folder)
        self.ports = [int(address.rpartition(":")[2]) for address in self._ensemble.address.split(",")]

    def start(self) -> None:
        self._ensemble.__enter__()

    def kill_all(self) -> None:
        self._ensemble.__exit__()

    def kill_leader(self) -> None:
        self._ensemble.kill_leader()

    def heal(self) -> None:
        self._ensemble.heal()
