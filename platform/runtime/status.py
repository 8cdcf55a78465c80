"""A process's own word about itself, in a small JSON file: how the supervisor knows that one without a port is ready.

Readers never see half of it: it is replaced whole.
"""

import json
import os
from pathlib import Path
from typing import Any

from .clock import Clock, SystemClock
from .whole_file import replace_file


class StatusFile:
    """Writes `{"state", "pid", "at_ms", ...facts}`; with no path it writes nothing."""

    def __init__(self, path: Path | None, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()

    def write(self, state: str, **facts: Any) -> None:
        """Replace the file; `state` is `starting`, `ready`, `stalled` or `stopping`, `facts` any JSON values.

        `reason` among them says why a process is not ready; `beat_every_ms` promises a new file at least so often.
        (`pid` among them speaks for another process.)
        """
        if self._path is None:
            return
        words = {"state": state, "pid": os.getpid(), "at_ms": self._clock.now_ms(), **facts}
        replace_file(self._path, json.dumps(words).encode())


def read_status(path: Path) -> dict[str, Any] | None:
    """Return what a process last wrote there, or None when there is no such file."""
    try:
        words = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return words if isinstance(words, dict) else None
