"""A platform of one broker, a registry, an audit service and a console, as processes."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from headrace.sdk import EventLogger
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually, free_port
from tests.support.registry import RegistryProcess

AUDIT_SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 4000
[topics.default]
tiers = ["producer", "live"]
"""
TOPIC = "clicks"
SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "path", "type": "string"}, {"name": "status", "type": "int"}]}
NEWER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "user", "type": ["null", "string"], "default": None}]}  # type: ignore[misc]
EVENTS = 30
LATER = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Platform:
    """What runs, and where."""

    broker: BrokerProcess
    registry: RegistryProcess
    audit: AuditService
    console: Process
    url: str
    home: Path

    def get(self, path: str, **query: object) -> tuple[int, str]:
        """Return status and text of a page."""
        return self.ask(Request(f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"))

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, str]:
        return self.ask(Request(f"{self.url}{path}", body, headers, method="POST"))

    def ask(self, request: Request) -> tuple[int, str]:
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


def log_events(broker: BrokerProcess, registry: RegistryProcess, numbers: range) -> None:
    """Log one click a number, with the same time for all, and seal."""
    with EventLogger(TOPIC, SCHEMA, bootstrap=broker.address, registry_url=registry.url, application="shop") as logger:
        for number in numbers:
            logger.log({"path": f"/{number}", "status": 500 if number % 10 == 0 else 200})


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess, registry: RegistryProcess) -> Iterator[Platform]:
    home = tmp_path_factory.mktemp("home")
    (home / "run").mkdir()
    audit = AuditService(home / "audit", broker.address, settings=AUDIT_SETTINGS)
    audit.start()
    port = free_port()
    environment = {
        "HEADRACE_HOME": str(home),
        "HEADRACE_LIVE_BOOTSTRAP": broker.address,
        "HEADRACE_OFFLINE_BOOTSTRAP": f"127.0.0.1:{free_port()}",
        "HEADRACE_REGISTRY_URL": registry.url,
        "HEADRACE_AUDIT_URL": audit.url,
    }
    command = [sys.executable, "-m", "headrace.cli.main", "console", "run", "--port", str(port)]
    console = Process(command, home / "console.log", environment).start()
    running = Platform(broker, registry, audit, console, f"http://127.0.0.1:{port}", home)
    try:
        eventually(lambda: running.get("/healthz")[0] == 200, what="the console is ready")
        log_events(broker, registry, range(EVENTS))
        registry.register(f"{TOPIC}-value", NEWER)
        eventually(
            lambda: (found := audit.windows(TOPIC)) and all(one["verdict"] == "COMPLETE" for one in found.values()),
            within_ms=60_000,
            what="the events are audited",
        )
        yield running
    finally:
        console.kill()
        audit.process.kill()


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
