"""Copies from Apache Kafka: to another Kafka and to our broker; with transactions, compaction and what comes of them."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka.copying import Cluster, Copying, make_topic, numbered, producer, send
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
