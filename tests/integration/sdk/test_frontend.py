"""The sample frontend as a user runs it: a process, real HTTP, SIGTERM, sealed windows."""

import io
import json
import sys
import threading
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import fastavro

from headrace.client.connection.cluster import Cluster
from headrace.runtime.status import read_status
from headrace.sdk import ACCESS_LOG_SCHEMA
from headrace.wire.schema_id import unframe
from tests.integration.sdk.identities import acknowledged, records_of, reports_of, stored
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually, free_port

PATHS = ("/", "/about", "/products", "/products/3", "/api/time", "/missing", "/products/99", "/products?page=2&q=%20")


def _frontend(live: LiveSide, topic: str, folder: Path, port: int) -> Process:
    command = [sys.executable, "-m", "headrace.cli.main", "frontend", "run", "--port", str(port), "--topic", topic]
    command += ["--bootstrap", live.bootstrap, "--registry", live.registry_url]
    command += ["--schema-cache", str(folder / "schemas"), "--status-file", str(folder / "status.json")]
    return Process(command, folder / "frontend.log")


def _get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_each_request_is_one_event_and_sigterm_seals_its_run(live: LiveSide, cluster: Cluster, tmp_path: Path) -> None:
    topic, port = f"access-{uuid.uuid4().hex[:8]}", free_port()
    frontend = _frontend(live, topic, tmp_path, port).start()
    try:
        eventually(lambda: (read_status(tmp_path / "status.json") or {}).get("state") == "ready", what="the frontend is ready")
        asked: list[tuple[str, int, int]] = []

        def drive() -> None:
            for path in PATHS * 10:
                status, body = _get(f"http://127.0.0.1:{port}{path}")
                asked.append((path, status, len(body)))

        clients = [threading.Thread(target=drive) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert _get(f"http://127.0.0.1:{port}/healthz") == (200, b'{"status":"ok"}')
        assert json.loads(_get(f"http://127.0.0.1:{port}/api/time")[1])["now"]
        asked.append(("/api/time", 200, len(_get(f"http://127.0.0.1:{port}/api/time")[1])))
        asked.append(asked[-1])
    finally:
        code = frontend.stop()
    assert code == 0, frontend.output()
    parsed = fastavro.parse_schema(ACCESS_LOG_SCHEMA)
    events = []
    for record in records_of(cluster, topic):
        _, body = unframe(record.value or b"")
        event = fastavro.schemaless_reader(io.BytesIO(body), parsed, None)
        assert isinstance(event, dict)
        events.append((event["path"], event["status"], event["size_bytes"]))
        assert (event["client_ip"], event["method"], event["protocol"]) == ("127.0.0.1", "GET", "HTTP/1.1")
        assert str(event["user_agent"]).startswith("Python-urllib")
    assert sorted(events) == sorted(asked)
    assert {status for _, status, _ in asked} == {200, 404}
    reports = reports_of(cluster, topic)
    assert reports[-1].state == "closed"
    assert sorted(acknowledged(reports)) == sorted(stored(cluster, topic))


def test_a_port_that_is_taken_is_a_clear_error(live: LiveSide, tmp_path: Path) -> None:
    frontend = _frontend(live, "never", tmp_path, live.broker.port).start()
    eventually(lambda: not frontend.is_running())
    assert frontend.stop() == 1
    assert f"cannot listen on 127.0.0.1:{live.broker.port}" in frontend.output()
