"""One HTTP call against real servers on loopback: good answers whole, and every bad one within its bounds."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.runtime.http_call import HttpAddress, HttpAnswerTooLong, NoHttpAnswer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@contextmanager
def server(*parts: bytes, pause_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a server that sends these bytes to each connection, and the requests it got."""
    requests: list[bytes] = []
    ending = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not ending.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                requests.append(peer.recv(65_536))
                try:
                    for part in parts:
                        peer.sendall(part)
                        if ending.wait(pause_s):
                            return
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        finally:
            ending.set()
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_the_answer_is_returned_whole_whatever_its_status() -> None:
    with server(HEAD.replace(b"200 OK", b"503 Busy") + b"Content-Length: 4\r\n\r\n", b"wait") as (url, requests):
        answer = HttpAddress(url + "/prefix").call("POST", "/path?a=1", b"body", {"X-A": "1"}, within_ms=5_000)
    assert (answer.status, answer.body, answer.media_type, answer.is_success) == (503, b"wait", "text/plain", False)
    assert requests[0].startswith(b"POST /prefix/path?a=1 HTTP/1.1\r\n")
    assert b"X-A: 1" in requests[0]


def test_without_a_path_the_address_itself_is_asked_with_its_query() -> None:
    with server(HEAD + b"Content-Length: 0\r\n\r\n") as (url, requests):
        assert HttpAddress(url + "/hook?key=1").call("GET", within_ms=5_000).is_success
    assert requests[0].startswith(b"GET /hook?key=1 HTTP/1.1\r\n")


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    """A token in a header would go wherever the answer says."""
    with server(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n") as (url, requests):
        assert HttpAddress(url).call("GET", within_ms=5_000).status == 302
    assert len(requests) == 1


def test_an_answer_longer_than_the_bound_is_refused_and_not_held() -> None:
    with (
        server(HEAD + b"Content-Length: 1000\r\n\r\n", b"x" * 1_000) as (url, _),
        pytest.raises(HttpAnswerTooLong, match="10 bytes"),
    ):
        HttpAddress(url).call("GET", within_ms=5_000, most_bytes=10)


def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline() -> None:
    """Fault: each byte restarted the wait, so that a slow server held its caller for as long as it liked."""
    began = time.monotonic()
    with server(HEAD + b"Content-Length: 1000\r\n\r\n", *[b"x"] * 400, pause_s=0.05) as (url, _):
        with pytest.raises(NoHttpAnswer, match="no whole answer within 200 ms"):
            HttpAddress(url).call("GET", within_ms=200)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "sent",
    [b"", b"SSH-2.0-OpenSSH\r\n", HEAD + b"Content-Length: 9\r\n\r\nhalf", HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhal"],
    ids=["nothing", "not HTTP", "cut", "cut in a chunk"],
)
def test_what_is_no_whole_answer_is_none(sent: bytes) -> None:
    with server(sent) as (url, _), pytest.raises(NoHttpAnswer):
        HttpAddress(url).call("GET", within_ms=5_000)


def test_a_server_that_nobody_runs_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(NoHttpAnswer, match="refused"):
        HttpAddress(f"http://127.0.0.1:{port}").call("GET", within_ms=5_000)


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://localhost/", "http://", ""])
def test_another_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not an address of an HTTP server"):
        HttpAddress(url)
