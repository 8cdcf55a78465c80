"""A group of Kafka's own protocol on a real broker; librdkafka writes, and shares a group with ours."""

import threading
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from headrace.client.connection.cluster import Cluster
from headrace.client.consumer.group_consumer import GroupConsumer
from headrace.client.consumer.group_positions import GroupPositions
from headrace.client.consumer.stream_message import Message
from headrace.client.consumer.zk_errors import PartitionsLost
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create, produce
from tests.support.processes import eventually

SESSION_MS = 6_000


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 4)
    return name


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [f"{number:06d}".encode() for number in range(start, start + count)]


class Reader:
    """A consumer iterated by a thread of its own."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **options: object) -> None:
        options.setdefault("recheck_ms", 200)
        self.consumer = GroupConsumer(broker.address, group, [topic], fetch_wait_ms=100, **options)  # type: ignore[arg-type]
        self.messages: list[Message] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.consumer.start()
        self._thread.start()

    def _run(self) -> None:
        for message in self.consumer.stream():
            self.messages.append(message)

    def close(self) -> None:
        self.consumer.close()
        self._thread.join(20)
        assert not self._thread.is_alive()


def values(*readers: Reader) -> list[bytes | None]:
    return sorted((message.value for reader in readers for message in reader.messages), key=lambda value: value or b"")


def test_two_members_share_the_partitions_and_who_leaves_is_followed_without_a_gap(broker: BrokerProcess, topic: str) -> None:
    group = f"g-{topic}"
    first, second = Reader(broker, group, topic), Reader(broker, group, topic)
    eventually(
        lambda: [len(one.consumer.positions()) for one in (first, second)] == [2, 2], within_ms=60_000, what="two partitions each"
    )
    produce(broker.address, topic, numbered(400))
    eventually(lambda: values(first, second) == numbered(400), within_ms=30_000, what="every message once")
    second.close()
    produce(broker.address, topic, numbered(400, 400))
    eventually(lambda: values(first, second) == numbered(800), within_ms=60_000, what="the other goes on behind the last commit")
    first.close()


def test_a_member_that_closes_leaves_its_group_at_once(broker: BrokerProcess, topic: str) -> None:
    """Fault: it asked to leave on the connection that its own stop had closed, so the group missed it for a session."""
    group = f"g-{topic}"
    only = Reader(broker, group, topic, session_timeout_ms=300_000)
    eventually(lambda: len(only.consumer.positions()) == 4, within_ms=60_000, what="all partitions")
    only.close()
    admin = AdminClient({"bootstrap.servers": broker.address})
    found = admin.describe_consumer_groups([group])[group]
    assert list(found.result(20).members) == []


def test_a_topic_that_is_made_later_is_found(broker: BrokerProcess) -> None:
    later = f"later-{uuid.uuid4().hex[:8]}"
    reader = Reader(broker, f"g-{later}", later)
    eventually(lambda: reader.consumer.is_sure, within_ms=30_000, what="a member of a group without partitions")
    create(broker.address, later, 4)
    produce(broker.address, later, numbered(40))
    eventually(lambda: values(reader) == numbered(40), within_ms=60_000, what="the new topic's messages")
    reader.close()


def test_a_librdkafka_member_shares_the_group(broker: BrokerProcess, topic: str) -> None:
    group = f"g-{topic}"
    reader = Reader(broker, group, topic)
    other = Consumer(
        {"bootstrap.servers": broker.address, "group.id": group, "partition.assignment.strategy": "range",
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    other.subscribe([topic])

    def shared() -> bool:
        other.poll(0.1)
        return len(other.assignment()) == 2 and len(reader.consumer.positions()) == 2

    eventually(shared, within_ms=60_000, what="two partitions each")
    other.close()
    reader.close()


def test_who_was_thrown_out_commits_nothing(broker: BrokerProcess, topic: str) -> None:
    produce(broker.address, topic, numbered(40))
    group = f"g-{topic}"
    consumer = GroupConsumer(broker.address, group, [topic], session_timeout_ms=SESSION_MS, commit_on_revoke=False).start()
    assert consumer.poll(60_000) is not None
    # As a pause of the whole process: nobody beats, and the coordinator gives the partitions away.
    consumer._membership.stop_sharing()
    successor = Reader(broker, group, topic)
    eventually(lambda: values(successor) == numbered(40), within_ms=60_000, what="everything, from the start")
    with pytest.raises(PartitionsLost):
        consumer.commit()
    consumer.close()
    successor.close()


def test_a_brokers_restart_is_waited_out(zookeeper: str, tmp_path: Path) -> None:
    scratch_broker = BrokerProcess(tmp_path, f"{zookeeper}/group-{uuid.uuid4().hex[:8]}").start()
    create(scratch_broker.address, "restart", 4)
    reader = Reader(scratch_broker, "g", "restart")
    produce(scratch_broker.address, "restart", numbered(40))
    eventually(lambda: values(reader) == numbered(40), within_ms=60_000, what="the first messages")
    scratch_broker.kill()
    scratch_broker.start()
    produce(scratch_broker.address, "restart", numbered(40, 40))
    eventually(lambda: set(values(reader)) == set(numbered(80)), within_ms=90_000, what="the later messages")
    reader.close()
    scratch_broker.kill()


def test_reported_positions_stay_in_the_cluster_and_never_move_back(broker: BrokerProcess, topic: str) -> None:
    cluster = Cluster(broker.address)
    book = GroupPositions(cluster)
    tier = f"consumer:g-{topic}"
    assert book.read(tier, topic, 1) is None
    book.write(tier, topic, 1, 70)
    book.write(tier, topic, 1, 50)
    assert GroupPositions(cluster).read(tier, topic, 1) == 70
    assert book.partitions(tier, topic) == [1]
    book.write_many(tier, {(topic, 0): 9, (topic, 1): 60})
    assert GroupPositions(cluster).read_many(tier, [(topic, 0), (topic, 1)]) == {(topic, 0): 9, (topic, 1): 70}
    cluster.close()
