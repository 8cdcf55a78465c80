"""Runbook: a broker that lost its disk is started under its id with an empty folder, and copies everything."""

import shutil
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from headrace.client import topic_admin
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually

COUNT = 2_000


def test_a_broker_with_an_empty_folder_copies_everything_and_leads_again(whole: BrokerCluster) -> None:
    topic = f"t_{uuid.uuid4().hex[:8]}"
    whole.create(topic)
    producer = Producer({"bootstrap.servers": whole.address, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    lost = whole.kill_leader(topic)
    shutil.rmtree(whole.brokers[lost].data)
    cluster = whole.client()
    try:
        # The registration of the lost folder ends with its session; another folder's broker must not replace it before.
        eventually(lambda: lost not in topic_admin.describe_cluster(cluster).brokers, what="the lost broker is not registered")
        whole.brokers[lost].restart()
        whole.await_in_sync(topic, 3)
        assert topic_admin.elect_preferred_leaders(cluster, {topic: [0]}) == {(topic, 0): None}
    finally:
        cluster.close()
    eventually(lambda: whole.leader(topic) == lost, what="it leads again")
    consumer = Consumer({"bootstrap.servers": whole.address, "group.id": topic, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[bytes] = []

    def is_read() -> bool:
        read.extend(one.value() for one in consumer.consume(1_000, timeout=0.2) if one.error() is None)
        return len(read) >= COUNT

    try:
        eventually(is_read, what="all is read from it")
    finally:
        consumer.close()
    assert read == [b"%d" % number for number in range(COUNT)]
