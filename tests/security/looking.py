"""Looks for secrets where they do not belong: in what every process of this machine shows of itself, and in files."""

import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

EVERY_S = 0.5
_SHOWN = ("cmdline", "comm", "environ")


class Watch:
    """Looks at all processes again and again, until `stop`."""

    def __init__(self, secrets: Mapping[str, bytes], *, besides: bytes) -> None:
        """`besides`: of processes with this in their command line (a tool of the test's own) it is not looked at."""
        self._secrets = secrets
        self._besides = besides
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self.found: set[str] = set()
        self.commands: set[bytes] = set()
        """The command lines seen, which shows that it looked."""

    def start(self) -> "Watch":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(EVERY_S):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                self._look(pid)

    def _look(self, pid: str) -> None:
        for name in _SHOWN:
            try:
                shown = Path("/proc", pid, name).read_bytes()
            except OSError:
                continue
            if name == "cmdline":
                self.commands.add(shown)
                if self._besides in shown:
                    continue
            self.found |= {f"{secret} in {name} of process {pid}" for secret, text in self._secrets.items() if text in shown}


def in_files(folders: Iterable[Path], secrets: Mapping[str, bytes]) -> tuple[list[str], int]:
    """Return where secrets are in the files of these folders, and how many files were read."""
    found: list[str] = []
    count = 0
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                text = path.read_bytes() if path.is_file() else None
            except FileNotFoundError:
                continue  # it is a file of a moment
            if text is not None:
                count += 1
                found += [f"{name} in {path}" for name, secret in secrets.items() if secret in text]
    return found, count


def in_text(what: str, text: str, secrets: Mapping[str, bytes]) -> list[str]:
    return [f"{name} in {what}" for name, secret in secrets.items() if secret in text.encode()]
