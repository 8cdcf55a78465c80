"""Ours: `headrace broker run` and a ZooKeeper of its own; both count as the server. Metrics and health are always on.

The command hides hypothesis from the broker, as in an installation without test tools: kio imports hypothesis where it finds it,
which adds half a second to each start on a developer's machine.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from headrace.local.supervisor import zookeeper
from headrace.runtime.status import read_status

from ..harness.child import BenchFault, Child, free_port
from .lifecycle import LoopbackServer

_AS_INSTALLED = "import sys; sys.modules['hypothesis'] = None; from headrace.cli.main import main; sys.exit(main())"


class Headrace(LoopbackServer):
    """One broker and its ZooKeeper."""

    name = "Headrace"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, tree: Path | None = None) -> None:
        """`tree`: a checkout whose code the broker runs, in place of this one's."""
        super().__init__(folder)
        self.http_port = free_port()
        self._zookeeper_port = free_port()
        self._status = folder / "status.json"
        self._settings = {"num.partitions": "1", **(settings or {})}
        self._tree = tree
        self.zookeeper = Child(
            zookeeper.command(self._zookeeper_port, folder / "zookeeper"), folder / "zookeeper.log", port=self._zookeeper_port
        )

    @property
    def zookeeper_address(self) -> str:
        return f"127.0.0.1:{self._zookeeper_port}"

    def version(self) -> str:
        return f"Headrace {version('headrace')}, ZooKeeper 3.9"

    def prepare(self) -> None:
        self.start_companion(self.zookeeper)

    def command(self) -> Sequence[str]:
        words = [sys.executable, "-c", _AS_INSTALLED, "broker", "run", "--port", str(self.port), "--data", str(self.data)]
        words += ["--zookeeper", f"127.0.0.1:{self._zookeeper_port}", "--status-file", str(self._status)]
        words += ["--http-port", str(self.http_port)]
        return words + [word for name, value in self._settings.items() for word in ("--set", f"{name}={value}")]

    def environment(self) -> Mapping[str, str]:
        return {} if self._tree is None else {"PYTHONPATH": str(self._tree / "src")}

    def launch_broker(self) -> None:
        self._status.unlink(missing_ok=True)
        super().launch_broker()

    def wait_until_ready(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while True:
            status = read_status(self._status)
            if status is not None and status["state"] == "ready" and status["pid"] == self.broker.pid:
                break
            self.broker.assert_alive()
            if time.monotonic() > deadline:
                raise BenchFault(f"the broker was not ready in {within_s:.0f} s:\n{self.broker.tail()}")
            time.sleep(0.01)
        self.broker.assert_alive()

    @property
    def pids(self) -> Sequence[int]:
        return [self.broker.pid, self.zookeeper.pid]

    def partition_folder(self, topic: str, partition: int = 0) -> Path:
        """Return the folder of the partition's segments."""
        found = [path.parent for path in self.data.rglob("*.log") if path.parent.name == f"{topic}-{partition}"]
        if not found:
            raise BenchFault(f"{topic}-{partition} has no segment below {self.data}")
        return found[0]
