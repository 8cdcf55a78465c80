"""A platform of one broker, a registry, an audit service and a console, as processes."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from headrace.sdk import EventLogger, event_schema
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.console import OneConsole
from tests.support.processes import Process, eventually
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
FIELDS = [{"name": "path", "type": "string"}, {"name": "status", "type": "int"}]
SCHEMA = event_schema("Click", FIELDS)
NEWER = event_schema("Click", [*FIELDS, {"name": "user", "type": ["null", "string"], "default": None}])
EVENTS = 30


@dataclass(frozen=True)
class Platform:
    """What runs, and where."""

    broker: BrokerProcess
    registry: RegistryProcess
    audit: AuditService
    console: Process
    url: str

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
    audit = AuditService(home / "audit", broker.address, settings=AUDIT_SETTINGS)
    audit.start()
    console = OneConsole(home, broker.address, audit.url, registry.url).start()
    running = Platform(broker, registry, audit, console.process, console.url)
    try:
        log_events(broker, registry, range(EVENTS))
        registry.register(f"{TOPIC}-value", NEWER)
        eventually(
            lambda: (found := audit.windows(TOPIC)) and all(one["verdict"] == "COMPLETE" for one in found.values()),
            within_ms=60_000,
            what="the events are audited",
        )
        yield running
    finally:
        console.process.kill()
        audit.process.kill()
