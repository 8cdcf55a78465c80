"""Three brokers of ours with a ZooKeeper, or three nodes of Apache Kafka, for the same measurements.

Both notice a silent broker after `SESSION_MS`, and have topics with three replicas, of which two must be in sync.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ..harness.child import BenchFault, free_port
from ..peers.headrace import Headrace
from ..peers.kafka import Kafka
from ..peers.lifecycle import LoopbackServer

IDS = (1, 2, 3)
SESSION_MS = 6_000
WITHIN_S = 180


class Cluster:
    """Three running servers by their ids, between `start` and `stop`."""

    def __init__(self, name: str, servers: Mapping[int, LoopbackServer], companions: Callable[[], Sequence[int]]) -> None:
        """`companions`: processes that count as the cluster's besides its brokers."""
        self.name = name
        self.servers = servers
        self._companions = companions

    def start(self) -> None:
        for server in self.servers.values():
            server.folder.mkdir(parents=True, exist_ok=True)
            server.prepare()
        for server in self.servers.values():
            server.launch_broker()
        for server in self.servers.values():
            server.wait_until_ready(server.start_within_s)
        _until(
            lambda: len(self.admin().list_topics(timeout=10).brokers) == len(IDS), f"{self.name}: brokers that know each other"
        )

    def stop(self) -> None:
        for server in reversed(list(self.servers.values())):
            server.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(server.bootstrap for server in self.servers.values())

    @property
    def pids(self) -> list[int]:
        return [*(server.broker.pid for server in self.servers.values()), *self._companions()]

    def admin(self) -> AdminClient:
        """Return a new client: an old one may take a dead broker for the controller."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def make_topic(self, topic: str, partitions: int, replicas: int = 3) -> None:
        admin = self.admin()
        settings = {"min.insync.replicas": "2"} if replicas > 1 else {}
        new = NewTopic(topic, partitions, replicas, config=settings)
        admin.create_topics([new], operation_timeout=120, request_timeout=120)[topic].result(timeout=150)
        self.await_whole(topic, partitions, replicas)

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        found = self.admin().list_topics(topic, timeout=20).topics[topic].partitions
        return {index: one.leader for index, one in found.items()}

    def await_whole(self, topic: str, partitions: int, replicas: int = 3) -> None:
        """Return when every partition has a leader and all replicas in sync."""

        def is_whole() -> bool:
            found = self.admin().list_topics(topic, timeout=20).topics[topic].partitions.values()
            return len(found) == partitions and all(one.leader > 0 and len(one.isrs) == replicas for one in found)

        _until(is_whole, f"{self.name}: all replicas of {topic} in sync")

    def await_preferred(self, topic: str, partitions: int) -> None:
        """Give each partition back to its first replica, and return when they lead."""
        self.await_whole(topic, partitions)

        def is_back() -> bool:
            admin = self.admin()
            found = admin.list_topics(topic, timeout=20).topics[topic].partitions
            strayed = [TopicPartition(topic, index) for index, one in found.items() if one.leader != one.replicas[0]]
            if strayed:
                admin.elect_leaders(ElectionType.PREFERRED, strayed).result(timeout=90)
            return not strayed

        _until(is_back, f"{self.name}: preferred leaders of {topic}")
        self.await_whole(topic, partitions)

    def kill(self, broker_id: int) -> None:
        os.kill(self.servers[broker_id].broker.pid, signal.SIGKILL)

    def restart(self, broker_id: int) -> None:
        """Start a broker whose process has ended, or was killed."""
        server = self.servers[broker_id]
        server.broker.kill()
        server.start_broker(WITHIN_S)

    def terminate(self, broker_id: int) -> None:
        os.kill(self.servers[broker_id].broker.pid, signal.SIGTERM)

    def freeze(self, broker_id: int) -> None:
        os.kill(self.servers[broker_id].broker.pid, signal.SIGSTOP)

    def thaw(self, broker_id: int) -> None:
        os.kill(self.servers[broker_id].broker.pid, signal.SIGCONT)


class _OfCluster(Headrace):
    """A broker that uses the ZooKeeper of another one."""

    def __init__(self, folder: Path, first: Headrace, settings: Mapping[str, str]) -> None:
        super().__init__(folder, settings)
        self._zookeeper_port = first._zookeeper_port

    def prepare(self) -> None:
        """The first one has started the ZooKeeper."""


def ours(folder: Path) -> Cluster:
    """Return three brokers of ours; the ZooKeeper counts as the cluster's."""
    settings = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
    first = Headrace(folder / "1", settings | {"broker.id": "1"})
    others = {one: _OfCluster(folder / str(one), first, settings | {"broker.id": str(one)}) for one in IDS[1:]}
    return Cluster("Headrace", {1: first, **others}, lambda: [first.zookeeper.pid])


def kafka(folder: Path, flags: str) -> Cluster:
    """Return three nodes of Kafka, each broker and controller; `flags` as in `peers.kafka`."""
    controllers = {one: free_port() for one in IDS}
    voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in controllers.items())
    nodes: dict[int, LoopbackServer] = {}
    for one in IDS:
        node = Kafka(folder / str(one), flags)
        node._settings |= {
            "node.id": str(one),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{controllers[one]}",
            "broker.session.timeout.ms": str(SESSION_MS),
            "offsets.topic.replication.factor": "3",
        }
        nodes[one] = node
    return Cluster(f"Kafka, {flags}", nodes, list)


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            if done():
                return
        except (KafkaException, KeyError) as error:
            last: object = error
        else:
            last = "not yet"
        if time.monotonic() > deadline:
            raise BenchFault(f"{what}: not in {WITHIN_S} s ({last})")
        time.sleep(0.1)
