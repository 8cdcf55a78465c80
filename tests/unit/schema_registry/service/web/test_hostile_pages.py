"""A page of another origin in a real browser: it registers nothing, and a name that was bound to our address opens nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.web_server import WebServer, bound
from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.web.application import application
from tests.support.chromium import Chromium
from tests.support.foreign_page import SIMPLE_REQUESTS, attack, foreign_page
from tests.unit.schema_registry.memory_store import MemoryStore

pytestmark = pytest.mark.needs("chromium")

BODY = json.dumps({"schema": '"string"'})
REBOUND = "evil.example"
OWN = f"fetch('/subjects/own/versions', {{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: {BODY!r}}})"


@pytest.fixture
def registry() -> Iterator[tuple[SchemaRegistry, int]]:
    store = MemoryStore()
    made = SchemaRegistry(store)
    listener = bound("127.0.0.1", 0)
    server = WebServer(application(made, store), listener, name="test", drain_s=1)  # type: ignore[arg-type]
    server.start()
    yield made, listener.getsockname()[1]
    server.stop()


def subjects(registry: SchemaRegistry) -> list[str]:
    with registry.reading() as state:
        return state.subjects()


def test_a_foreign_page_and_a_rebound_name_change_nothing(registry: tuple[SchemaRegistry, int], tmp_path: Path) -> None:
    made, port = registry
    with foreign_page() as foreign, Chromium(tmp_path / "profile", tmp_path / "log", names=[REBOUND]) as browser:
        browser.open(f"http://localhost:{foreign}/")
        sent = browser.run(attack(f"http://127.0.0.1:{port}/subjects/foreign/versions", BODY))
        assert sent == len(SIMPLE_REQUESTS)
        assert subjects(made) == []

        browser.ignore_policies()
        # The page's own name leads here now: for the browser it is the origin of this service.
        browser.open(f"http://{REBOUND}:{port}/subjects")
        assert browser.run("fetch('/subjects').then((answer) => answer.status)") == 421
        assert browser.run(f"{OWN}.then((answer) => answer.status)") == 421
        assert browser.run("fetch('/subjects/own', {method: 'DELETE'}).then((answer) => answer.status)") == 421
        assert subjects(made) == []

        # The same from the service's own address works: the rules refuse strangers, not browsers.
        browser.open(f"http://localhost:{port}/subjects")
        assert browser.run(f"{OWN}.then((answer) => answer.status)") == 200
        assert subjects(made) == ["own"]
