"""Redis Streams: one server with an append-only file synced each second, driven with hiredis."""

import socket
import subprocess
from collections.abc import Sequence

from ..drivers.build import built
from ..drivers.run import Driven
from ..harness.unavailable import program_path
from .disk_bytes import bytes_of
from .lifecycle import LoopbackServer
from .way import Way, drive_client

_PIPELINE = 1000


class Redis(LoopbackServer):
    """One server with an append-only file."""

    name = "Redis Streams"

    def version(self) -> str:
        return " ".join(subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout.split()[:3])

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)

    def command(self) -> Sequence[str]:
        # No rewrite of the append-only file: in the middle of a run it would be what is measured.
        settings = ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--save", ""]
        return [_program(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.data), *settings]

    def ways(self) -> list[Way]:
        """Return how it is used. Raises Unavailable when its client cannot be built."""
        built("redis_produce"), built("redis_consume")
        return [
            Way(
                subject=self.name,
                how=f"XADD, {_PIPELINE} pipelined, append-only file synced each second; XREADGROUP {_PIPELINE} NOACK",
                count=300_000,
                produce=self._produce,
                consume=self._consume,
                disk_bytes=lambda _: bytes_of(self.data) - self._bytes_before,
                forget=self._forget,
            )
        ]

    def _produce(self, topic: str, count: int) -> Driven:
        self._bytes_before = bytes_of(self.data)
        return drive_client(self, "redis_produce", topic, count, _PIPELINE)

    def _consume(self, topic: str, count: int) -> Driven:
        return drive_client(self, "redis_consume", topic, count, _PIPELINE)

    def _forget(self, topic: str) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as wire:
            wire.sendall(f"DEL {topic}\r\n".encode())
            wire.recv(64)


def _program() -> str:
    return program_path(
        "redis-server", otherwise="Redis: there is no redis-server on the path (Debian: redis-server, libhiredis-dev)"
    )
