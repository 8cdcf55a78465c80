"""A server under measurement, as a child process of the bench, on a port that was free before.

A run against another server on the same port would look right and mean nothing. So a port that is open already is a fault, and
the child must still be alive once the port answers. Knows nothing of what the child serves.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class BenchFault(RuntimeError):
    """A measurement that must not be used: a check of the bench failed."""


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Return whether something accepts connections on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Child:
    """One child in a process group of its own; its output goes to `log`. The constructor starts nothing."""

    def __init__(self, command: Sequence[str], log: Path, *, port: int, environment: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.log = log
        self.port = port
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> "Child":
        """Start it and do not wait. Raises BenchFault when the port is open already."""
        if is_open(self.port):
            raise BenchFault(f"port {self.port} is open before {self.command[0]} was started: another server is there")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )
        return self

    def start(self, within_s: float = 60.0) -> "Child":
        """Start it. Return when its port answers and it is still alive."""
        self.launch()
        self.wait_for_port(within_s)
        return self

    def wait_for_port(self, within_s: float, every_s: float = 0.02) -> None:
        """Return when its port answers. Raises BenchFault when it has ended or the time is over."""
        deadline = time.monotonic() + within_s
        while not is_open(self.port):
            self.assert_alive()
            if time.monotonic() > deadline:
                raise BenchFault(f"{self.command[0]} did not open port {self.port} in {within_s:.0f} s:\n{self.tail()}")
            time.sleep(every_s)
        self.assert_alive()

    def assert_alive(self) -> None:
        """Raise BenchFault, with the end of its log, when it has ended."""
        if self._process is None or self._process.poll() is not None:
            code = None if self._process is None else self._process.returncode
            raise BenchFault(f"{self.command[0]} is not running (exit code {code}):\n{self.tail()}")

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BenchFault(f"{self.command[0]} was not started")
        return self._process.pid

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def kill(self) -> None:
        """Send SIGKILL to its whole group and wait until it has ended."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(timeout=30)

    def stop(self, within_s: float = 20.0) -> None:
        """Send SIGTERM to its group, and SIGKILL when it has not ended in time: the bench leaves no process behind."""
        if self._process is None or self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            self.kill()
