"""What the kills run on, started once for many episodes: ZooKeeper, broker, registry, agent, and the nursery of applications."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos_sdk.nursery import Nursery
from tests.support.agent import AgentProcess
from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.registry import RegistryProcess
from tests.support.zookeeper import ZooKeeperProcess


@dataclass(frozen=True)
class Platform:
    live: LiveSide
    agent: AgentProcess
    nursery: Nursery
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
        try:
            yield Platform(live, agent.launch(), nursery, folder)
        finally:
            agent.process.kill()
            nursery.close()
