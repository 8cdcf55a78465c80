"""Age is the time since arrival at this broker: old events survive restart, segment roll and retention that deletes others."""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

MAY_2015_MS = 1_431_857_100_000
COUNT = 2_000


def start_of(address: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "ends"})
    try:
        low: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10, cached=False)[0]
        return low
    finally:
        consumer.close()


def send(address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address, "batch.num.messages": 20})
    for number in range(COUNT):
        producer.produce(topic, f"event {number}".encode().ljust(200), partition=0, timestamp=MAY_2015_MS + number)
    assert producer.flush(30) == 0


def test_years_old_events_survive_restart_segment_roll_and_a_retention_pass(tmp_path: Path, zookeeper_chroot: str) -> None:
    broker = BrokerProcess(tmp_path, zookeeper_chroot, settings={"log.retention.check.interval.ms": 100}).start()
    try:
        small = {"segment.bytes": "65536"}
        admin = AdminClient({"bootstrap.servers": broker.address})
        made = admin.create_topics(
            [
                NewTopic("old", 1, config={**small, "retention.ms": "3600000"}),
                NewTopic("gone", 1, config={**small, "retention.ms": "1"}),
            ]
        )
        for outcome in made.values():
            outcome.result(timeout=20)
        send(broker.address, "old")
        assert len(list((broker.data / "old-0").glob("*.log"))) > 3, "the log has rolled"
        broker.stop()
        broker.start()
        send(broker.address, "gone")
        eventually(lambda: start_of(broker.address, "gone") > 0, what="a retention pass that deletes the other topic's segments")

        assert start_of(broker.address, "old") == 0
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "read"})
        consumer.assign([TopicPartition("old", 0, 0)])
        read: list[tuple[int, bytes]] = []
        while len(read) < COUNT:
            messages = consumer.consume(COUNT, timeout=20)
            assert messages, f"only {len(read)} of {COUNT} came"
            read += [(message.timestamp()[1], message.value()) for message in messages]
        consumer.close()
        assert read == [(MAY_2015_MS + number, f"event {number}".encode().ljust(200)) for number in range(COUNT)]
    finally:
        broker.stop()
