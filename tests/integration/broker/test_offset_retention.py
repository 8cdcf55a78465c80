"""Committed offsets expire: a real broker in this process with a real ZooKeeper and real clients; only the wall clock is a
double. It runs as many days ahead of ZooKeeper's as a test says, and the broker is restarted in between.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.broker.app import BrokerProcess
from headrace.broker.machine import SystemMachine
from headrace.broker.settings.broker_settings import from_words
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from headrace.coordination.consumers import OffsetRegistry
from headrace.coordination.session import Session
from headrace.runtime.clock import SystemClock
from tests.support.processes import eventually, free_port

DAY_MS = 86_400_000
QUICK = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 200, "enable.auto.commit": False}


class AheadClock(SystemClock):
    """The machine's clock plus some days."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Scene:
    """The runs of one broker on one folder, and the contents of ZooKeeper."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.zookeeper = zookeeper
        self.clock = AheadClock()
        self.port = free_port()
        self._folder = folder
        self.session = Session(zookeeper, name="test").start()
        self.broker = self._start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _start(self) -> BrokerProcess:
        words = [
            "offsets.retention.check.interval.ms=100",
            "group.initial.rebalance.delay.ms=0",
            "group.min.session.timeout.ms=500",
        ]
        settings = from_words(data=self._folder, zookeeper=self.zookeeper, port=self.port, words=words)
        machine = SystemMachine()
        machine.clock = self.clock
        broker = BrokerProcess(settings, machine)
        broker.start()
        return broker

    def restart(self) -> None:
        self.broker.stop()
        self.broker = self._start()

    def end(self) -> None:
        self.broker.stop()
        self.session.close()

    def later(self, days: float) -> None:
        """Move the clock this many days ahead; return when the broker has checked all groups since."""
        self.clock.ahead_ms = int(days * DAY_MS)
        assert days >= 7
        OffsetRegistry(self.session).put("zzz-the-last-one-looked-at", "old", 0, 1)
        eventually(lambda: not self.left("zzz-the-last-one-looked-at"), what="a look at all groups")

    def left(self, group: str) -> set[tuple[str, int]]:
        return set(OffsetRegistry(self.session).get_all(group))

    def consumer(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.address, "group.id": group, **QUICK})

    def has_assignment(self, consumer: Consumer) -> Callable[[], bool]:
        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        return joined


@pytest.fixture
def scene(tmp_path: Path, zookeeper_chroot: str) -> Iterator[Scene]:
    scene = Scene(tmp_path / "data", zookeeper_chroot)
    try:
        topics = [NewTopic(name, 1, 1) for name in ("clicks", "orders")]
        admin = AdminClient({"bootstrap.servers": scene.address})
        for made in admin.create_topics(topics).values():
            made.result(10)
        yield scene
    finally:
        scene.end()


def test_offsets_of_clients_without_a_group_expire_a_week_after_their_commit_over_restarts(scene: Scene) -> None:
    consumer = scene.consumer("alone")
    consumer.commit(offsets=[TopicPartition("clicks", 0, 5), TopicPartition("orders", 0, 6)], asynchronous=False)
    assert [one.offset for one in consumer.committed([TopicPartition("clicks", 0)], timeout=10)] == [5]
    scene.restart()
    scene.clock.ahead_ms = int(6.9 * DAY_MS)
    scene.restart()
    assert len(scene.left("alone")) == 2
    scene.later(7.1)
    assert scene.left("alone") == set()
    assert [one.offset for one in consumer.committed([TopicPartition("clicks", 0)], timeout=10)] == [-1001]
    consumer.close()


def test_a_groups_offsets_stay_while_members_read_the_topic_and_a_week_after_the_last_one_left_over_restarts(
    scene: Scene,
) -> None:
    reader = scene.consumer("g")
    reader.commit(offsets=[TopicPartition("clicks", 0, 5), TopicPartition("orders", 0, 6)], asynchronous=False)
    reader.subscribe(["clicks"])
    eventually(scene.has_assignment(reader), what="a member")
    scene.later(8)
    assert scene.left("g") == {("clicks", 0)}, "nobody reads orders"
    scene.broker.stop()
    scene.clock.ahead_ms = 100 * DAY_MS
    scene.restart()
    scene.later(100)
    assert scene.left("g") == {("clicks", 0)}, "the group was not seen empty while there was not a broker"
    reader.close()
    scene.later(100)
    scene.restart()
    scene.later(106.9)
    assert scene.left("g") == {("clicks", 0)}
    scene.later(107.1)
    assert scene.left("g") == set()


def test_offsets_of_the_papers_consumers_stay_while_one_is_registered(scene: Scene) -> None:
    OffsetRegistry(scene.session).put("paper", "clicks", 0, 0)
    with ZooKeeperConsumer(scene.address, scene.zookeeper, "paper", ["clicks"], consumer_id="c1"):
        scene.later(8)
        scene.later(30)
        assert scene.left("paper") == {("clicks", 0)}
    scene.later(31)
    assert scene.left("paper") == {("clicks", 0)}
    scene.later(39)
    assert scene.left("paper") == set()
