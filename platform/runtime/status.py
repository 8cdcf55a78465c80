"""A process's own word about itself, in a small JSON file: how the supervisor knows that one without a port is ready.

The file is replaced in one rename, so a reader never sees half of it.
"""

import json
import os
from pathlib import Path
from typing import Any

from .clock import Clock, SystemClock


class StatusFile:
    """Writes `{"state", "pid", "at_ms", ...facts}`; with no path it writes nothing."""

    def __init__(self, path: Path | None, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()

    def write(self, state: str, **facts: Any) -> None:
        """Replace the file; `state` is `starting`, `ready` or `stopping`, `facts` any JSON values."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        words = {"state": state, "pid": os.getpid(), "at_ms": self._clock.now_ms(), **facts}
        scratch = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        scratch.write_text(json.dumps(words))
        scratch.replace(self._path)


def read_status(path: Path) -> dict[str, Any] | None:
    """Return what a process last wrote there, or None when there is no such file."""
    try:
        words = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return words if isinstance(words, dict) else None
