"""NATS with JetStream: one server, streams in files, driven with libnats."""

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

_PENDING = 4000


class Nats:
    """One server on a free loopback port, everything below `folder`."""

    name = "NATS JetStream"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._server = Child(["nats-server"], folder / "log", port=self.port)

    def version(self) -> str:
        return subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self) -> None:
        command = [_program(), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "data")]
        self._server = Child(command, self.folder / "log", port=self.port).start()

    def stop(self) -> None:
        self._server.stop()

    @property
    def pids(self) -> Sequence[int]:
        return [self._server.pid]

    def ways(self) -> list[Way]:
        """Return how it is used. Raises Missing when its client cannot be built."""
        built("nats_produce"), built("nats_consume")
        return [
            Way(
                subject=self.name,
                how=f"file storage, {_PENDING} pending; push consumer without acks",
                count=300_000,
                produce=self._produce,
                consume=self._consume,
                disk_bytes=lambda topic: bytes_of(self.folder / "data", f"**/streams/{topic}/msgs/*.blk"),
                forget=self._forget,
            )
        ]

    def _produce(self, topic: str, count: int) -> Driven:
        command = [str(built("nats_produce")), str(self.port), topic, str(count), str(MESSAGE_BYTES), str(_PENDING)]
        return drive(command, lambda: self.pids)

    def _consume(self, topic: str, count: int) -> Driven:
        return drive([str(built("nats_consume")), str(self.port), topic, str(count), str(MESSAGE_BYTES)], lambda: self.pids)

    def _forget(self, topic: str) -> None:
        # NATS's own line protocol: one request, its answer on an inbox.
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as wire:
            wire.sendall(
                b'CONNECT {"verbose":false}\r\nSUB _bench 1\r\n' + f"PUB $JS.API.STREAM.DELETE.{topic} _bench 0\r\n\r\n".encode()
            )
            answer = b""
            while b'"success"' not in answer and b'"error"' not in answer:
                answer += wire.recv(4096)


def _program() -> str:
    found = shutil.which("nats-server")
    if found is None:
        raise Missing("NATS: there is no nats-server on the path (Debian: nats-server, libnats-dev)")
    return found
