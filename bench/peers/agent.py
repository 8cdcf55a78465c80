"""Ours: `headrace agent run`, which ships the journals of one folder."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.runtime.status import read_status

from ..harness.child import BenchFault, Child, free_port
from ..harness.proc_meters import cpu_s

_READY_S = 60.0


class Agent:
    """One agent; `start` returns when it is ready."""

    def __init__(
        self,
        folder: Path,
        *,
        journals: Path,
        bootstrap: str,
        registry_url: str,
        topic: str,
        more: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`more`: further tables of the settings."""
        folder.mkdir(parents=True)
        settings = folder / "agent.toml"
        settings.write_text(
            f'[agent]\nname = "bench"\nstate = "{folder / "state"}"\nbrokers = "{bootstrap}"\nregistry = "{registry_url}"\n'
            f'[journals]\nroot = "{journals}"\ntopics = ["{topic}"]\n{more}'
        )
        self._status = folder / "state" / "status.json"
        command = [sys.executable, "-m", "headrace.cli.main", "agent", "run", str(settings)]
        self._child = Child(command, folder / "agent.log", port=free_port(), environment=environment)

    def start(self) -> None:
        self._child.launch()
        deadline = time.monotonic() + _READY_S
        while (status := read_status(self._status)) is None or status["state"] != "ready":
            self._child.assert_alive()
            if time.monotonic() > deadline:
                raise BenchFault(f"the agent was not ready in {_READY_S:.0f} s ({status}):\n{self._child.tail()}")
            time.sleep(0.1)

    def cpu_s(self) -> float:
        """Return the processor time that it has used so far."""
        self._child.assert_alive()
        return cpu_s([self._child.pid])

    def stop(self) -> None:
        self._child.stop()
