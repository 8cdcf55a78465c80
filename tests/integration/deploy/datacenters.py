"""Two datacenters of one machine, each process a real one: live brokers, registry and audit service; an offline broker, and the
mirror between them. Nothing is started before `start`.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from headrace.runtime.layout import SCHEMAS_TOPIC
from headrace.runtime.status import read_status
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.mirror import MirrorProcess
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess

AUDIT = """
[service]
discover_ms = 200
judge_every_ms = 200
checkpoint_every_ms = 3000
[topics.default]
tiers = ["producer", "live", "mirror", "offline"]
[topics.clicks]
tiers = ["live", "mirror", "offline"]
"""
"""No warehouse; `clicks` comes of clients that report nothing."""


def lose_disk(broker: BrokerProcess) -> None:
    """Kill a broker, delete its folder, and start it on an empty one until it is ready."""
    broker.kill()
    shutil.rmtree(broker.data)

    def starts() -> bool:
        # Until the dead one's session is over, its id is taken: the unit starts it again, as often as it takes.
        if not broker.process.is_running():
            broker.launch()
        return (read_status(broker.folder / "status.json") or {}).get("state") == "ready"

    eventually(starts, within_ms=60_000, what=f"{broker.folder.name} on an empty disk")


class Datacenters:
    """`folder` holds what each process keeps. Entered, everything runs; left, nothing."""

    def __init__(self, folder: Path, chroot: str, *, live_brokers: int = 1, registry: Sequence[str] = ()) -> None:
        """`chroot`: each cluster has its own below it. `registry`: more options of the registry."""
        self.folder = folder
        numbers = range(1, live_brokers + 1)
        self.live = [BrokerProcess(folder / f"live-{one}", f"{chroot}/live", broker_id=one) for one in numbers]
        self.offline = BrokerProcess(folder / "offline", f"{chroot}/offline")
        self.bootstrap = ",".join(broker.address for broker in self.live)
        self.registry = RegistryProcess(folder / "registry", self.bootstrap, SCHEMAS_TOPIC, *registry)
        self.mirror = MirrorProcess(folder / "mirror", self.live[0].address, self.offline, self.live[0].address)
        self.audit = AuditService(folder / "audit", self.bootstrap, self.offline.address, AUDIT)

    @property
    def side(self) -> LiveSide:
        return LiveSide(self.live[0], self.registry)

    def processes(self) -> "list[BrokerProcess | RegistryProcess | MirrorProcess | AuditService]":
        """Return them in the order of an upgrade, which is that of a start."""
        return [*self.live, self.offline, self.registry, self.mirror, self.audit]

    def __enter__(self) -> "Datacenters":
        try:
            for one in self.processes():
                one.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.processes():
            one.process.kill()

    def verdicts(self, topic: str) -> set[str]:
        """Return the verdicts of the topic's windows, as their figures are not looked at."""
        return {one["verdict"] for one in self.audit.windows(topic).values()}

    def all_complete(self) -> None:
        """Return once every window of both topics is COMPLETE."""
        for topic in ("clicks", "orders"):
            eventually(
                lambda topic=topic: self.verdicts(topic) == {"COMPLETE"},  # type: ignore[misc]
                within_ms=90_000,
                what=f"every window of {topic} COMPLETE; {self.audit.windows(topic)}",
            )
