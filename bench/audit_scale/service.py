"""A real audit service process on a store, without a cluster, and what it takes."""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

NO_CLUSTER = "127.0.0.1:1"
READY_S = 300
SETTINGS = """
[topics.default]
tiers = ["producer", "live", "mirror", "offline", "warehouse"]
adds = ["consumer:service"]
"""


class Service:
    """The process; `ready_ms` is how long its start took."""

    def __init__(self, folder: Path, store: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        status = folder / "status.json"
        status.unlink(missing_ok=True)
        (folder / "audit.toml").write_text(SETTINGS)
        command = [sys.executable, "-m", "headrace.cli.main", "audit", "run", "--port", str(port), "--live", NO_CLUSTER]
        command += ["--offline", "", "--store", store, "--settings", str(folder / "audit.toml"), "--status-file", str(status)]
        self._log = (folder / "service.log").open("ab")
        began = time.monotonic()
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the audit service ended: see {folder / 'service.log'}")
            if status.exists() and '"ready"' in status.read_text() and self._answers():
                break
            if time.monotonic() - began > READY_S:
                raise RuntimeError("the audit service is not ready")
            time.sleep(0.02)
        self.ready_ms = (time.monotonic() - began) * 1000

    @property
    def pid(self) -> int:
        return self._process.pid

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
                return True
        except OSError:
            return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()

    def ask(self, path: str, times: int = 5) -> tuple[float, float, int]:
        """Return the first answer's milliseconds, the median of the later ones, and the answer's bytes."""
        took = []
        size = 0
        for _ in range(times):
            began = time.monotonic()
            with urllib.request.urlopen(f"{self.url}{path}", timeout=120) as answer:
                size = len(answer.read())
            took.append((time.monotonic() - began) * 1000)
        return took[0], statistics.median(took[1:]), size

    def cpu_share(self, seconds: float) -> float:
        """Return the share of one core that the process takes in the next `seconds`."""
        before = self._cpu_s()
        time.sleep(seconds)
        return (self._cpu_s() - before) / seconds

    def _cpu_s(self) -> float:
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> Mapping[str, int]:
        """Return what is resident now, and the most that was, in bytes."""
        lines = dict(
            line.split(":", 1) for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines() if ":" in line
        )
        return {name: int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")}


def report_ms(url: str, topic: str | None) -> tuple[float, int]:
    """Return how long `headrace audit report` takes, of one topic or of all, and how many bytes it prints."""
    command = [sys.executable, "-m", "headrace.cli.main", "audit", "report", "--url", url]
    command += [] if topic is None else ["--topic", topic]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, timeout=300, check=True)
    return (time.monotonic() - began) * 1000, len(done.stdout)


def as_json(words: object) -> str:
    return json.dumps(words, indent=2)
