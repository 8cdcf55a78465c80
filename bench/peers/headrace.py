"""Ours: `headrace broker run` beside a ZooKeeper of its own; both count as the server. Metrics and health are always on.

It is started as it runs where it is installed without the test tools: kio imports hypothesis wherever it finds it, which costs
every start half a second on a developer's machine only.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from headrace.local import zookeeper
from headrace.runtime.status import read_status

from ..harness.child import BenchFault, Child, free_port

_AS_INSTALLED = "import sys; sys.modules['hypothesis'] = None; from headrace.cli.main import main; sys.exit(main())"


class Headrace:
    """One broker and its ZooKeeper on free loopback ports, everything below `folder`."""

    name = "Headrace"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, tree: Path | None = None) -> None:
        """`tree`: a checkout whose code the broker runs, in place of this one's."""
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.http_port = free_port()
        self._keeper_port = free_port()
        self._status = folder / "status.json"
        words = [
            word for name, value in {"num.partitions": "1", **(settings or {})}.items() for word in ("--set", f"{name}={value}")
        ]
        self.keeper = Child(
            zookeeper.command(self._keeper_port, folder / "zookeeper"), folder / "zookeeper.log", port=self._keeper_port
        )
        command = [sys.executable, "-c", _AS_INSTALLED, "broker", "run", "--port", str(self.port), "--data", str(self.data)]
        command += ["--zookeeper", f"127.0.0.1:{self._keeper_port}", "--status-file", str(self._status)]
        command += ["--http-port", str(self.http_port), *words]
        self.broker = Child(
            command,
            folder / "broker.log",
            port=self.port,
            environment=None if tree is None else {"PYTHONPATH": str(tree / "src")},
        )

    def version(self) -> str:
        return f"Headrace {version('headrace')}, ZooKeeper 3.9"

    def start(self) -> None:
        self.keeper.start()
        self.start_broker()

    def start_broker(self, within_s: float = 60.0) -> None:
        """Start the broker alone (its ZooKeeper runs) and return when it is ready."""
        self.launch_broker()
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

    def launch_broker(self) -> None:
        """Start the broker alone and do not wait."""
        self._status.unlink(missing_ok=True)
        self.broker.launch()

    def stop(self) -> None:
        self.broker.stop()
        self.keeper.stop()

    @property
    def pids(self) -> Sequence[int]:
        return [self.broker.pid, self.keeper.pid]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def partition_folder(self, topic: str, partition: int = 0) -> Path:
        """Return where the partition's segments are."""
        found = [path.parent for path in self.data.rglob("*.log") if path.parent.name == f"{topic}-{partition}"]
        if not found:
            raise BenchFault(f"{topic}-{partition} has no segment below {self.data}")
        return found[0]
