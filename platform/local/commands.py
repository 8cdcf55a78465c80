"""Our own commands run as a user would run them: each in a process of its own, in one platform's environment."""

import os
import subprocess
import sys
from collections.abc import Mapping

from ..errors import HeadraceError
from ..runtime.layout import Layout

TIMEOUT_MS = 300_000


class CommandFailed(HeadraceError):
    """A command did not end well; the message holds what it complained of."""


def command(*words: str) -> list[str]:
    """Return what starts `headrace WORDS`."""
    return [sys.executable, "-m", "headrace.cli.main", *words]


def environment(layout: Layout) -> Mapping[str, str]:
    """Return the environment in which every process of ours finds this platform."""
    return {**os.environ, **layout.environment()}


def output_of(layout: Layout, *words: str) -> str:
    """Return what `headrace WORDS` printed. Raises CommandFailed."""
    what = f"headrace {' '.join(words)}"
    try:
        done = subprocess.run(
            command(*words),
            env=environment(layout),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_MS / 1000,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{what} did not end within {TIMEOUT_MS // 1000} s") from error
    if done.returncode != 0:
        raise CommandFailed(f"{what} ended with {done.returncode}: {done.stderr.strip()[-2_000:]}")
    return done.stdout
