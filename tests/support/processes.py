"""Real processes for tests: started on free loopback ports, awaited by a condition with a deadline, ended by their own id."""

import os
import secrets
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LOWEST_PORT = 20_000
"""Below are the ports that services are known by."""
MOST_WORKERS = 8
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MOST_WORKERS
_given: deque[int] = deque(maxlen=500)
"""Ports of late: their servers may not listen yet."""


def free_port() -> int:
    """Return a loopback port that nothing listens on now and that the system gives to no client as its own.

    Else a client that calls a server while it is down could be given the server's port, be connected to itself, and keep the
    server from coming back. No other worker of pytest is given the port, nor this one again before its server listens.
    """
    clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    choices = (clients - LOWEST_PORT) // MOST_WORKERS
    for _ in range(1_000):
        with socket.socket() as probe:
            port = 0
            if choices > 0:
                port = LOWEST_PORT + WORKER + MOST_WORKERS * secrets.randbelow(choices)
                if port in _given:
                    continue
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.append(port)
            return int(probe.getsockname()[1])
    raise RuntimeError(f"no free port from {LOWEST_PORT} to {clients}")


def eventually(ask: Callable[[], T], *, within_ms: int = 20_000, every_ms: int = 50, what: str = "condition") -> T:
    """Return the first truthy answer of `ask`; fail with its last answer or error when `within_ms` is over."""
    deadline = time.monotonic() + within_ms / 1000
    last: object = None
    while time.monotonic() < deadline:
        try:
            answer = ask()
            if answer:
                return answer
            last = answer
        except (AssertionError, OSError) as error:
            last = error
        time.sleep(every_ms / 1000)
    raise AssertionError(f"{what} did not hold within {within_ms} ms; last: {last!r}")


def accepts(port: int) -> bool:
    """Return whether something accepts connections on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """One child in its own process group, its output in a file."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.log = log
        self._environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path | None = None) -> "Process":
        """Start it in `folder`, by default the present one."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.command, stdout=output, stderr=output, env=self._environment, start_new_session=True, cwd=folder
            )
        return self

    def use(self, environment: Mapping[str, str]) -> None:
        """Run under these variables, too, from the next start on."""
        self._environment |= environment

    @property
    def pid(self) -> int:
        assert self._child is not None, "not started"
        return self._child.pid

    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def stacks(self) -> str:
        """End a Python process that hangs, and return the end of its output with its threads' stacks (Python's fault handler)."""
        if self.is_running():
            os.kill(self.pid, signal.SIGABRT)
            self.wait(20_000)
        return self.output()[-6000:]

    def wait(self, within_ms: int) -> int:
        """Return its exit code once it has ended unexpectedly; fail when it has not within `within_ms`."""
        assert self._child is not None, "not started"
        try:
            return self._child.wait(timeout=within_ms / 1000)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.command[:6]} still runs after {within_ms} ms:\n{self.output()[-2000:]}") from None

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        if self._child is not None:
            self._child.wait(timeout=20)

    def stop(self, within_ms: int = 20_000) -> int:
        """Ask it to end (SIGTERM) and return its exit code; kill it when it does not end in time."""
        if self._child is None:
            return 0
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGTERM)
        try:
            return self._child.wait(timeout=within_ms / 1000)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.command[:4]} did not stop within {within_ms} ms:\n{self.output()[-2000:]}") from None
