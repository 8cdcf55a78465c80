"""Copies from Apache Kafka: to another Kafka and to our broker; with transactions, compaction and what comes of them."""

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.connection.cluster import Cluster as ClientCluster
from headrace.client.fetch.read_range import read_range
from headrace.wire.batch.record_batch import iter_records
from tests.kafka.copying import Cluster, Copying, make_topic, numbered, producer, read_all, send
from tests.support.kafka import KafkaProcess
from tests.support.processes import eventually


@pytest.fixture(params=["kafka", "ours"])
def destination(request: pytest.FixtureRequest) -> Cluster:
    """Apache Kafka, and our broker."""
    found: Cluster = request.getfixturevalue(str(request.param))
    return found


@pytest.fixture(name="kafka")
def _kafka(other_kafka: KafkaProcess, kafka: KafkaProcess) -> KafkaProcess:
    return kafka


def transactional(cluster: Cluster, name: str) -> Producer:
    sender = producer(cluster, **{"transactional.id": name})
    sender.init_transactions(30)
    return sender


def test_every_codec_arrives(other_kafka: KafkaProcess, destination: Cluster, topic: str, tmp_path: Path) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    make_topic(other_kafka, topic, len(codecs))
    expected = {}
    for partition, codec in enumerate(codecs):
        expected[topic, partition] = values = numbered(codec, 1_000)
        send(other_kafka, topic, values, partition=partition, **{"compression.type": codec})
    with Copying(tmp_path, other_kafka, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied(expected)
        eventually(lambda: copying.counted(topic) == 5_000, what="all reported")
        assert copying.mirror.stop() == 0


def test_aborted_transactions_are_not_copied_and_no_loss(
    other_kafka: KafkaProcess, destination: Cluster, topic: str, tmp_path: Path
) -> None:
    make_topic(other_kafka, topic)
    kept: list[bytes] = []
    sender, other = transactional(other_kafka, topic), transactional(other_kafka, f"{topic}-2")
    for turn in range(12):
        sender.begin_transaction()
        other.begin_transaction()
        first, second = numbered(f"a{turn}", 20), numbered(f"b{turn}", 20)
        for value in first:
            sender.produce(topic, value, partition=0)
        sender.flush(20)
        for value in second:
            other.produce(topic, value, partition=0)
        other.flush(20)
        if turn % 3 == 0:
            sender.abort_transaction(20)
        else:
            sender.commit_transaction(20)
            kept += first
        if turn % 4 == 1:
            other.abort_transaction(20)
        else:
            other.commit_transaction(20)
            kept += second
    with Copying(tmp_path, other_kafka, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): kept})
        eventually(lambda: copying.counted(topic) == len(kept), what="the committed records reported")
        assert not [one for report in copying.reports() if report.topic == topic for one in report.skipped]
        eventually(lambda: copying.partition(topic)["lag_bytes"] == 0, what="no lag")
        assert not copying.status()["errors"]


def test_what_an_open_transaction_holds_is_copied_when_it_is_committed(
    other_kafka: KafkaProcess, destination: Cluster, topic: str, tmp_path: Path
) -> None:
    make_topic(other_kafka, topic)
    before, inside = numbered("before", 10), numbered("inside", 10)
    send(other_kafka, topic, before)
    sender = transactional(other_kafka, topic)
    sender.begin_transaction()
    for value in inside:
        sender.produce(topic, value, partition=0)
    sender.flush(20)
    with Copying(tmp_path, other_kafka, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): before})
        sender.commit_transaction(20)
        copying.await_copied({(topic, 0): before + inside})


def test_a_compacted_topic_is_copied_record_by_record_and_its_holes_are_no_loss(
    other_kafka: KafkaProcess, destination: Cluster, topic: str, tmp_path: Path
) -> None:
    settings = {"segment_ms": "200", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
    make_topic(other_kafka, topic, cleanup_policy="compact", **settings)
    sender = producer(other_kafka, **{"batch.num.messages": 7})

    def send_round(turn: int) -> None:
        for number in range(100):
            # Every third key is written once; so each batch keeps some of its records.
            key = f"k{number}" if number % 3 else f"k{number}-{turn}"
            sender.produce(topic, f"{turn}-{number}".encode(), key=key.encode(), partition=0)
        assert sender.flush(20) == 0

    for turn in range(4):
        send_round(turn)

    def is_compacted() -> bool:
        send_round(next(turns))  # rolls the segment, so that what is before it may be compacted
        return any(not header.is_dense for header, _ in read_range(cluster, topic, 0, 0, 1 << 60))

    turns = iter(range(4, 1_000))
    cluster = ClientCluster(other_kafka.address)
    eventually(is_compacted, within_ms=90_000, every_ms=500, what="compaction")
    with Copying(tmp_path, other_kafka, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        # The newest value of every key is there, whatever was compacted meanwhile.
        batches = read_range(cluster, topic, 0, 0, 1 << 60)
        newest = {record.key: record.value for _, batch in batches for record in iter_records(batch)}

        def is_same() -> bool:
            return set(newest.values()) <= set(read_all(destination.address, [(topic, 0)])[topic, 0])

        eventually(is_same, within_ms=60_000, what=f"the newest value of every key; {copying.status()}")
        found = read_all(destination.address, [(topic, 0)])[topic, 0]
        assert len(found) == len(set(found))
        assert not copying.status()["errors"]
        eventually(lambda: copying.counted(topic) == len(found), what="all reported")
        assert not [one for report in copying.reports() if report.topic == topic for one in report.skipped]
    cluster.close()


def test_what_expired_before_it_was_copied_is_a_gap_by_offsets_in_the_books(
    other_kafka: KafkaProcess, destination: Cluster, topic: str, tmp_path: Path
) -> None:
    make_topic(other_kafka, topic)
    first, lost, rest = numbered("first", 100), numbered("lost", 100), numbered("rest", 100)
    send(other_kafka, topic, first)
    with Copying(tmp_path, other_kafka, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): first})
        eventually(lambda: copying.counted(topic) == 100, what="the first reported")
        copying.kill()
        send(other_kafka, topic, lost)
        send(other_kafka, topic, rest)
        admin = AdminClient({"bootstrap.servers": other_kafka.address})
        for future in admin.delete_records([TopicPartition(topic, 0, 200)]).values():
            future.result(30)
        copying.start()
        copying.await_copied({(topic, 0): first + rest})
        skipped = eventually(
            lambda: [one for report in copying.reports() if report.topic == topic for one in report.skipped], what="the gap"
        )
        assert [tuple(one) for one in skipped] == [(100, 200, "expired")]
        eventually(lambda: copying.counted(topic) == 200, what="the rest reported")


def test_records_with_the_sources_own_time_keep_that_time(
    other_kafka: KafkaProcess, destination: Cluster, topic: str, tmp_path: Path
) -> None:
    make_topic(other_kafka, topic, message_timestamp_type="LogAppendTime")
    values = numbered("a", 100)
    send(other_kafka, topic, values)
    with Copying(tmp_path, other_kafka, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values})
    times = []
    for one in (other_kafka, destination):
        cluster = ClientCluster(one.address)
        times.append([r.timestamp_ms for _, batch in read_range(cluster, topic, 0, 0, 1 << 60) for r in iter_records(batch)])
        cluster.close()
    assert times[0] == times[1]
    assert len(times[0]) == 100
