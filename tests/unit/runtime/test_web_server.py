"""The HTTP server of every service: a thread of its own, an address that is refused clearly, an end that waits for answers."""

import socket
import threading
import urllib.request

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headrace.runtime.web_server import AddressTaken, WebServer, bound


def test_requests_under_way_are_answered_before_the_server_ends() -> None:
    arrived, may_answer = threading.Event(), threading.Event()

    def slow(request: Request) -> Response:
        arrived.set()
        may_answer.wait(10)
        return PlainTextResponse("done")

    listener = bound("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = WebServer(Starlette(routes=[Route("/", slow)]), listener, name="test")
    server.start()
    answers: list[bytes] = []
    client = threading.Thread(target=lambda: answers.append(urllib.request.urlopen(f"http://127.0.0.1:{port}/").read()))
    client.start()
    assert arrived.wait(10)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    may_answer.set()
    client.join(10)
    stopping.join(20)
    assert answers == [b"done"]
    assert not server.is_serving


def test_a_bound_address_refuses_connections_until_the_server_runs() -> None:
    with bound("127.0.0.1", 0) as listener, pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname(), timeout=5)


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(AddressTaken, match="stop what uses the port"):
        bound("127.0.0.1", other.getsockname()[1])


def test_a_port_that_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(AddressTaken, match=r"cannot listen on .*:70000"):
        bound("127.0.0.1", 70_000)
