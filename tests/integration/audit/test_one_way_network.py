"""A network that is cut in one direction for longer than every deadline: requests or answers, of events or of reports.

What must hold (docs/AUDIT_RULES.md, "Edges"): whatever is cut, no record is doubled, and none is lost without a name. While cut,
no window is COMPLETE of which a record is not stored and reported. When it is over, the verdict follows from what a reader gets.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.one_way_proxy import Cut, OneWayProxy
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess

START_MS = 1_790_000_400_000
NUMBER = re.compile(rb"/number/(\d+)")
DEADLINE_MS = 3_000
SETTINGS = f"""
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = {DEADLINE_MS}
[topics.default]
tiers = ["producer", "live"]
"""
BEFORE, DURING = 5, 20
CUTS = {
    "event-answers": Cut("answers", b"event-answers", without=AUDIT_TOPIC.encode()),
    "event-requests": Cut("requests", b"event-requests", without=AUDIT_TOPIC.encode()),
    "report-answers": Cut("answers", b"/of-report-answers/"),
    "report-requests": Cut("requests", b"/of-report-requests/"),
}
"""Topic → what is cut of the application that logs to it. Its name is in its reports only."""


class Side:
    """A broker behind the proxy, with registry and audit; and an application for each topic."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.proxy = OneWayProxy()
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.proxy.port}"}
        self.broker = BrokerProcess(folder / "broker", zookeeper, settings=settings).start()
        self.proxy.lead_to(self.broker.port)
        self.bootstrap = f"127.0.0.1:{self.proxy.port}"
        self.registry = RegistryProcess(folder / "registry", self.bootstrap).start()
        self.audit = AuditService(folder / "audit", self.bootstrap, settings=SETTINGS).start()
        self.taken: Counter[str] = Counter()

    def logger(self, topic: str) -> EventLogger:
        return EventLogger(
            topic,
            ACCESS_LOG_SCHEMA,
            bootstrap=self.bootstrap,
            registry_url=self.registry.url,
            application=f"of-{topic}",
            lateness_ms=None,
            linger_ms=0,
            delivery_timeout_ms=2 * DEADLINE_MS,
            max_block_ms=500,
            start_timeout_ms=20_000,
        )

    def window(self, topic: str) -> dict[str, Any]:
        return self.audit.windows(topic).get(START_MS, {})

    def numbers(self, topic: str) -> list[int]:
        """Return the number of each stored record, read at the broker's own address."""
        return sorted(int(number) for one in read_all(self.broker.address, topic) for number in NUMBER.findall(one.value()))

    def close(self) -> None:
        for one in (self.audit.process, self.registry.process, self.broker.process):
            one.kill()
        self.proxy.close()


@pytest.fixture
def side(tmp_path: Path, zookeeper: str) -> Iterator[Side]:
    made = Side(tmp_path, zookeeper)
    yield made
    made.close()


@pytest.mark.situation(
    "producers",
    "the network loses requests or answers for longer than every deadline",
    shown="never COMPLETE meanwhile; then COMPLETE, or ACCOUNTED, `send_failed` n; nothing doubled",
    when="its deadline; when the network is back",
    do="nothing",
)
def test_whatever_is_cut_in_one_direction_nothing_is_doubled_or_lost_without_a_name(side: Side) -> None:
    cluster = Cluster(side.broker.address)
    for topic in CUTS:
        create_topic(cluster, topic, 1)
    cluster.close()
    loggers = {topic: side.logger(topic) for topic in CUTS}

    def log(topic: str, count: int) -> None:
        for _ in range(count):
            event = {"client_ip": "::1", "method": "GET", "path": f"/number/{side.taken[topic]}", "status": 200}
            side.taken[topic] += loggers[topic].log(event, event_time_ms=START_MS)

    for topic, logger in loggers.items():
        log(topic, BEFORE)
        logger.flush()
    seen: dict[str, set[str]] = {topic: set() for topic in CUTS}
    side.proxy.cuts = tuple(CUTS.values())
    applications = [threading.Thread(target=log, args=(topic, DURING), daemon=True) for topic in CUTS]
    for one in applications:
        one.start()
    until = time.monotonic() + 4 * DEADLINE_MS / 1000
    while time.monotonic() < until:
        for topic in CUTS:
            seen[topic].add(side.window(topic).get("verdict", "none"))
        time.sleep(0.2)
    assert set(side.proxy.met) == set(CUTS.values()), "each cut has met a connection"
    assert "UNKNOWN" in seen["report-requests"], "its events are there, and nobody speaks of them"
    side.proxy.heal()
    for one in applications:
        one.join(30)
    for logger in loggers.values():
        logger.close(30_000)
    assert all("COMPLETE" not in verdicts for verdicts in seen.values()), seen
    for topic, logger in loggers.items():
        stored = side.numbers(topic)
        assert len(stored) == len(set(stored)), f"{topic}: a record stands twice"
        lost = side.taken[topic] - len(stored)
        named = {"send_failed": lost} if lost else {}

        def told(topic: str = topic, stored: list[int] = stored, named: dict[str, int] = named) -> bool:
            window = side.window(topic)
            assert window["tiers"]["live"] == len(stored), window
            assert window["accounted"] == named, window
            assert window["verdict"] == ("ACCOUNTED" if named else "COMPLETE"), window
            return True

        eventually(told, within_ms=30_000, every_ms=200, what=f"{topic}: {lost} of {side.taken[topic]} lost, {logger.ledger()}")
