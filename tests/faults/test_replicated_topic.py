"""What clients of a replicated topic see of deletions: retention and DeleteRecords move every replica's start; a topic made anew
under its name has nothing of the old one.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, NewTopic, OffsetSpec

from tests.support.processes import eventually
from tests.support.replica_logs import log_bytes

from .clients import consumer
from .cluster import TOPIC, Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), partitions=1, config={"segment.bytes": "20000"}) as made:
        yield made


def fill(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.addresses, "acks": "all", "linger.ms": 5, "batch.num.messages": 20})
    failed: list[object] = []
    for number in range(count):
        producer.produce(topic, b"%08d" % number + b"x" * 192, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(30) == 0
    assert not failed


def starts(cluster: Cluster, topic: str) -> set[int]:
    """Return where the first segments begin, on each broker."""
    return {min(log_bytes(broker.data / f"{topic}-0")) for broker in cluster.brokers.values()}


def test_deleted_records_go_on_every_replica(cluster: Cluster) -> None:
    fill(cluster, TOPIC, 1_000)
    reading = consumer(cluster, "g")
    end = reading.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)[1]
    reading.close()
    deleted = cluster.admin.delete_records([TopicPartition(TOPIC, 0, end - 50_000)])
    assert deleted[TopicPartition(TOPIC, 0)].result(20).low_watermark == end - 50_000
    eventually(lambda: min(starts(cluster, TOPIC)) > 0 and len(starts(cluster, TOPIC)) == 1, what="each replica's start")
    cluster.kill(cluster.leader())
    partition = TopicPartition(TOPIC, 0)

    def new_start() -> ListOffsetsResultInfo:
        admin = cluster.fresh_admin()  # another one may ask the dead broker on and on
        return admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(5)

    earliest = eventually(new_start, what="the new leader's start")
    assert earliest.offset == end - 50_000, "no record comes back with another leader"
    assert earliest.leader_epoch >= 1
    cluster.heal()
    cluster.await_whole()


def test_retention_is_the_leaders(cluster: Cluster) -> None:
    topic = NewTopic("short", 1, replication_factor=3, config={"segment.bytes": "20000", "retention.bytes": "60000"})
    cluster.create(topic)
    fill(cluster, "short", 1_000)
    eventually(
        lambda: min(starts(cluster, "short")) > 100_000 and len(starts(cluster, "short")) == 1, what="the same start everywhere"
    )


def test_a_topic_made_anew_has_nothing_of_the_old_one(cluster: Cluster) -> None:
    def make() -> None:
        cluster.create(NewTopic("again", 1, replication_factor=3))

    make()
    fill(cluster, "again", 50)
    cluster.kill(3)
    admin = cluster.fresh_admin()
    admin.delete_topics(["again"])["again"].result(20)
    eventually(lambda: "again" not in cluster.admin.list_topics(timeout=5).topics, what="the deletion")
    eventually(lambda: len(cluster.admin.list_topics(timeout=5).brokers) == 2, what="the dead broker forgotten")
    cluster.heal()
    eventually(lambda: len(cluster.admin.list_topics(timeout=5).brokers) == 3, what="three brokers")
    make()
    fill(cluster, "again", 10)
    reading = consumer(cluster, "h")
    assert reading.get_watermark_offsets(TopicPartition("again", 0), timeout=20)[0] == 0
    reading.assign([TopicPartition("again", 0, 0)])
    values: list[bytes] = []

    def read() -> bool:
        values.extend(message.value() for message in reading.consume(100, 0.5) if message.error() is None)
        return len(values) >= 10

    eventually(read, what="the new records")
    reading.close()
    assert [value[:8] for value in values] == [b"%08d" % number for number in range(10)]
