"""A console process over services that are given; what is not given is not there."""

import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.processes import Process, eventually, free_port


class OneConsole:
    """`headrace console run` on a home of its own."""

    def __init__(self, home: Path, live: str, audit: str, registry: str | None = None) -> None:
        self.home = home
        self.live = live
        self.url = f"http://127.0.0.1:{free_port()}"
        nobody = f"127.0.0.1:{free_port()}"
        environment = {
            "HEADRACE_HOME": str(home),
            "HEADRACE_LIVE_BOOTSTRAP": live,
            "HEADRACE_OFFLINE_BOOTSTRAP": nobody,
            "HEADRACE_REGISTRY_URL": registry or f"http://{nobody}",
            "HEADRACE_AUDIT_URL": audit,
        }
        port = self.url.rpartition(":")[2]
        command = [sys.executable, "-m", "headrace.cli.main", "console", "run", "--port", port]
        self.process = Process(command, home / "console.log", environment)

    def start(self) -> "OneConsole":
        """Start it, and return when it answers."""
        self.process.start()
        eventually(self._is_up, what="the console answers")
        return self

    def _is_up(self) -> bool:
        if not self.process.is_running():
            raise RuntimeError(f"the console ended:\n{self.process.output()[-4000:]}")
        with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
