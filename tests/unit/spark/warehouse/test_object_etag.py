"""An object's ETag is asked for with one request, and its content with none."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.spark.warehouse.object_path import ObjectPath, S3Settings

asked: list[str] = []


class Store(BaseHTTPRequestHandler):
    """Has one object."""

    def do_HEAD(self) -> None:
        asked.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("ETag", '"0f343b0931126a20f133d67c2b018a3b"')
        self.send_header("Content-Length", "5")
        self.send_header("Last-Modified", "Tue, 24 Nov 2026 10:00:00 GMT")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_store_s_own_mark_is_a_look_and_no_read(endpoint: str) -> None:
    path = ObjectPath.of_uri("s3://bucket/the/file.parquet", S3Settings(endpoint=endpoint))
    assert path.etag() == '"0f343b0931126a20f133d67c2b018a3b"'
    assert asked == ["HEAD /bucket/the/file.parquet"]
