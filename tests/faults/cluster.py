"""Three brokers and their ZooKeeper as processes, and a topic with three replicas on them.

A wide cluster has three ZooKeepers, and proxies on all ways: clients to brokers, brokers to each other, brokers to ZooKeeper.
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.connection.cluster import Cluster as Client
from headrace.client.topic_admin import describe_topics
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually, free_port
from tests.support.replica_logs import differences, log_bytes

from .keepers import Keepers, OneKeeper, ThreeKeepers
from .lanes import Lane

if TYPE_CHECKING:
    from .downstream import Downstream

SESSION_MS = 4_000
TOPIC = "events"


class Cluster:
    """Runs while entered. Brokers have the ids 1 to 3."""

    is_ours = True
    """Whether there is a ZooKeeper."""
    serves_consumer_protocol = False
    """Whether groups of KIP-848 are served."""

    def __init__(
        self, folder: Path, *, partitions: int = 3, config: Mapping[str, str] | None = None, is_wide: bool = False
    ) -> None:
        self.folder, self.partitions, self.config = folder, partitions, dict(config or {})
        self.is_wide = is_wide
        self.keepers: Keepers = ThreeKeepers(folder / "zookeeper") if is_wide else OneKeeper(folder / "zookeeper")
        self.brokers: dict[int, BrokerProcess] = {}
        self.stopped: set[int] = set()
        """Brokers that SIGSTOP holds."""
        self.full: set[int] = set()
        """Brokers that may write nothing more."""
        self.from_clients: dict[int, Lane] = {}
        self.from_brokers: dict[int, Lane] = {}
        self.to_keepers: dict[int, list[Lane]] = {}
        """By broker. All three are empty where the cluster is not wide."""
        self.downstream: Downstream | None = None
        """What is behind it, while it runs."""

    def __enter__(self) -> "Cluster":
        try:
            self.keepers.start()
            for broker_id in (1, 2, 3):
                self.brokers[broker_id] = self._broker(broker_id)
                self._launch(broker_id)
            for broker in self.brokers.values():
                broker.await_ready(60_000)
            self.admin = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0})
            self._create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _broker(self, broker_id: int) -> BrokerProcess:
        settings: dict[str, object] = {"zookeeper.session.timeout.ms": SESSION_MS, "log.retention.check.interval.ms": 500}
        folder = self.folder / f"broker-{broker_id}"
        if not self.is_wide:
            address = f"127.0.0.1:{self.keepers.ports[0]}"
            return BrokerProcess(folder, address, broker_id=broker_id, settings=settings)
        own, inner = free_port(), free_port()
        self.from_clients[broker_id], self.from_brokers[broker_id] = Lane(own), Lane(inner)
        self.to_keepers[broker_id] = [Lane(port) for port in self.keepers.ports]
        for lane in self.to_keepers[broker_id]:
            lane.open()
        outer, between = self.from_clients[broker_id].port, self.from_brokers[broker_id].port
        settings |= {
            "listeners": f"PLAINTEXT://127.0.0.1:{own},INNER://127.0.0.1:{inner}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{outer},INNER://127.0.0.1:{between}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
        }
        address = ",".join(f"127.0.0.1:{lane.port}" for lane in self.to_keepers[broker_id])
        return BrokerProcess(folder, address, broker_id=broker_id, port=own, settings=settings)

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.keepers.kill_all()
        for lane in self.lanes():
            lane.close()

    def lanes(self) -> Iterable[Lane]:
        yield from self.from_clients.values()
        yield from self.from_brokers.values()
        for lanes in self.to_keepers.values():
            yield from lanes

    @property
    def addresses(self) -> str:
        return self._addresses(self.brokers)

    def _addresses(self, broker_ids: Iterable[int]) -> str:
        ports = (self.from_clients[one].port if self.is_wide else self.brokers[one].port for one in broker_ids)
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def _create(self) -> None:
        self.create(NewTopic(TOPIC, self.partitions, replication_factor=3, config=self.config))
        self.await_whole()

    def create(self, topic: NewTopic) -> None:
        """Make a topic, once a broker that is asked knows enough others."""

        def made() -> bool:
            admin = self.fresh_admin()  # kept until the answer is here: its end would end the request
            try:
                admin.create_topics([topic])[topic.topic].result(10)
            except KafkaException as error:
                return "EXISTS" in str(error)
            return True

        eventually(made, what=f"the topic {topic.topic}", within_ms=60_000, every_ms=200)

    def fresh_admin(self) -> AdminClient:
        """Return a client that takes no dead broker for the controller: each broker says that it is the controller itself."""
        live = [one for one, broker in self.brokers.items() if broker.process.is_running()]
        return AdminClient({"bootstrap.servers": self._addresses(live), "log_level": 0})

    def standing(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Return each partition's leader and in-sync set, as the brokers say."""
        try:
            found = self.admin.list_topics(TOPIC, timeout=3).topics[TOPIC].partitions
        except KafkaException:
            return {}
        return {index: (one.leader, tuple(sorted(one.isrs))) for index, one in found.items()}

    def epochs(self) -> int:
        """Return how many leader epochs the topic's partitions have had: each takeover begins one."""
        client = Client(self.addresses, client_id="faults")
        try:
            (described,) = describe_topics(client, [TOPIC])
        finally:
            client.close()
        return sum(one.leader_epoch for one in described.partitions)

    def leader(self, partition: int = 0, within_ms: int = 60_000) -> int:
        def asked() -> int:
            leader = self.standing().get(partition, (-1, ()))[0]
            return leader if leader in self.brokers else 0

        return eventually(asked, within_ms=within_ms, what=f"a leader of partition {partition}")

    def await_whole(self, within_ms: int = 90_000) -> None:
        """Return when every partition has a leader and all three replicas in sync."""

        def is_whole() -> bool:
            standing = self.standing()
            return len(standing) == self.partitions and all(one > 0 and len(ids) == 3 for one, ids in standing.values())

        try:
            eventually(is_whole, within_ms=within_ms, every_ms=100, what="all replicas in sync")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.standing()}\n{self.told()}") from None

    def _launch(self, broker_id: int) -> None:
        self.brokers[broker_id].launch()
        if self.is_wide:
            self.from_clients[broker_id].open()
            self.from_brokers[broker_id].open()

    def _has_ended(self, broker_id: int) -> None:
        self.stopped.discard(broker_id)
        self.full.discard(broker_id)
        if self.is_wide:
            self.from_clients[broker_id].close()
            self.from_brokers[broker_id].close()

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()
        self._has_ended(broker_id)

    def freeze(self, broker_id: int) -> None:
        if self.brokers[broker_id].process.is_running():
            os.kill(self.brokers[broker_id].pid, signal.SIGSTOP)
            self.stopped.add(broker_id)

    def thaw(self, broker_id: int) -> None:
        self.stopped.discard(broker_id)
        os.kill(self.brokers[broker_id].pid, signal.SIGCONT)

    def stop(self, broker_id: int) -> None:
        if broker_id in self.stopped:
            self.thaw(broker_id)
        self.brokers[broker_id].process.stop(60_000)
        self._has_ended(broker_id)

    def fill_disk(self, broker_id: int) -> None:
        """Let no file of the broker grow any more: a quota of its process, which needs no rights of root."""
        if self.brokers[broker_id].process.is_running():
            self._limit_files(broker_id, 1)
            self.full.add(broker_id)

    def _limit_files(self, broker_id: int, most_bytes: int) -> None:
        _, hard = resource.prlimit(self.brokers[broker_id].pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.brokers[broker_id].pid, resource.RLIMIT_FSIZE, (most_bytes, hard))

    def heal(self) -> None:
        """Let ZooKeeper, the network and every broker work again. A broker that runs is not restarted."""
        self._heal_keepers()
        for lane in self.lanes():
            lane.heal()
        for broker_id in list(self.stopped):
            self.thaw(broker_id)
        for broker_id in list(self.full):
            self._limit_files(broker_id, resource.RLIM_INFINITY)
            self.full.discard(broker_id)
        down = [one for one, broker in self.brokers.items() if not broker.process.is_running()]
        for broker_id in down:
            self._launch(broker_id)
        for broker_id in down:
            self._await_ready(broker_id)

    def _await_ready(self, broker_id: int) -> None:
        self.brokers[broker_id].await_ready(60_000)

    def _heal_keepers(self) -> None:
        self.keepers.heal()

    def differences(self, partition: int, end: int, begin: int = 0) -> list[str]:
        """Return where the three logs differ from the segment of `begin` to `end`: all replicas are in sync, so each has that."""
        folders = {one: broker.data / f"{TOPIC}-{partition}" for one, broker in self.brokers.items()}
        return differences({one: log_bytes(folder, begin) for one, folder in folders.items()}, end)

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


def within(seconds: float, done: Callable[[], bool], every_s: float = 0.02) -> bool:
    """Wait until `done` or so long; return whether it is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(every_s)
    return done()
