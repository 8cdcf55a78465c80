"""A real live broker for the audit's tests, and services that end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess

SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
fetch_partition_bytes = 8192
[deadlines_ms]
default = 4000
[topics.default]
tiers = ["producer", "live"]
"""


@pytest.fixture
def live(tmp_path: Path, zookeeper_chroot: str) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "live", f"{zookeeper_chroot}-live") as broker:
        yield broker


@pytest.fixture
def offline(tmp_path: Path, zookeeper_chroot: str) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "offline", f"{zookeeper_chroot}-offline") as broker:
        yield broker


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Callable[..., AuditService]]:
    """Starts audit services: `audit(live, offline="", settings=..., store=...)`."""
    started: list[AuditService] = []

    def start(live: str, offline: str = "", settings: str = SETTINGS, store: str | None = None) -> AuditService:
        service = AuditService(tmp_path / f"audit-{len(started)}", live, offline, settings, store)
        started.append(service)
        return service.start()

    yield start
    for service in started:
        service.process.kill()
