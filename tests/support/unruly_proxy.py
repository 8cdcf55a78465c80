"""Stands between loads and their catalog, and drops, delays, cuts off and repeats: by chance, and more often where it hurts.

PostgreSQL (bytes)    dropped: the connection ends before the request; cut: after it, without the answer; late; and an answer
                      that comes twice
REST (HTTP)           the same, and a request that reaches the catalog twice, of which the client hears the second answer
"""

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMITS = (b"COMMIT", b"UPDATE iceberg_tables", b"INSERT INTO iceberg_tables", b"UPDATE headrace_leases")
LONGEST_S = 2.0


class Chances:
    """What happens to a request. Calm, until `trouble` is called. `seen` counts requests; `at` is told of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chance = random.Random(0)
        self._of_all = self._of_commits = 0.0
        self.kinds: tuple[str, ...] = ()
        self.done: Counter[str] = Counter()
        self.seen = 0
        self.at: Callable[[int], None] | None = None

    def trouble(self, seed: int, *, of_all: float, of_commits: float) -> None:
        with self._lock:
            self._chance, self._of_all, self._of_commits, self.seen = random.Random(seed), of_all, of_commits, 0

    def calm(self) -> None:
        with self._lock:
            self._of_all = self._of_commits = 0.0
            self.at = None

    def draw(self, *, is_commit: bool) -> tuple[str, float]:
        """Return the trouble of this request (empty: none), and the seconds of a delay."""
        with self._lock:
            self.seen += 1
            at, number = self.at, self.seen
            found = ""
            if self._chance.random() < (self._of_commits if is_commit else self._of_all):
                found = self._chance.choice(self.kinds)
                self.done[found] += 1
            delay_s = self._chance.uniform(0.05, LONGEST_S)
        if at is not None:
            at(number)
        return found, delay_s


class PostgresqlProxy:
    """Passes bytes both ways."""

    def __init__(self, port: int) -> None:
        """`port`: the server's."""
        self.chances = Chances()
        self.chances.kinds = ("drop", "cut", "late", "late answer", "answer twice")
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self._server)) as server:
            trouble: list[tuple[str, float]] = []
            answers = threading.Thread(target=self._answer, args=(server, client, trouble), daemon=True)
            answers.start()
            try:
                while data := client.recv(65_536):
                    found, delay_s = self.chances.draw(is_commit=any(word in data for word in COMMITS))
                    if found == "drop":
                        return
                    if found == "late":
                        time.sleep(delay_s)
                    elif found:
                        trouble.append((found, delay_s))
                    server.sendall(data)
                    if found == "cut":
                        server.shutdown(socket.SHUT_WR)  # the server answers, and then sees its client gone
                        answers.join(20)
                        return
            except OSError:
                return
            finally:
                for one in (client, server):  # closing alone does not end what the other thread waits for
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, trouble: list[tuple[str, float]]) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                found, delay_s = trouble[0] if trouble else ("", 0.0)
                if found == "cut":
                    continue
                trouble[:] = []
                if found == "late answer":
                    time.sleep(delay_s)
                client.sendall(data * 2 if found == "answer twice" else data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)  # a server that ends its connection ends the client's


class HttpProxy:
    """Passes whole requests and answers."""

    def __init__(self, port: int) -> None:
        """`port`: the server's."""
        chances = self.chances = Chances()
        chances.kinds = ("drop", "cut", "late", "late answer", "request twice", "request twice")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found, delay_s = chances.draw(is_commit=self.command == "POST")
                if found == "drop":
                    self.close_connection = True
                    return
                if found == "late":
                    time.sleep(delay_s)
                answer = self._asked(body)
                if found == "request twice":
                    answer = self._asked(body)
                if found == "cut":
                    self.close_connection = True
                    return
                if found == "late answer":
                    time.sleep(delay_s)
                status, kind, content = answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def _asked(self, body: bytes) -> tuple[int, str, bytes]:
                server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
                    headers["Accept-Encoding"] = "identity"
                    server.request(self.command, self.path, body, headers)
                    answer = server.getresponse()
                    return answer.status, answer.getheader("Content-Type") or "application/json", answer.read()
                finally:
                    server.close()

            do_GET = do_POST = do_DELETE = do_HEAD = _pass

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def handle(self) -> None:
                with suppress(OSError):  # a client that was killed
                    super().handle()

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
