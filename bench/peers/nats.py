"""NATS with JetStream: one server, streams in files, driven with libnats."""

import socket
import subprocess
from collections.abc import Sequence

from ..drivers.build import built
from ..drivers.run import Driven
from ..harness.unavailable import program_path
from .disk_bytes import bytes_of
from .lifecycle import LoopbackServer
from .way import Way, drive_client

_PENDING = 4000


class Nats(LoopbackServer):
    """One server with JetStream."""

    name = "NATS JetStream"

    def version(self) -> str:
        return subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def command(self) -> Sequence[str]:
        return [_program(), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.data)]

    def ways(self) -> list[Way]:
        """Return how it is used. Raises Unavailable when its client cannot be built."""
        built("nats_produce"), built("nats_consume")
        return [
            Way(
                subject=self.name,
                how=f"file storage, {_PENDING} pending; push consumer without acks",
                count=300_000,
                produce=self._produce,
                consume=self._consume,
                disk_bytes=lambda topic: bytes_of(self.data, f"**/streams/{topic}/msgs/*.blk"),
                forget=self._forget,
            )
        ]

    def _produce(self, topic: str, count: int) -> Driven:
        return drive_client(self, "nats_produce", topic, count, _PENDING)

    def _consume(self, topic: str, count: int) -> Driven:
        return drive_client(self, "nats_consume", topic, count)

    def _forget(self, topic: str) -> None:
        # NATS's own line protocol: one request; the response arrives on an inbox.
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as wire:
            wire.sendall(
                b'CONNECT {"verbose":false}\r\nSUB _bench 1\r\n' + f"PUB $JS.API.STREAM.DELETE.{topic} _bench 0\r\n\r\n".encode()
            )
            response = b""
            while b'"success"' not in response and b'"error"' not in response:
                response += wire.recv(4096)


def _program() -> str:
    return program_path("nats-server", otherwise="NATS: there is no nats-server on the path (Debian: nats-server, libnats-dev)")
