"""The servers of one run, and what else its measures share: rounds, scratch folder, what was skipped and why."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from .unavailable import Unavailable


class Server(Protocol):
    """One server on loopback. `name` is its name in tables. The bench deletes `folder` and everything in it."""

    name: str
    folder: Path

    def version(self) -> str:
        """Return name and version as installed. Raises Unavailable."""

    def start(self) -> None:
        """Start it and return when it serves. Raises Unavailable, BenchFault."""

    def stop(self) -> None:
        """Stop it and everything it has started."""

    @property
    def pids(self) -> Sequence[int]:
        """The processes whose CPU and memory are the server's."""


class Servers:
    """Starts a server at its first use and keeps it until a measure that does not need it: an idle server takes some CPU, too."""

    def __init__(self, makers: Mapping[str, Callable[[Path], Server]], *, rounds: int, quick: bool) -> None:
        """`makers`: name → what makes that server on a folder of its own."""
        self.rounds = rounds
        self.quick = quick
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
        self.skipped: dict[str, str] = {}
        """What was not measured → why."""
        self.versions: dict[str, str] = {}
        self._makers = makers
        self._running: dict[str, Server] = {}

    def scaled(self, count: int, least: int = 1) -> int:
        """Return how many of `count` a run of this kind does: a fifth when quick."""
        return max(count // 5, least) if self.quick else count

    def running(self, name: str) -> Server | None:
        """Return the running server of that name. None: not part of this run, or not on this machine (see `skipped`)."""
        if name in self._running:
            return self._running[name]
        if name in self.skipped or name not in self._makers:
            return None
        server = self._makers[name](self.folder / name.replace(" ", "-").replace(",", "").lower())
        return server if self.try_start(name, server) else None

    def try_start(self, name: str, server: Server) -> bool:
        """Start `server` and keep it under `name` until `close` or `keep_only`. False, and a note, when it is not installed."""
        try:
            self.versions[server.name] = server.version()
            self._running[name] = server
            server.start()
        except Unavailable as reason:
            self.skipped[name] = str(reason)
            self._running.pop(name, None)
            return False
        except Exception:
            self._running.pop(name, None)
            with suppress(Exception):
                server.stop()
            raise
        return True

    def skip(self, name: str, reason: str) -> None:
        """Note that something was not measured, and why."""
        self.skipped[name] = reason

    def keep_only(self, names: set[str]) -> None:
        """Stop every server that is not among `names`, and delete its files."""
        for name in [name for name in self._running if name not in names]:
            server = self._running.pop(name)
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)

    def close(self) -> None:
        """Stop every server, also after a fault in stopping another, and delete the scratch folder."""
        for server in self._running.values():
            with suppress(Exception):
                server.stop()
        self._running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
