"""Three nodes of Apache Kafka, each broker and controller, in the place of our cluster: for the faults that need no ZooKeeper."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.support.kafka import KafkaProcess
from tests.support.processes import free_port
from tests.support.replica_logs import log_bytes

from .cluster import SESSION_MS, TOPIC, Cluster

IDS = (1, 2, 3)
CONFIG = {"min.insync.replicas": "2", "segment.bytes": str(1 << 20)}
"""Kafka allows no smaller segments."""


class KafkaBroker(KafkaProcess):
    """One node, with what the cluster asks of a broker."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.process.output()

    def log_folder(self, partition: int) -> Path:
        return self._node.data / f"{TOPIC}-{partition}"


class KafkaCluster(Cluster):
    """Runs while entered."""

    is_ours = False
    serves_consumer_protocol = True

    def __init__(
        self, folder: Path, *, partitions: int = 3, config: Mapping[str, str] | None = None, is_wide: bool = False
    ) -> None:
        super().__init__(folder, partitions=partitions, config={**(config or {}), **CONFIG})
        controllers = {one: free_port() for one in IDS}
        voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in controllers.items())
        self._nodes: dict[int, KafkaBroker] = {}
        for one in IDS:
            port = free_port()
            settings = {
                "node.id": str(one),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[one]}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "broker.session.timeout.ms": str(SESSION_MS),
                "offsets.topic.replication.factor": "3",
            }
            node = self._nodes[one] = KafkaBroker(folder / f"node-{one}", settings)
            node._node.port = port
        self.brokers = self._nodes  # type: ignore[assignment]  # all that is asked of a broker, a node has

    def __enter__(self) -> "KafkaCluster":
        try:
            for node in self._nodes.values():
                node.launch()
            for node in self._nodes.values():
                node.await_ready()
            self.admin = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0})
            self._create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes.values():
            node.kill()

    def _addresses(self, broker_ids: Iterable[int]) -> str:
        return ",".join(self._nodes[one].address for one in broker_ids)

    def _launch(self, broker_id: int) -> None:
        self._nodes[broker_id].launch()

    def _await_ready(self, broker_id: int) -> None:
        self._nodes[broker_id].await_ready()

    def _heal_keepers(self) -> None:
        """Kafka's controllers are its nodes."""

    def differences(self, partition: int, end: int, begin: int = 0) -> list[str]:
        logs = {one: log_bytes(node.log_folder(partition)) for one, node in self._nodes.items()}
        (first_id, first), *others = logs.items()
        return [f"nodes {first_id} and {one} have different files" for one, files in others if files != first]

    def errors(self) -> list[str]:
        return []

    def told(self) -> str:
        return "\n".join(f"node {one}: {line}" for one, node in self._nodes.items() for line in node.log.splitlines()[-10:])
