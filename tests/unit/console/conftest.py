"""A console over a real audit service's HTTP, on the loopback, without clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headrace.audit.service.web.endpoints import application as audit_application
from headrace.console.answers import Answers
from headrace.console.warehouse_asking import Asking
from headrace.console.web import application
from headrace.runtime.clock import ManualClock
from headrace.runtime.layout import Layout
from headrace.runtime.web_server import WebServer, bound
from tests.support.audit_parts import START_MS, Service
from tests.support.processes import free_port


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def layout_of(home: Path, **addresses: str) -> Layout:
    """Return a layout in which nothing runs but what is named."""
    dead = f"127.0.0.1:{free_port()}"
    words = {
        "HEADRACE_LIVE_BOOTSTRAP": dead,
        "HEADRACE_OFFLINE_BOOTSTRAP": dead,
        "HEADRACE_REGISTRY_URL": f"http://{dead}",
        "HEADRACE_AUDIT_URL": f"http://{dead}",
        **addresses,
    }
    return Layout(home=home, elsewhere=tuple(words.items()))


def client(layout: Layout, *, is_read_only: bool = False) -> Iterator[TestClient]:
    """Yield a client of a console for this layout."""
    clock = ManualClock(START_MS)
    answers = Answers(layout, clock, is_read_only=is_read_only)
    asking = Asking(layout, clock)
    yield TestClient(application(answers, asking), raise_server_exceptions=False)
    asking.close()
    answers.close()


@pytest.fixture
def console(service: Service, tmp_path: Path) -> Iterator[TestClient]:
    """The console of an audit service whose books a test fills. No cluster and no registry runs."""
    service.faults = []  # type: ignore[attr-defined]
    site = service.site(faults=lambda: service.faults)  # type: ignore[attr-defined]
    made = audit_application(service.ledger, service.judge, service.clock, site)
    listener = bound("127.0.0.1", 0)
    server = WebServer(made, listener, name="audit-of-a-test", drain_s=0)
    server.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield from client(layout_of(tmp_path, HEADRACE_AUDIT_URL=url, HEADRACE_LIVE_BOOTSTRAP=f"127.0.0.1:{free_port()}"))
    server.stop()
