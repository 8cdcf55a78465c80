"""Several real brokers of one cluster, for tests of replicated topics: who leads, kills, restarts."""

from collections.abc import Mapping
from pathlib import Path

from headrace.client import topic_admin
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import ClientError
from headrace.client.topic_admin import PartitionPlace
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually


class BrokerCluster:
    """Brokers 1 to `count` on folders below `folder`. While entered, all run."""

    def __init__(self, folder: Path, zookeeper: str, *, count: int = 3, settings: Mapping[str, object] | None = None) -> None:
        self.brokers = {
            one: BrokerProcess(folder / f"broker-{one}", zookeeper, broker_id=one, settings=settings)
            for one in range(1, count + 1)
        }

    def __enter__(self) -> "BrokerCluster":
        try:
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.process.kill()

    @property
    def address(self) -> str:
        """The bootstrap of all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def create(self, topic: str, partitions: int = 1, *, replicas: int = 3, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and return when all its replicas are in sync."""
        running = {one for one, broker in self.brokers.items() if broker.process.is_running()}
        for broker_id in running:
            eventually(
                lambda broker_id=broker_id: self._known_to(broker_id) == running,  # type: ignore[misc]
                what=f"broker {broker_id} knows {running}",
            )
        cluster = self.client()
        try:
            assert create_topic(cluster, topic, partitions, dict(config or {}), replication_factor=replicas)
        finally:
            cluster.close()
        self.await_in_sync(topic, replicas)

    def _known_to(self, broker_id: int) -> set[int]:
        cluster = Cluster(self.brokers[broker_id].address, client_id="test-cluster", request_timeout_ms=5_000)
        try:
            return set(topic_admin.describe_cluster(cluster).brokers)
        except ClientError:
            return set()
        finally:
            cluster.close()

    def client(self) -> Cluster:
        return Cluster(self.address, client_id="test-cluster", request_timeout_ms=5_000)

    def places(self, topic: str) -> list[PartitionPlace]:
        """Return the topic's partitions as a live broker sees them; none while no broker answers."""
        cluster = self.client()
        try:
            (described,) = topic_admin.describe_topics(cluster, [topic])
            return list(described.partitions)
        except ClientError:
            return []
        finally:
            cluster.close()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads the partition, -1 for none."""
        return next((one.leader for one in self.places(topic) if one.partition == partition), -1)

    def await_in_sync(self, topic: str, replicas: int, within_ms: int = 30_000) -> None:
        """Return when every partition has a leader and so many replicas in sync."""

        def is_whole() -> bool:
            places = self.places(topic)
            return bool(places) and all(one.leader >= 0 and len(one.in_sync_replicas) >= replicas for one in places)

        eventually(is_whole, within_ms=within_ms, every_ms=50, what=f"{replicas} replicas of {topic} in sync")

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the partition's leader with SIGKILL and return its id when another broker leads."""
        killed = self.leader(topic, partition)
        assert killed > 0, f"{topic}-{partition} has no leader"
        self.brokers[killed].kill()
        eventually(
            lambda: self.leader(topic, partition) not in (-1, killed), within_ms=30_000, every_ms=50, what="another leader"
        )
        return killed
