"""The api-server is warmed up before the first task asks it: a task gives up after five seconds, and tries again much later."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.local.airflow.runs import warm_up


@pytest.mark.parametrize(("status", "is_warm"), [(200, True), (500, False)])
def test_the_api_for_tasks_is_asked_once_and_without_a_token(status: int, is_warm: bool) -> None:
    """Fault: the first task of a platform waited for its start up to sixteen seconds, twice over."""
    asked: list[tuple[str, str | None]] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *words: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        layout: Any = SimpleNamespace(airflow_url=f"http://127.0.0.1:{server.server_port}")
        assert warm_up(layout) is is_warm
        server.shutdown()
        thread.join()
    assert asked == [("/execution/health/ping", None)]


def test_an_api_server_that_is_gone_is_no_fault() -> None:
    layout: Any = SimpleNamespace(airflow_url="http://127.0.0.1:9")
    assert not warm_up(layout)
