"""Runs Headrace commands as a user would: each in its own process, in one platform's environment."""

import os
import subprocess
import sys
from collections.abc import Mapping

from ..errors import HeadraceError
from ..runtime.layout import Layout

TIMEOUT_MS = 300_000


class CommandFailed(HeadraceError):
    """A command failed; the message has its error output."""


def command(*words: str) -> list[str]:
    """Return the command line of `headrace WORDS`."""
    return [sys.executable, "-m", "headrace.cli.main", *words]


def environment(layout: Layout, role: str = "operator") -> Mapping[str, str]:
    """Return the environment in which every Headrace process finds this platform. `role`: as whom it comes, where that counts."""
    return {**os.environ, **layout.environment(), **layout.as_role(role)}


def output_of(layout: Layout, *words: str) -> str:
    """Return the output of `headrace WORDS`. Raises CommandFailed."""
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
