"""Ours: `headrace registry run` beside a broker, for clients that ask a schema registry."""

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..harness.child import BenchFault, Child, free_port
from ..harness.servers import Servers
from ..harness.unavailable import Unavailable
from .headrace import Headrace
from .subjects import OURS

_READY_S = 60.0


class Registry:
    """One registry on a free loopback port; `start` returns when it is ready."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        words = [sys.executable, "-m", "headrace.cli.main", "registry", "run", "--port", str(port), "--bootstrap", bootstrap]
        self._child = Child([*words, "--status-file", str(folder / "registry.json")], folder / "registry.log", port=port)

    def start(self) -> None:
        self._child.start(_READY_S)
        deadline = time.monotonic() + _READY_S
        while not self._is_ready():
            self._child.assert_alive()
            if time.monotonic() > deadline:
                raise BenchFault(f"the registry was not ready in {_READY_S:.0f} s:\n{self._child.tail()}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._child.stop()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False


@contextmanager
def beside_ours(servers: Servers) -> Iterator[tuple[Headrace, Registry]]:
    """Give our broker, which runs, and a registry on it. Raises Unavailable where it does not run."""
    server = servers.running(OURS)
    if not isinstance(server, Headrace):
        raise Unavailable(f"{OURS} does not run")
    registry = Registry(servers.folder / "registry", server.bootstrap)
    registry.start()
    try:
        yield server, registry
    finally:
        registry.stop()
