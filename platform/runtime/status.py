"""A process's state in a small JSON file. The supervisor reads it where a process has no port to probe.

The file is replaced whole: no reader sees half of it.
"""

import json
import os
from pathlib import Path
from typing import Any

from .clock import Clock, SystemClock
from .whole_file import replace_file


class StatusFile:
    """Writes `{"state", "pid", "at_ms", ...facts}`. Without a path it writes nothing."""

    def __init__(self, path: Path | None, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()

    def write(self, state: str, **facts: Any) -> None:
        """Replace the file; `state` is `starting`, `ready`, `stalled` or `stopping`, `facts` any JSON values.

        The fact `reason` says why a process is not ready. `beat_every_ms` promises a new file at least that often. `pid` replaces
        this process's own.
        """
        if self._path is None:
            return
        words = {"state": state, "pid": os.getpid(), "at_ms": self._clock.now_ms(), **facts}
        replace_file(self._path, json.dumps(words).encode())


def read_status(path: Path) -> dict[str, Any] | None:
    """Return what a process wrote last, or None when there is no file."""
    try:
        words = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return words if isinstance(words, dict) else None
