"""Three brokers and a ZooKeeper as processes, and a topic with three replicas on them."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.zookeeper import ZooKeeperProcess

SESSION_MS = 4_000
TOPIC = "events"


class Cluster:
    """Runs while entered. Brokers have the ids 1 to 3."""

    def __init__(self, folder: Path, *, partitions: int = 3, config: Mapping[str, str] | None = None) -> None:
        self.folder, self.partitions, self.config = folder, partitions, dict(config or {})
        self.zookeeper = ZooKeeperProcess(folder / "zookeeper")
        self.brokers: dict[int, BrokerProcess] = {}
        self.stopped: set[int] = set()
        """Brokers that SIGSTOP holds."""

    def __enter__(self) -> "Cluster":
        try:
            self.zookeeper.start()
            for broker_id in (1, 2, 3):
                settings = {"zookeeper.session.timeout.ms": SESSION_MS, "log.retention.check.interval.ms": 500}
                folder = self.folder / f"broker-{broker_id}"
                self.brokers[broker_id] = BrokerProcess(folder, self.zookeeper.address, broker_id=broker_id, settings=settings)
                self.brokers[broker_id].launch()
            for broker in self.brokers.values():
                broker.await_ready(60_000)
            self.admin = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0})
            self._create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.kill()

    @property
    def addresses(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def _create(self) -> None:
        eventually(lambda: len(self.admin.list_topics(timeout=10).brokers) == 3, what="three brokers known", within_ms=30_000)

        def create() -> bool:
            topic = NewTopic(TOPIC, self.partitions, replication_factor=3, config=self.config)
            try:
                self.admin.create_topics([topic])[TOPIC].result(20)
            except KafkaException as error:
                return "EXISTS" in str(error)
            return True

        eventually(create, what="the topic", within_ms=30_000)
        self.await_whole()

    def fresh_admin(self) -> AdminClient:
        """Return a client that takes no dead broker for the controller: each broker says that it is the controller itself."""
        live = [broker.address for broker in self.brokers.values() if broker.process.is_running()]
        return AdminClient({"bootstrap.servers": ",".join(live), "log_level": 0})

    def standing(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Return each partition's leader and in-sync set, as the brokers say."""
        try:
            found = self.admin.list_topics(TOPIC, timeout=3).topics[TOPIC].partitions
        except KafkaException:
            return {}
        return {index: (one.leader, tuple(sorted(one.isrs))) for index, one in found.items()}

    def leader(self, partition: int = 0) -> int:
        def asked() -> int:
            leader = self.standing().get(partition, (-1, ()))[0]
            return leader if leader in self.brokers else 0

        return eventually(asked, within_ms=60_000, what=f"a leader of partition {partition}")

    def await_whole(self, within_ms: int = 90_000) -> None:
        """Return when every partition has a leader and all three replicas in sync."""

        def is_whole() -> bool:
            standing = self.standing()
            return len(standing) == self.partitions and all(one > 0 and len(ids) == 3 for one, ids in standing.values())

        try:
            eventually(is_whole, within_ms=within_ms, every_ms=100, what="all replicas in sync")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.standing()}\n{self.told()}") from None

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()

    def freeze(self, broker_id: int) -> None:
        os.kill(self.brokers[broker_id].pid, signal.SIGSTOP)
        self.stopped.add(broker_id)

    def thaw(self, broker_id: int) -> None:
        self.stopped.discard(broker_id)
        os.kill(self.brokers[broker_id].pid, signal.SIGCONT)

    def stop(self, broker_id: int) -> None:
        self.brokers[broker_id].stop()

    def heal(self) -> None:
        """Let ZooKeeper and every broker run again."""
        if not self.zookeeper.process.is_running():
            self.zookeeper.start()
        for broker_id in list(self.stopped):
            self.thaw(broker_id)
        down = [broker for broker in self.brokers.values() if not broker.process.is_running()]
        for broker in down:
            broker.launch()
        for broker in down:
            broker.await_ready(60_000)

    def told(self) -> str:
        """Return what the brokers have logged about replicas, for a failure's message."""
        rows = []
        for broker_id, broker in self.brokers.items():
            lines = [line for line in broker.log.splitlines() if "replica" in line or '"level": "error"' in line]
            rows += [f"broker {broker_id}: {line[:500]}" for line in lines[-25:]]
        return "\n".join(rows)

    def errors(self) -> list[str]:
        """Return the errors that brokers have logged."""
        found = []
        for broker in self.brokers.values():
            found += [line[:1_000] for line in broker.log.splitlines() if '"level": "error"' in line]
        return found


def within(seconds: float, done: Callable[[], bool]) -> bool:
    """Wait until `done` or so long; return whether it is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(0.02)
    return done()
