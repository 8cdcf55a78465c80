"""Stands between Kafka clients and one broker, and cuts a network in one direction: for the connections on which a chosen request
passes, from that request on. Their other direction continues, and so do all other connections.

The broker tells the proxy's address (`advertised.listeners`), so that no client goes past it.
"""

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

PRODUCE = 0
_HEAD = struct.Struct(">ihhi")  # length, api key, version, correlation id

Lost = Literal["requests", "answers"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Which connections are cut: those on which a Produce request passes that has the one word in it and not the other."""

    lost: Lost
    word: bytes
    without: bytes = b"\0no such word\0"

    def takes(self, request: bytes) -> bool:
        api_key = _HEAD.unpack_from(request)[1]
        return api_key == PRODUCE and self.word in request and self.without not in request


class OneWayProxy:
    """Passes whole requests and bytes of answers. `cuts` may be changed at any time; a cut connection stays cut until it ends."""

    def __init__(self) -> None:
        self.cuts: tuple[Cut, ...] = ()
        self.met: dict[Cut, int] = {}
        """Cut → how many connections it has met."""
        self._broker = 0
        self._cut: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, port: int) -> None:
        """Say where the broker is. Nothing is passed before."""
        self._broker = port

    def heal(self) -> None:
        """Cut nothing any more, and end the connections that were cut."""
        self.cuts = ()
        for one in self._cut:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._broker)) as broker:
            muted = threading.Event()
            threading.Thread(target=self._answer, args=(broker, client, muted), daemon=True).start()
            try:
                while (request := _request(client)) is not None:
                    cut = next((one for one in self.cuts if one.takes(request)), None)
                    if cut is not None:
                        self.met[cut] = self.met.get(cut, 0) + 1
                        self._cut.append(client)
                    if cut is not None and cut.lost == "requests":
                        while client.recv(65_536):  # whatever it sends from now on is lost; answers to what it sent before pass
                            pass
                        return
                    if cut is not None:
                        muted.set()
                    broker.sendall(request)
            finally:
                for one in (client, broker):  # closing alone does not end what the other thread waits for
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

    def _answer(self, broker: socket.socket, client: socket.socket, muted: threading.Event) -> None:
        with suppress(OSError):
            while data := broker.recv(65_536):
                if not muted.is_set():
                    client.sendall(data)


def _request(client: socket.socket) -> bytes | None:
    """Return the next whole request with its length; None when the client has ended."""
    head = _whole(client, 4)
    body = None if head is None else _whole(client, int.from_bytes(head, "big"))
    return None if head is None or body is None else head + body


def _whole(client: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        more = client.recv(count - len(found))
        if not more:
            return None
        found += more
    return bytes(found)
