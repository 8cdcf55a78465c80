"""Asking the audit service: what it says is handed on, and what goes wrong on the way is distinguished."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.audit import client
from tests.support.processes import free_port


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            serving.join()


def test_windows_come_as_the_service_tells_them() -> None:
    with answering(200, json.dumps([{"topic": "a b"}]).encode()) as (url, asked):
        assert client.completeness(url, "a b") == [{"topic": "a b"}]
    assert asked == ["GET /api/completeness?topic=a+b&by=window&limit=1000"]


def test_windows_are_asked_for_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 1)
    page = {"topic": "t", "window_start_ms": 5}
    with answering(200, json.dumps([page]).encode()) as (url, asked), pytest.MonkeyPatch.context() as patch:
        real = client._ask

        def twice(*words: object) -> object:
            return real(*words) if len(asked) < 2 else []  # type: ignore[arg-type]

        patch.setattr(client, "_ask", twice)
        assert client.completeness(url, "t") == [page, page]
    assert asked[1].endswith("&limit=1&after=t%2F5")


def test_a_refusal_carries_the_services_own_words() -> None:
    with answering(400, b'{"error": "no such topic"}') as (url, _), pytest.raises(client.ServiceRefused, match="no such topic"):
        client.recount(url, tier="offline", topic="t")


@pytest.mark.parametrize(("status", "body"), [(500, b"oops"), (200, b"<html>"), (200, b'{"not": "a list"}')])
def test_what_is_no_answer_is_asked_again(status: int, body: bytes) -> None:
    with answering(status, body) as (url, _), pytest.raises(client.ServiceUnreachable) as raised:
        client.completeness(url)
    assert raised.value.retriable


def test_a_silent_service_is_named_with_its_address() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(client.ServiceUnreachable, match=url):
        client.completeness(url)
