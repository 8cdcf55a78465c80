"""Stands between a client and a server on the loopback, and cuts the connection at a chosen request: before it, or its answer."""

import socket
import threading
from contextlib import suppress
from typing import Literal

Where = Literal["request", "answer"]


class CuttingProxy:
    """Passes bytes both ways. `cut` says at which of the coming requests with a word in them a connection ends."""

    def __init__(self, port: int) -> None:
        """`port`: the server's."""
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._word = b""
        self._left = 0
        self._where: Where = "answer"
        self._lock = threading.Lock()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, word: bytes, number: int, where: Where) -> None:
        """Cut at request `number` (1: the next) with the word: `request`: the server never sees it; `answer`: it does, and the
        client never learns.
        """
        with self._lock:
            self._word, self._left, self._where = word, number, where

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            muted = threading.Event()
            answers = threading.Thread(target=self._answer, args=(server, client, muted), daemon=True)
            answers.start()
            try:
                while data := client.recv(65_536):
                    if self._is_cut(data):
                        if self._where == "answer":
                            muted.set()
                            server.sendall(data)
                            server.shutdown(socket.SHUT_WR)  # the server answers, and then sees its client gone
                            answers.join(20)
                        return
                    server.sendall(data)
            except OSError:
                return
            finally:
                for one in (client, server):  # closing alone does not end what the other thread waits for
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, muted: threading.Event) -> None:
        try:
            while data := server.recv(65_536):
                if not muted.is_set():
                    client.sendall(data)
        except OSError:
            return

    def _is_cut(self, data: bytes) -> bool:
        with self._lock:
            if not self._left or self._word not in data:
                return False
            self._left -= 1
            self.cuts += not self._left
            return not self._left
