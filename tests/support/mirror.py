"""A real mirror process for tests: `headrace mirror run`, with the same status file over restarts."""

import sys
from pathlib import Path
from typing import Any

from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually


class MirrorProcess:
    """Copies from the cluster at `source` to a broker of ours. `audit`: the cluster with the audit's topic."""

    def __init__(self, folder: Path, source: str, destination: BrokerProcess, audit: str, *words: str) -> None:
        self._status = folder / "mirror.json"
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--source", source]
        command += ["--destination", destination.address, "--destination-zookeeper", destination.zookeeper]
        command += ["--audit-bootstrap", audit, "--status-file", str(self._status), *words]
        self.process = Process(command, folder / "log")

    def launch(self) -> "MirrorProcess":
        """Start it without waiting."""
        self._status.unlink(missing_ok=True)
        self.process.start()
        return self

    def start(self) -> "MirrorProcess":
        """Start it and return when it is ready."""
        self.launch()
        eventually(self.is_ready, what=f"mirror ready; {self.process.output()[-2000:]}")
        return self

    def is_ready(self) -> bool:
        return bool(self.status()["state"] == "ready")

    def status(self) -> dict[str, Any]:
        assert self.process.is_running(), f"the mirror ended:\n{self.process.output()[-4000:]}"
        return read_status(self._status) or {"state": "not there"}
