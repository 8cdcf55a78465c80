"""`headrace_native`: the hot paths in C, where it is installed (the extra `fast`).

Each user of it has the same in Python, under the same tests. `HEADRACE_NATIVE=0` switches it off.
"""

import importlib
import os
from typing import Any

SHAPE = 4
"""Of the functions that this version of headrace calls; the module says which one it has."""


def load() -> Any | None:
    """Return the module; None if it is not there, of another shape, or switched off."""
    if os.environ.get("HEADRACE_NATIVE") == "0":
        return None
    try:
        module = importlib.import_module("headrace_native")
    except ImportError:
        return None
    return module if getattr(module, "SHAPE", None) == SHAPE else None


native = load()
