"""Starts applications in milliseconds: a process that has imported the SDK forks one for each load.

`python -m tests.chaos_sdk.nursery` reads one JSON command a line and answers with one line each. It is the subreaper of its
applications, so that it also waits for a child whose parent was killed.
"""

import ctypes
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chaos_sdk.application import Load, run

_PR_SET_CHILD_SUBREAPER = 36
GONE_WITHIN_S = 60


class Nursery:
    """The test's handle on the forking process."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos_sdk.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def start(self, load: Load) -> int:
        """Fork an application; return its process id, which is its process group's too."""
        return int(self._ask("start", asdict(load)))

    def signal(self, pid: int, number: int, *, whole_group: bool) -> None:
        self._ask("signal", [pid, number, whole_group])

    def await_end(self, pid: int) -> list[int]:
        """Return the exit codes of the process group's members once all have ended; negative ones are signals."""
        return list(self._ask("await", pid))

    def children_of(self, pid: int) -> list[int]:
        """Return the living members of the group beside its leader."""
        return [other for other in _members(pid) if other != pid]

    def close(self) -> None:
        """End it; what still runs of its applications is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._log.close()

    def _ask(self, command: str, words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([command, words]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the nursery ended: {Path(self._log.name).read_text()[-4000:]}")
        kind, found = json.loads(answer)
        if kind == "failed":
            raise RuntimeError(f"{command} {words}: {found}")
        return found


def _members(group: int) -> list[int]:
    """Return the living processes of a group; those that only wait to be reaped are none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, of_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            if int(of_group) == group and state not in "ZX":
                found.append(int(entry.name))
    return found


class _Nursery:
    """The inside of the process."""

    def __init__(self) -> None:
        self._groups: dict[int, list[int]] = {}
        """Group → exit codes of its members that have ended."""

    def start(self, words: dict[str, Any]) -> int:
        pid = os.fork()
        if pid == 0:
            _be(Load(**words))
        try:
            os.setpgid(pid, pid)  # here too: the group is there before anybody is told of it
        except (PermissionError, ProcessLookupError):
            pass
        self._groups[pid] = []
        return pid

    def signal(self, words: list[Any]) -> None:
        pid, number, whole_group = words
        (os.killpg if whole_group else os.kill)(pid, number)

    def await_(self, pid: int) -> list[int]:
        deadline = time.monotonic() + GONE_WITHIN_S
        while True:
            try:
                (
                    found,
                    status,
                ) = os.waitpid(-pid, os.WNOHANG)
            except ChildProcessError:
                # All that are ours have ended; a forked one whose parent has just died becomes ours in this moment.
                if not _members(pid):
                    return self._groups.pop(pid)
                found = 0
            if found:
                self._groups[pid].append(os.waitstatus_to_exitcode(status))
                continue
            if time.monotonic() > deadline:
                left = _members(pid)
                for member in left:
                    os.kill(member, signal.SIGUSR1)  # its threads' stacks, in the applications' log
                raise TimeoutError(f"{left} of {pid} still run after {GONE_WITHIN_S} s; their stacks are in the log")
            time.sleep(0.002)

    def end(self) -> None:
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _be(load: Load) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        faulthandler.register(signal.SIGUSR1)
        run(load)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # As an application's own interpreter would end; not through what the nursery has open.
        os._exit(code)


def main() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    nursery = _Nursery()
    for line in sys.stdin:
        command, words = json.loads(line)
        do: Any = {"start": nursery.start, "signal": nursery.signal, "await": nursery.await_}[command]
        try:
            answer = ["done", do(words)]
        except Exception as error:
            answer = ["failed", repr(error)]
        print(json.dumps(answer), flush=True)
    nursery.end()


if __name__ == "__main__":
    main()
