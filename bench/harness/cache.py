"""Where the bench keeps what it fetches and builds, outside the repository: jars and compiled drivers."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `$HEADRACE_BENCH_CACHE`, else `headrace-bench` in the user's cache folder; it exists."""
    named = os.environ.get("HEADRACE_BENCH_CACHE")
    folder = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
