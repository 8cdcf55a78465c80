"""The life of a peer: prepare, launch, wait until it is ready, stop. A peer's own file says only what differs.

A peer is one process (`broker`) and the processes that it cannot run without (companions). Companions start first, stop last.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..harness.child import Child, free_port


class LoopbackServer(ABC):
    """One server on a free loopback port. All its files are below `folder`, its output in `folder/log`."""

    name: str
    start_within_s = 60.0
    stop_within_s = 20.0
    """SIGTERM first; after this time SIGKILL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.broker = Child([self.name], folder / "log", port=self.port)
        self._companions: list[Child] = []

    @abstractmethod
    def version(self) -> str:
        """Return name and version as installed. Raises Unavailable."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that starts the server on the folder as it is. Raises Unavailable."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that the command needs beside the bench's own."""
        return {}

    def prepare(self) -> None:  # noqa: B027 -- most peers need nothing
        """Make what the first start needs: settings, formatted folders, companions. Raises Unavailable, BenchFault."""

    def wait_until_ready(self, within_s: float) -> None:
        """Return when the server serves. Raises BenchFault when it has ended or the time is over."""
        self.broker.wait_for_port(within_s)

    def start(self) -> None:
        """Prepare the folder, start the server on it, and return when it serves."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        self.start_broker()

    def start_broker(self, within_s: float | None = None) -> None:
        """Start the server on its folder (companions run) and return when it serves."""
        self.launch_broker()
        self.wait_until_ready(self.start_within_s if within_s is None else within_s)

    def launch_broker(self) -> None:
        """Start the server on its folder and do not wait."""
        self.broker = Child(self.command(), self.folder / "log", port=self.port, environment=self.environment())
        self.broker.launch()

    def start_companion(self, companion: Child) -> None:
        """Start a process that the server needs; `stop` ends it after the server."""
        self._companions.append(companion)
        companion.start()

    def stop(self) -> None:
        """Stop the server and its companions."""
        self.broker.stop(self.stop_within_s)
        while self._companions:
            self._companions.pop().stop()

    @property
    def pids(self) -> Sequence[int]:
        """The processes whose CPU and memory are the server's."""
        return [self.broker.pid]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"
