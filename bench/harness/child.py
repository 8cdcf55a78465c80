"""A server under measurement as a child of the bench: started on a port that was free, proven to be ours, read from /proc.

Knows processes, never what they serve. A run against somebody else's server on the same port looks fine and means nothing: so a
port that is open already is a fault, and the child must still be alive once the port answers.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class BenchFault(RuntimeError):
    """A measurement that must not be believed: something was not what it has to be."""


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
    """One child in its own process group, its output in `log`. Constructed, it only knows."""

    def __init__(self, command: Sequence[str], log: Path, *, port: int, environment: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.log = log
        self.port = port
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> "Child":
        """Start it and do not wait. Raises BenchFault when the port is somebody else's."""
        if is_open(self.port):
            raise BenchFault(f"port {self.port} is open before {self.command[0]} was started: somebody else's server is there")
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
        """Start it and return once its port answers and it is still alive."""
        self.launch()
        self.wait_for_port(within_s)
        return self

    def wait_for_port(self, within_s: float, every_s: float = 0.02) -> None:
        deadline = time.monotonic() + within_s
        while not is_open(self.port):
            self.assert_alive()
            if time.monotonic() > deadline:
                raise BenchFault(f"{self.command[0]} did not open port {self.port} in {within_s:.0f} s:\n{self.tail()}")
            time.sleep(every_s)
        self.assert_alive()

    def assert_alive(self) -> None:
        """Raise BenchFault with the end of its log when it has ended."""
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
        """`kill -9` to its whole group, and wait until it is gone."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(timeout=30)

    def stop(self, within_s: float = 20.0) -> None:
        """SIGTERM to its group; `kill -9` when that does not end it in time: a bench must leave nothing behind."""
        if self._process is None or self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            self.kill()


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU seconds that these processes have used, to the microsecond where the kernel keeps it.

    `stat` counts in ticks of 10 ms; `schedstat` of the threads that live is exact. The larger of both: ended threads are only in
    the first.
    """
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        exact = 0.0
        for thread in Path(f"/proc/{pid}/task").iterdir():
            try:
                exact += int((thread / "schedstat").read_text().split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                continue
        total += exact if ticks - exact < 0.5 else ticks
    return total


def rss_mb(pids: Sequence[int]) -> float:
    """Return the resident memory of these processes, in MB (10^6 bytes)."""
    total = 0
    for pid in pids:
        line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
        total += int(line.split()[1]) * 1024
    return total / 1e6


def descendants(pid: int) -> list[int]:
    """Return a process and everything it has started, itself first; what ends meanwhile is left out."""
    found = [pid]
    for known in found:
        for thread in Path(f"/proc/{known}/task").glob("*/children"):
            found.extend(int(word) for word in _words(thread))
    return found


def program(pid: int) -> str:
    """Return the name of what a process runs, empty when it has ended."""
    return " ".join(_words(Path(f"/proc/{pid}/comm")))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
