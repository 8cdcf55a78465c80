"""Named places where a drill may hold a process, so that a kill provably lands there.

A drill creates the file `<home>/failpoints/<name>`; a process that reaches the place writes `<name>.reached` (its pid) beside
it and waits until the file is gone, at most `HOLD_MS`. Without the file, reaching a failpoint costs one `stat`.
"""

import os
import time
from pathlib import Path

from .whole_file import replace_file

HOLD_MS = 120_000
"""The longest hold. A forgotten failpoint delays a process but never hangs it."""


def reach(name: str, home: Path | None) -> None:
    """Wait here while the drill's file for `name` exists. Does nothing when `home` is None."""
    if home is None:
        return
    armed = home / "failpoints" / name
    if not armed.exists():
        return
    replace_file(home / "failpoints" / f"{name}.reached", str(os.getpid()).encode())
    deadline = time.monotonic() + HOLD_MS / 1000
    while armed.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
