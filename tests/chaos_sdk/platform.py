"""What the kills run on, started once for many episodes: ZooKeeper, broker, registry, agent, audit, nursery of applications."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos_sdk.nursery import Nursery
from tests.chaos_sdk.verdicts import Verdicts, Verifier
from tests.support.agent import AgentProcess
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.registry import RegistryProcess
from tests.support.zookeeper import ZooKeeperProcess

AUDIT = """
[service]
discover_ms = 500
judge_every_ms = 500
[deadlines_ms]
default = 3000
[topics.default]
tiers = ["producer", "live"]
"""


@dataclass(frozen=True)
class Platform:
    live: LiveSide
    agent: AgentProcess
    nursery: Nursery
    audit: AuditService
    verifier: Verifier
    folder: Path


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Platform]:
    """Start everything in `folder`; end it with the block."""
    with (
        ZooKeeperProcess(folder / "zookeeper") as zookeeper,
        BrokerProcess(folder / "broker", f"{zookeeper.address}/chaos") as broker,
        RegistryProcess(folder / "registry", broker.address) as registry,
    ):
        live = LiveSide(broker, registry)
        nursery = Nursery(folder / "applications.log")
        agent = AgentProcess(folder / "agent", live)
        audit = AuditService(folder / "audit", live.bootstrap, settings=AUDIT)

        def ask(topic: str) -> Verdicts:
            return {start: window["verdict"] for start, window in audit.windows(topic).items()}

        try:
            yield Platform(live, agent.launch(), nursery, audit.start(), Verifier(ask), folder)
        finally:
            agent.process.kill()
            audit.process.kill()
            nursery.close()
