"""The small HTTP server: its responses, and its bounds against bad clients."""

import http.client
import socket
from collections.abc import Iterator

import pytest

from headrace.runtime.monitoring import http_server
from headrace.runtime.monitoring.http_server import CONNECTIONS, REQUEST_BYTES, HttpServer, Page
from headrace.runtime.monitoring.listening import AddressInUse


def _fails() -> Page:
    raise ValueError("no such thing")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    pages = {
        "/healthz": lambda: Page(200, "application/json", b'{"alive": true}\n'),
        "/ill": lambda: Page(503, "text/plain", b"ill\n"),
        "/large": lambda: Page(200, "text/plain", b"x" * 5_000_000),
        "/fails": _fails,
    }
    running = HttpServer("127.0.0.1", 0, pages)
    running.start()
    yield running
    running.stop()


def asked(server: HttpServer, path: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    return response.status, response.read(), {name.lower(): value for name, value in response.getheaders()}


def raw(server: HttpServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(request)
        answer = b""
        while more := client.recv(65_536):
            answer += more
    return answer


def test_a_page_is_answered_with_its_length_and_type(server: HttpServer) -> None:
    status, body, headers = asked(server, "/healthz?verbose=1")
    assert (status, body) == (200, b'{"alive": true}\n')
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(body))
    assert headers["connection"] == "close"


def test_a_host_that_is_not_ours_is_refused_and_no_page_may_be_framed(server: HttpServer) -> None:
    assert raw(server, b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n").startswith(b"HTTP/1.1 421 Misdirected Request\r\n")
    assert raw(server, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    _, _, headers = asked(server, "/healthz")
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_head_is_answered_without_the_body(server: HttpServer) -> None:
    status, body, headers = asked(server, "/healthz", "HEAD")
    assert (status, body, headers["content-length"]) == (200, b"", "16")


def test_a_page_larger_than_socket_buffers_arrives_whole(server: HttpServer) -> None:
    assert len(asked(server, "/large")[1]) == 5_000_000


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/nowhere", "GET", 404), ("/healthz", "POST", 405), ("/ill", "GET", 503), ("/fails", "GET", 500)],
)
def test_what_is_not_well_has_its_status(server: HttpServer, path: str, method: str, status: int) -> None:
    assert asked(server, path, method)[0] == status


def test_whoever_asks_for_nothing_there_is_told_what_there_is(server: HttpServer) -> None:
    assert b"/healthz" in asked(server, "/")[1]


def test_garbage_is_a_bad_request_and_a_header_without_end_is_too_long(server: HttpServer) -> None:
    assert raw(server, b"\x00\x00\x00\x10garbage\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(server, b"GET / HTTP/1.1\r\nX: ".ljust(REQUEST_BYTES + 1, b"y")).startswith(b"HTTP/1.1 431 ")


def test_a_request_in_pieces_is_put_together(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        for piece in (b"GE", b"T /healthz HT", b"TP/1.1\r\nHost: x\r", b"\n\r\n"):
            client.sendall(piece)
        assert client.recv(1_000).startswith(b"HTTP/1.1 200 ")


def test_held_connections_give_way_to_a_health_check(server: HttpServer) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(CONNECTIONS + 5)]
    for one in held:
        one.sendall(b"GET /healthz HTTP/1.1\r\n")  # and never the rest
    assert asked(server, "/healthz")[0] == 200
    try:
        assert held[0].recv(1) == b"", "the oldest was closed"
    except ConnectionResetError:
        pass  # closed before the server had read what it had sent
    for one in held:
        one.close()


def test_a_connection_that_says_nothing_is_closed_in_the_end(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "DEADLINE_MS", 50)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        assert client.recv(1) == b""
    assert asked(server, "/healthz")[0] == 200


def test_a_port_that_is_taken_is_named_with_what_to_do(server: HttpServer) -> None:
    with pytest.raises(AddressInUse, match=f"127.0.0.1:{server.port}.*--http-port"):
        HttpServer("127.0.0.1", server.port, {}).start()


def test_after_the_stop_nobody_listens(server: HttpServer) -> None:
    port = server.port
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_page_that_fails_is_logged_once_a_second_however_often_it_is_asked_for(
    server: HttpServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._faults, "_now_ms", lambda: 1_000)
    for _ in range(20):
        assert asked(server, "/fails")[0] == 500
    failed = [record for record in caplog.records if record.getMessage() == "page_failed"]
    assert len(failed) == 1
    assert failed[0].exc_info is not None
    assert server._faults.counts == {"page_failed": 20}
