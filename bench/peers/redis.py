"""Redis Streams: one server with an append-only file synced each second, driven with hiredis."""

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..drivers.build import built
from ..drivers.run import Driven, drive
from ..harness.child import Child, free_port
from ..harness.missing import Missing
from .peer import MESSAGE_BYTES, Way, bytes_of

_PIPELINE = 1000


class Redis:
    """One server on a free loopback port, everything below `folder`."""

    name = "Redis Streams"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._server = Child(["redis-server"], folder / "log", port=self.port)

    def version(self) -> str:
        return " ".join(subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout.split()[:3])

    def start(self) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        # A rewrite of the append-only file in the middle of a run would be the rewrite's figure.
        command = [_program(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(data), "--appendonly", "yes"]
        command += ["--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--save", ""]
        self._server = Child(command, self.folder / "log", port=self.port).start()

    def stop(self) -> None:
        self._server.stop()

    @property
    def pids(self) -> Sequence[int]:
        return [self._server.pid]

    def ways(self) -> list[Way]:
        """Return how it is used. Raises Missing when its client cannot be built."""
        built("redis_produce"), built("redis_consume")
        return [
            Way(
                subject=self.name,
                how=f"XADD, {_PIPELINE} pipelined, append-only file synced each second; XREADGROUP {_PIPELINE} NOACK",
                count=300_000,
                produce=self._produce,
                consume=self._consume,
                disk_bytes=self._disk_bytes,
                forget=self._forget,
            )
        ]

    def _produce(self, topic: str, count: int) -> Driven:
        self._written_before = bytes_of(self.folder / "data")
        command = [str(built("redis_produce")), str(self.port), topic, str(count), str(MESSAGE_BYTES), str(_PIPELINE)]
        return drive(command, lambda: self.pids)

    def _consume(self, topic: str, count: int) -> Driven:
        command = [str(built("redis_consume")), str(self.port), topic, str(count), str(MESSAGE_BYTES), str(_PIPELINE)]
        return drive(command, lambda: self.pids)

    def _disk_bytes(self, _: str) -> int:
        """All topics share one file: what it has grown by since this topic's first message."""
        return bytes_of(self.folder / "data") - self._written_before

    def _forget(self, topic: str) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as wire:
            wire.sendall(f"DEL {topic}\r\n".encode())
            wire.recv(64)


def _program() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise Missing("Redis: there is no redis-server on the path (Debian: redis-server, libhiredis-dev)")
    return found
