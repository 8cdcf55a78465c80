"""The supervisor's state and its orders: two small JSON files in the platform's `run` folder.

Only the supervisor writes `platform.json`. Commands write `held.json` (names of processes to keep stopped).
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ...runtime.layout import Layout
from ...runtime.whole_file import replace_file

State = Literal["waiting", "starting", "ready", "unhealthy", "stopping", "stopped", "restarting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """One process as the supervisor sees it."""

    name: str
    state: State
    address: str | None
    pid: int | None
    started_at_ms: int | None
    restarts: int
    reason: str | None
    """Why it is not ready, as text; None if it is ready."""
    notice: str | None = None
    """What an operator has ordered of it, as text: that it is paused, say. It is well anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformState:
    """The whole platform at one moment."""

    supervisor_pid: int
    at_ms: int
    processes: list[ProcessState]

    @property
    def is_ready(self) -> bool:
        return all(process.state == "ready" for process in self.processes)

    def process(self, name: str) -> ProcessState:
        return next(process for process in self.processes if process.name == name)


def write_platform(layout: Layout, state: PlatformState) -> None:
    replace_file(layout.run / "platform.json", json.dumps(asdict(state)).encode())


def read_platform(layout: Layout) -> PlatformState | None:
    """Return what the supervisor last wrote, or None if it is not running (its lock is free, or it never ran)."""
    try:
        words = json.loads((layout.run / "platform.json").read_text())
    except FileNotFoundError:
        return None
    if not is_supervisor(words["supervisor_pid"]):
        return None
    return PlatformState(
        supervisor_pid=words["supervisor_pid"],
        at_ms=words["at_ms"],
        processes=[ProcessState(**process) for process in words["processes"]],
    )


def is_supervisor(pid: int) -> bool:
    """Return whether a supervisor runs as `pid`, by its command line: after a crash or a reboot a pid alone proves nothing."""
    try:
        return b"headrace.local.supervisor.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def forget_platform(layout: Layout) -> None:
    """Write that nothing runs any more; the supervisor's last act."""
    (layout.run / "platform.json").unlink(missing_ok=True)


def read_held(layout: Layout) -> set[str]:
    """Return the names of the processes to keep stopped."""
    try:
        return set(json.loads((layout.run / "held.json").read_text()))
    except FileNotFoundError:
        return set()


def write_held(layout: Layout, names: Iterable[str]) -> None:
    replace_file(layout.run / "held.json", json.dumps(sorted(names)).encode())
