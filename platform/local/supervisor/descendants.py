"""Finds the processes below a given one in `/proc`, and ends those that are left.

A process that leaves its group (an Airflow task that starts its command in a new session) is still found by its parent. Once the
supervisor has called `adopt_orphans`, it is also found after its parent has ended.
"""

import ctypes
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)
TURN_S = 0.02
MOST_REAPED = 64
"""In one call; the next call reaps the rest."""


def adopt_orphans() -> None:
    """Make this process, instead of init, adopt every descendant whose parent ends."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_adopted(own: Collection[int]) -> None:
    """Reap ended children that are not `own`: the code that started the own ones reaps them."""
    for _ in range(MOST_REAPED):
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
        except ChildProcessError:
            return


def parents() -> dict[int, int]:
    """Return the parent's pid of every running process; zombies are left out."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                # The name in parentheses may hold any character; state and parent follow the last parenthesis.
                state, parent, *_ = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except (OSError, ValueError):
                continue  # it ended meanwhile
            if state not in (b"Z", b"X"):
                found[int(name)] = int(parent)
    return found


def descendants(pid: int) -> list[int]:
    """Return the pids of all processes below `pid`, a parent before its children."""
    known = parents()
    found, waiting = [], [pid]
    while waiting:
        above = waiting.pop()
        children = [child for child, its_parent in known.items() if its_parent == above]
        found += children
        waiting += children
    return found


def end_descendants(*, term_ms: int, kill_ms: int) -> list[int]:
    """Ask every process below this one to end; kill those left after `term_ms`; return those left `kill_ms` later."""
    left: list[int] = []
    for number, within_ms in ((signal.SIGTERM, term_ms), (signal.SIGKILL, kill_ms)):
        deadline = time.monotonic() + within_ms / 1000
        asked: set[int] = set()
        while left := descendants(os.getpid()):
            for pid in (pid for pid in left if pid not in asked):
                asked.add(pid)
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            if time.monotonic() > deadline:
                break
            time.sleep(TURN_S)
            reap_adopted(())
    return left
