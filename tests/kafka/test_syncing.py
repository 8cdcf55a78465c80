"""Besides records, with Apache Kafka at an end: group offsets through the ledger, and the settings that a copy can take."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.client.connection.cluster import Cluster as OurCluster
from headrace.client.fetch.fetched import TopicPartition as Place
from headrace.client.fetch.log_offsets import log_range
from headrace.client.mirror_ledger import LedgerReader
from headrace.client.record_deletion import delete_records
from headrace.client.topic_admin import topic_settings
from tests.kafka.copying import Cluster, Copying, make_topic, numbered, send
from tests.support.broker import BrokerProcess
from tests.support.group_reading import consume
from tests.support.kafka import KafkaProcess
from tests.support.processes import eventually

SYNC = ("--sync-group-offsets", "--sync-group-offsets-interval-seconds", "1")
IN_ORDER = {"batch.num.messages": 7, "enable.idempotence": True}


def committed(cluster: Cluster, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": group, "log_level": 0})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset)
    finally:
        consumer.close()


@pytest.mark.parametrize("pair", ["ours-kafka", "kafka-ours"])
def test_a_group_goes_on_at_the_copy_with_the_next_record_though_offsets_differ(
    ours: BrokerProcess, kafka: KafkaProcess, other_kafka: KafkaProcess, topic: str, tmp_path: Path, pair: str
) -> None:
    source: Cluster = ours if pair == "ours-kafka" else other_kafka
    destination: Cluster = kafka if pair == "ours-kafka" else ours
    make_topic(source, topic)
    values = numbered("a", 300)
    send(source, topic, values, **IN_ORDER)
    # In the middle of a batch; and one that has read everything.
    assert consume(source.address, topic, f"{topic}-half", 123) == values[:123]
    consume(source.address, topic, f"{topic}-all", 300)
    with Copying(tmp_path, source, destination, name=topic, words=("--topics", topic, *SYNC)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values})
        for group in (f"{topic}-half", f"{topic}-all"):
            eventually(lambda group=group: committed(destination, topic, group) >= 0, within_ms=60_000, what=f"{group} copied")
        more = numbered("b", 50)
        send(source, topic, more, **IN_ORDER)
        copying.await_copied({(topic, 0): values + more})
        assert copying.status()["sync"]["trouble"] is None
    assert consume(destination.address, topic, f"{topic}-half", 227) == values[123:] + more
    assert consume(destination.address, topic, f"{topic}-all", 50) == more


def test_settings_go_along_and_those_that_a_copy_in_kafka_cannot_have_are_named(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic, retention_bytes="500000000", retention_ms="3600000")
    send(ours, topic, numbered("a", 10))
    words = ("--topics", topic, "--sync-topic-configs", "--sync-topic-configs-interval-seconds", "1")
    with Copying(tmp_path, ours, kafka, name=topic, words=words) as copying:
        copying.start()
        cluster = OurCluster(kafka.address)

        def held() -> dict[str, str | None]:
            return {one.name: one.value for one in topic_settings(cluster, topic)}

        copying.await_copied({(topic, 0): numbered("a", 10)})
        eventually(lambda: held()["retention.bytes"] == "500000000", within_ms=30_000, what="the setting copied")
        eventually(lambda: copying.status()["sync"]["settings_left_out"], what="the others named")
        assert "retention.ms" in copying.status()["sync"]["settings_left_out"][topic]
        assert held()["retention.ms"] == "-1"
        cluster.close()


def test_what_our_broker_deleted_before_it_was_copied_to_kafka_is_a_gap_by_offsets_in_books_and_ledger(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    first, lost, left = numbered("first", 50), numbered("lost", 50), numbered("left", 50)
    send(ours, topic, first, **IN_ORDER)
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): first})
        eventually(lambda: copying.counted(topic) == 50, what="the first reported")
        held = copying.partition(topic)["destination_end"]
        copying.kill()
        send(ours, topic, lost, **IN_ORDER)
        source = OurCluster(ours.address)
        border = log_range(source, Place(topic, 0))[1]
        send(ours, topic, left, **IN_ORDER)
        delete_records(source, {Place(topic, 0): border})
        source.close()
        copying.start()
        copying.await_copied({(topic, 0): first + left})
        eventually(lambda: copying.counted(topic) == 100, what="what is left reported")
        (gap,) = eventually(lambda: copying.told(topic).skipped.get(0), what="the gap in the books")
        assert (gap.from_offset, gap.to_offset, gap.reason) == (held, border, "expired")
        ledger = OurCluster(kafka.address)
        skipped = [one for entry in LedgerReader(ledger, topic).read() for one in entry.skipped]
        ledger.close()
        assert [tuple(one) for one in skipped] == [(held, border, "expired")]
