"""A broker of this house as a real process that a test may kill and start again on the same port and folder."""

import sys
from pathlib import Path

from headrace.client.cluster import Cluster
from headrace.errors import HeadraceError
from tests.support.processes import Process, eventually, free_port


class RealBroker:
    def __init__(self, folder: Path, zookeeper: str, *settings: str) -> None:
        self.port = free_port()
        self.folder = folder
        words = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "headrace.cli.main", "broker", "run", "--port", str(self.port)]
        command += ["--data", str(folder / "data"), "--zookeeper", zookeeper, *words]
        self.process = Process(command, folder / "broker.log")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "RealBroker":
        self.process.start()
        return self

    def await_ready(self) -> "RealBroker":
        def answers() -> bool:
            assert self.process.is_running(), self.process.output()[-2000:]
            cluster = Cluster(self.address)
            try:
                cluster.topics()
                return True
            except HeadraceError:
                return False
            finally:
                cluster.close()

        eventually(answers, what=f"a broker that answers on {self.address}")
        return self

    def kill(self) -> None:
        self.process.kill()

    def restart_killed(self) -> None:
        self.kill()
        self.start().await_ready()

    def stop(self) -> None:
        self.process.stop()
