"""Topics that librdkafka, an independent client, fills."""

from confluent_kafka import Producer

from headrace.client import admin
from headrace.client.connection.cluster import Cluster


def create(bootstrap: str, topic: str, partitions: int) -> None:
    cluster = Cluster(bootstrap)
    try:
        admin.create_topic(cluster, topic, partitions)
    finally:
        cluster.close()


def produce(bootstrap: str, topic: str, values: list[bytes], *, partitions: int = 4, batch: int = 20) -> None:
    """Write with librdkafka, value n to partition n modulo `partitions`, `batch` values a batch; all acknowledged on return.

    The linger is long, so that a pause of this thread does not split a batch; `flush` does not wait for it.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": batch, "linger.ms": 10_000})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % partitions, timestamp=1_000_000 + index)
    assert producer.flush(20) == 0
