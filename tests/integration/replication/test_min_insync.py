"""What producers and operators see when fewer replicas than `min.insync.replicas` are left."""

import uuid

from confluent_kafka import KafkaError, Producer

from headrace.client import topic_admin
from headrace.client.cluster_status import Kind, cluster_status
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually


def test_with_one_replica_of_three_left_acks_all_is_not_acknowledged_until_another_one_is_back(whole: BrokerCluster) -> None:
    topic = f"t_{uuid.uuid4().hex[:8]}"
    whole.create(topic)
    leader = whole.leader(topic)
    for follower in whole.brokers.keys() - {leader}:
        whole.brokers[follower].kill()
    cluster = whole.client()
    try:

        def kinds() -> list[Kind]:
            described = topic_admin.describe_cluster(cluster)
            return [one.kind for one in cluster_status(described, {topic: 2}).problems if one.topic == topic]

        eventually(lambda: kinds() == [Kind.UNDER_MIN_INSYNC], what="too few in sync")
    finally:
        cluster.close()
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": whole.address, "enable.idempotence": True, "message.timeout.ms": 60_000})
    producer.produce(topic, b"waits", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    once = Producer({"bootstrap.servers": whole.address, "acks": "all", "retries": 0})

    def refusal() -> int | None:
        refused: list[KafkaError | None] = []
        once.produce(topic, b"refused", partition=0, on_delivery=lambda error, _: refused.append(error))
        once.flush(20)
        return None if refused[0] is None else refused[0].code()

    eventually(lambda: refusal() == KafkaError.NOT_ENOUGH_REPLICAS, within_ms=20_000, what="refused as Kafka refuses it")
    assert outcomes == []
    whole.brokers[next(iter(whole.brokers.keys() - {leader}))].restart()
    assert producer.flush(60) == 0
    assert outcomes == [None]
