"""A proxy on loopback that records each frame that passes: the source of real clients' frames in the corpus."""

import socket
import struct
import threading
from contextlib import suppress


class RecordingProxy:
    """Forwards connections to `to_port` while entered. `requests` and `responses` are whole frames, with their sizes."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.responses: list[tuple[int, int, bytes]] = []
        """(api key, version, frame)."""
        self._sockets: list[socket.socket] = [self._listener]

    def __enter__(self) -> "RecordingProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._to_port))
                self._sockets += [client, server]
                asked: dict[int, tuple[int, int]] = {}
                threading.Thread(target=self._requests, args=(client, server, asked), daemon=True).start()
                threading.Thread(target=self._responses, args=(server, client, asked), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with suppress(OSError):
            while frame := _frame(client):
                key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
                asked[correlation_id] = key, version
                self.requests.append(frame)
                server.sendall(frame)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _responses(self, server: socket.socket, client: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with suppress(OSError):
            while frame := _frame(server):
                key, version = asked.pop(struct.unpack_from(">i", frame, 4)[0])
                self.responses.append((key, version, frame))
                client.sendall(frame)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)


def _frame(from_: socket.socket) -> bytes:
    """Return the next frame, empty at the end."""
    front = _exactly(from_, 4)
    return front + _exactly(from_, struct.unpack(">i", front)[0]) if front else b""


def _exactly(from_: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = from_.recv(size - len(data))
        if not more:
            return b""
        data += more
    return bytes(data)
