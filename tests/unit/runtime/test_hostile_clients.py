"""A server over either of uvicorn's parsers, against clients that wish it no good: each bound holds, and health is answered."""

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.runtime import web_server
from headrace.runtime.http_access import HttpAccess
from headrace.runtime.serving import bounded_protocol
from headrace.runtime.serving.bounded_protocol import HEAD_BYTES, HEAD_LINES, PIECE_BYTES
from headrace.runtime.web_server import WebServer, bound
from tests.support.certificates import Authority

ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORT_S = 0.3


class Served:
    """One server, and a gate that holds its slow requests."""

    def __init__(self, parser: type, most_requests: int | None = None) -> None:
        self.may_answer = threading.Event()
        self.arrived = threading.Semaphore(0)

        def slow(request: Request) -> Response:
            self.arrived.release()
            self.may_answer.wait(20)
            return PlainTextResponse("slow")

        async def length(request: Request) -> Response:
            return PlainTextResponse(str(len(await request.body())))

        async def large(request: Request) -> Response:
            return PlainTextResponse("x" * 20_000_000)

        async def healthz(request: Request) -> Response:
            return PlainTextResponse("alive")

        routes = [Route("/slow", slow), Route("/large", large), Route("/healthz", healthz)]
        routes += [Route("/", length, methods=["GET", "POST"])]
        listener = bound("127.0.0.1", 0)
        self.address = listener.getsockname()
        self.server = WebServer(Starlette(routes=routes), listener, name="test", most_requests=most_requests)
        self.server.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=10)

    def say(self, request: bytes) -> bytes:
        """Return all that is answered until the server closes, or the peer's reset."""
        with self.connect() as client:
            return answer_to(client, request)

    def stop(self) -> None:
        self.may_answer.set()
        self.server.stop()


def answer_to(client: socket.socket, request: bytes) -> bytes:
    answer = b""
    try:
        client.sendall(request)
        while more := client.recv(65_536):
            answer += more
    except ConnectionError:
        pass
    return answer


@pytest.fixture(params=[HttpToolsProtocol, H11Protocol], ids=["httptools", "h11"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    chosen: type = request.param
    monkeypatch.setattr(web_server, "bounded_protocol", lambda: bounded_protocol.bounded_protocol(chosen))
    return chosen


@pytest.fixture
def served(parser: type) -> Iterator[Served]:
    made = Served(parser)
    yield made
    made.stop()


@pytest.fixture
def impatient(parser: type, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(bounded_protocol, "REQUEST_S", SHORT_S)
    monkeypatch.setattr(bounded_protocol, "UNTAKEN_S", SHORT_S)
    made = Served(parser)
    yield made
    made.stop()


@pytest.mark.parametrize("what", ["lines", "name", "value", "path", "trailer"])
def test_a_head_without_end_is_ended_by_the_server_and_takes_no_memory(served: Served, what: str) -> None:
    begin = {
        "lines": b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        "name": b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        "value": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        "path": b"GET /",
        "trailer": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: ",
    }[what]
    more = b"X-Line: some value\r\n" * 1_000 if what == "lines" else b"x" * 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent = 0
    with served.connect() as client:
        client.sendall(begin)
        with suppress(ConnectionError):
            while sent < 20_000_000:
                client.sendall(more)
                sent += len(more)
    assert sent < 20_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000
    assert b" 200 " in served.say(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))


def test_many_lines_in_a_short_head_are_refused(served: Served) -> None:
    lines = b"".join(b"X-%d: 1\r\n" % number for number in range(HEAD_LINES + 1))
    answer = served.say(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


def test_a_body_in_small_chunks_and_requests_behind_each_other_are_taken(served: Served) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (1_000, b"y" * 1_000) for _ in range(1_000)) + b"0\r\n\r\n"
    posted = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    lengthy = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" + b"z" * 300_000
    last = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = served.say(posted + lengthy + ASKED * 20 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 23
    assert b"1000000" in answer
    assert b"300000" in answer


def test_chunks_of_one_byte_without_end_are_refused(served: Served) -> None:
    chunks = b"1\r\nx\r\n" * (HEAD_BYTES + 4 * PIECE_BYTES)
    posted = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    assert served.say(posted).startswith((b"HTTP/1.1 431 ", b""))


def test_two_content_lengths_that_differ_are_refused(served: Served) -> None:
    both = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"
    assert served.say(both).startswith(b"HTTP/1.1 400 ")


def test_connections_without_a_whole_request_are_closed_in_time(impatient: Served) -> None:
    begun = time.monotonic()
    halves = [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf", ASKED + b"GET /"]
    clients = [impatient.connect() for _ in halves]
    for client, half in zip(clients, halves, strict=True):
        client.sendall(half)
    answers = [answer_to(client, b"") for client in clients[:3]]
    assert [b"408" in answer for answer in answers] == [True, True, True]
    assert SHORT_S * 0.5 < time.monotonic() - begun < 5
    # A half request behind a whole one: h11 looks at it when its next byte comes.
    answer = answer_to(clients[3], b" ")
    assert b" 200 " in answer
    assert b"408" in answer


def test_a_connection_that_asks_now_and_then_is_kept(impatient: Served) -> None:
    with impatient.connect() as client:
        for _ in range(2):
            client.sendall(ASKED)
            assert b" 200 " in client.recv(65_536)
            client.settimeout(2 * SHORT_S)
            with pytest.raises(TimeoutError):
                client.recv(1)
            client.settimeout(10)


def test_a_request_that_is_answered_slowly_is_not_late(impatient: Served) -> None:
    with impatient.connect() as client:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert impatient.arrived.acquire(timeout=10)
        client.settimeout(2 * SHORT_S)
        with pytest.raises(TimeoutError):
            client.recv(1)
        impatient.may_answer.set()
        client.settimeout(10)
        assert b" 200 " in answer_to(client, b"")


def test_a_client_that_takes_nothing_of_its_response_is_let_go(impatient: Served) -> None:
    with impatient.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deadline = time.monotonic() + 10
        while impatient.server._server.server_state.connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not impatient.server._server.server_state.connections


def test_silent_connections_stop_nobody(parser: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "most_connections", lambda: 20)
    served = Served(parser, most_requests=4)
    with served.connect() as faithful:
        faithful.sendall(ASKED)
        assert b" 200 " in faithful.recv(65_536)
        silent = [served.connect() for _ in range(60)]
        assert b" 200 " in served.say(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        # The silent ones that came first had to go, not the client that had asked before them.
        faithful.sendall(ASKED)
        assert b" 200 " in faithful.recv(65_536)
        assert silent[0].recv(1) == b""
        assert len(served.server._server.server_state.connections) <= 20
        for one in silent:
            one.close()
    served.stop()


def test_requests_are_bounded_and_health_is_answered_beyond_the_bound(parser: type) -> None:
    served = Served(parser, most_requests=3)
    held = [served.connect() for _ in range(3)]
    for client in held:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert served.arrived.acquire(timeout=10)
    closing = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    refused = served.say(b"GET /" + closing)
    assert b" 503 " in refused
    assert b"retry-after: 1" in refused.lower()
    assert b"alive" in served.say(b"GET /healthz" + closing)
    served.may_answer.set()
    assert all(b"slow" in answer_to(client, b"") for client in held)
    assert b" 200 " in served.say(b"GET /" + closing)
    served.stop()


def test_a_handshake_that_is_never_made_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "REQUEST_S", SHORT_S)
    certificate, key = Authority(tmp_path).issue("service", hosts=("127.0.0.1",))
    listener = bound("127.0.0.1", 0)
    server = WebServer(Starlette(), listener, name="test", access=HttpAccess(certificate=certificate, key=key))
    server.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=10) as silent:
            begun = time.monotonic()
            assert answer_to(silent, b"") == b""
            assert time.monotonic() - begun < 5, "asyncio's own time for a handshake is a minute"
    finally:
        server.stop()
