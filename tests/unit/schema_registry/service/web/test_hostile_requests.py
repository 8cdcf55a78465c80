"""Requests that cost much or end early: short ones do not wait behind them, one bad schema stops nothing else."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from headrace.runtime.web_server import WebServer, bound
from headrace.schema_registry.service.records import SchemaRecord
from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.web import http_exchange
from headrace.schema_registry.service.web.application import application
from tests.unit.schema_registry.conftest import Api
from tests.unit.schema_registry.memory_store import MemoryStore

CLICK: dict[str, Any] = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}
POISON = (
    '{"type":"record","name":"Click","fields":[{"name":"page","type":"string"},{"name":"x","type":"double","default":Infinity}]}'
)
BROKEN = '{"type":"record","name":"Click"'


def put(store: MemoryStore, schema: str, *, version: int, schema_id: int, subject: str = "s") -> None:
    record = SchemaRecord(subject=subject, version=version, schema_id=schema_id, schema=schema, references=(), schema_type="AVRO")
    assert store.write([record], None) is None


def test_a_default_beyond_a_double_is_refused_and_poisons_nothing(api: Api) -> None:
    text = POISON.replace("Infinity", "1e999")
    assert api.ask("POST", "/subjects/s/versions", {"schema": text}) == (422, 42201)
    assert api.register("s", CLICK)[0] == 200


@pytest.mark.parametrize("stored", [POISON, BROKEN])
def test_a_stored_schema_that_cannot_be_parsed_blocks_nothing_else(api: Api, store: MemoryStore, stored: str) -> None:
    put(store, json.dumps(CLICK, separators=(",", ":")), version=1, schema_id=1)
    put(store, stored, version=2, schema_id=2)
    assert api.ask("GET", "/schemas/ids/2?format=resolved")[0] == 200
    assert api.ask("GET", "/schemas/ids/2/schema") == (200, stored), "no JSON is told as text"
    assert api.ask("GET", "/subjects/s/versions") == (200, [1, 2])
    wider = {**CLICK, "fields": [*CLICK["fields"], {"name": "y", "type": "int", "default": 1}]}
    assert api.register("s", wider)[0] == 200
    narrow = {**CLICK, "fields": [{"name": "y", "type": "string"}]}
    assert api.register("s", narrow) == (409, 409), "what can be parsed is still compared"
    assert api.ask("DELETE", "/subjects/s/versions/2") == (200, 2)


def test_a_broken_newest_version_is_passed_over_for_the_one_before_it(api: Api, store: MemoryStore) -> None:
    put(store, json.dumps(CLICK, separators=(",", ":")), version=1, schema_id=1)
    put(store, BROKEN, version=2, schema_id=2)
    assert api.register("s", {**CLICK, "fields": [{"name": "y", "type": "string"}]}) == (409, 409)


class _Slow(SchemaRegistry):
    """Parsing takes until it may continue, where the text is long."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.may_go_on = threading.Event()
        self.at_work = threading.Semaphore(0)

    def parse(self, text: str, *words: Any, **more: Any) -> Any:
        if len(text) > http_exchange.HEAVY_BYTES:
            self.at_work.release()
            self.may_go_on.wait(20)
        return super().parse(text, *words, **more)

    def resolved(self, content: Any) -> str:
        self.at_work.release()
        self.may_go_on.wait(20)
        return super().resolved(content)


Slow = tuple[_Slow, WebServer]


def port_of(slow: Slow) -> int:
    port: int = slow[1]._listener.getsockname()[1]
    return port


def asked(slow: Slow, method: str, path: str, schema: dict[str, Any] | None = None, timeout: float = 30) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(slow), timeout=timeout)
    try:
        connection.request(method, path, None if schema is None else json.dumps({"schema": json.dumps(schema)}))
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def slow() -> Iterator[Slow]:
    store = MemoryStore()
    registry = _Slow(store)
    listener = bound("127.0.0.1", 0)
    server = WebServer(application(registry, store), listener, name="test", drain_s=1)  # type: ignore[arg-type]
    server.start()
    yield registry, server
    registry.may_go_on.set()
    server.stop()


def test_long_schemas_and_resolved_ones_hold_neither_the_loop_nor_the_threads(slow: Slow) -> None:
    registry = slow[0]
    assert asked(slow, "POST", "/subjects/s/versions", CLICK) == 200
    long = {**CLICK, "doc": "x" * http_exchange.HEAVY_BYTES}
    askers = [threading.Thread(target=asked, args=(slow, "GET", "/schemas/ids/1?format=resolved"))]
    askers += [threading.Thread(target=asked, args=(slow, "POST", "/subjects/t/versions", long)) for _ in range(60)]
    for one in askers:
        one.start()
    for _ in range(http_exchange.HEAVY_THREADS):
        assert registry.at_work.acquire(timeout=10)
    assert asked(slow, "POST", "/subjects/u/versions", CLICK, timeout=5) == 200
    assert asked(slow, "GET", "/schemas/ids/1", timeout=5) == 200
    assert asked(slow, "GET", "/healthz", timeout=5) == 200
    assert not registry.at_work.acquire(blocking=False), "no more threads than these work on long schemas"
    registry.may_go_on.set()
    for one in askers:
        one.join(20)


def test_long_comparisons_are_made_before_other_writes_have_to_wait(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided while others wait compares nothing, unless the subject changed meanwhile."""
    from headrace.schema_registry.service import stored_schemas

    assert api.register("s", CLICK)[0] == 200
    compared = []
    real = stored_schemas.breaches
    monkeypatch.setattr(stored_schemas, "breaches", lambda *words: (compared.append(1), real(*words))[1])
    assert api.register("s", {**CLICK, "doc": "other"})[0] == 200
    assert compared == [1]


def test_a_post_that_ends_early_is_no_fault_of_ours(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port_of(slow))) as client:
            client.sendall(b"POST /subjects/s/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
    assert asked(slow, "GET", "/healthz") == 200, "behind them on the same loop"
    state = slow[1]._server.server_state
    deadline = time.monotonic() + 10
    while state.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not state.connections
    assert [one.levelname for one in caplog.records if one.levelname == "ERROR"] == []
    assert ClientDisconnect.__name__ not in caplog.text


def test_a_schema_names_at_most_so_many_others(api: Api) -> None:
    one = {"name": "a", "subject": "s", "version": 1}
    body = {"schema": json.dumps(CLICK), "references": [one] * (http_exchange.MOST_REFERENCES + 1)}
    assert api.ask("POST", "/subjects/s/versions", body) == (422, 42209)
