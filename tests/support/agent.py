"""A real agent process for tests; the same settings and state over kills and restarts."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.runtime.status import read_status
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually


class AgentProcess:
    """`headrace agent run` on a folder. `journals` is the root that applications write below."""

    def __init__(self, folder: Path, live: LiveSide, *, topics: Sequence[str] = (), tail: str = "", agent: str = "") -> None:
        """`tail`: `[[tail]]` sections; `agent`: more lines of `[agent]`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.journals = folder / "journals"
        self.state = folder / "state"
        self.settings = folder / "agent.toml"
        self.settings.write_text(
            f"""
[agent]
name = "one"
host = "host"
state = {json.dumps(str(self.state))}
brokers = "{live.bootstrap}"
registry = "{live.registry_url}"
scan_every_ms = 100
{agent}
[journals]
root = {json.dumps(str(self.journals))}
topics = {json.dumps(list(topics))}
{tail}
"""
        )
        self._status = folder / "status.json"
        self._command = [sys.executable, "-m", "headrace.cli.main", "agent"]
        words = ["run", str(self.settings), "--status-file", str(self._status)]
        self.process = Process([*self._command, *words], folder / "log")

    def launch(self) -> "AgentProcess":
        self._status.unlink(missing_ok=True)
        self.process.start()
        return self

    def start(self) -> "AgentProcess":
        """Start it and return when it is ready: the audit waits for it."""
        self.launch()
        eventually(self._is_ready, what=f"agent ready; {self.process.output()[-2000:]}")
        return self

    def _is_ready(self) -> bool:
        if not self.process.is_running():
            raise RuntimeError(f"the agent ended:\n{self.process.output()[-4000:]}")
        status = read_status(self._status)
        return status is not None and status["state"] == "ready"

    def trace(self) -> str:
        """Return whether it runs, its status and the end of its log."""
        return f"running: {self.process.is_running()}; {read_status(self._status)}\n{self.process.output()[-3000:]}"

    def say(self, *words: str) -> tuple[int, str]:
        """Run `headrace agent` with an action and its options; return exit code and output."""
        action, *options = words
        output = self.settings.with_name(f"{action}-{os.urandom(4).hex()}")
        process = Process([*self._command, action, str(self.settings), *options], output)
        process.start()
        code = process.wait(30_000)
        return code, process.output()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.say("status", "--json")[1])
        return found
