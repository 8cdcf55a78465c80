"""Topics that two brokers share: a new one is served everywhere when its creation is answered, and one that was deleted and
created again while its broker was down begins empty.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordination.session import Session
from headrace.coordination.topics import TopicRegistry
from headrace.wire.errors import ErrorCode
from tests.support.broker import BrokerProcess
from tests.support.raw_kafka import RawClient, batch, create_topic

ROUNDS = 15


@pytest.fixture
def brokers(zookeeper_chroot: str, tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    started = [BrokerProcess(tmp_path / str(number), zookeeper_chroot, broker_id=number).start() for number in (1, 2)]
    yield started
    for one in started:
        one.stop()


def test_a_created_topic_is_served_by_every_broker(brokers: list[BrokerProcess]) -> None:
    """Fault: `kcat -C -e` right after a creation failed 32 of 60 times."""
    missing = []
    with RawClient(brokers[1].port) as other:
        for number in range(ROUNDS):
            name = f"t{number}"
            create_topic(brokers[0].port, name, 2, {})
            message = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            (topic,) = other.ask(3, 4, message).topics
            led = [one.partition_index for one in topic.partitions if one.leader_id == 2]
            read = [other.fetch(name, 0, partition=index).error_code for index in led]
            if topic.error_code or not led or any(read):
                missing.append((name, topic.error_code, read))
    assert missing == []


def test_a_topic_deleted_and_created_again_while_its_broker_was_down_begins_empty(zookeeper_chroot: str, tmp_path: Path) -> None:
    """Fault: the old records were the new topic's."""
    broker = BrokerProcess(tmp_path, zookeeper_chroot).start()
    for name in ("again", "kept"):
        create_topic(broker.port, name, 1, {})
    with RawClient(broker.port) as client:
        for name in ("again", "kept"):
            assert client.produce(name, batch(b"old")).error_code == 0
    broker.stop()
    with_session = Session(zookeeper_chroot, name="test").start()
    try:
        registry = TopicRegistry(with_session)
        assert registry.delete("again")
        assert registry.create("again", {0: [1]}, {})
    finally:
        with_session.close()
    broker.start()
    try:
        with RawClient(broker.port) as client:
            answer = client.fetch("again", 0)
            assert (answer.error_code, answer.high_watermark, len(answer.records or b"")) == (ErrorCode.NONE, 0, 0)
            assert client.fetch("kept", 0).high_watermark > 0
        assert "folder_of_deleted_topic" in broker.log
        (aside,) = broker.data.glob("again-0.replaced.*")
        assert any(aside.glob("*.log"))
    finally:
        broker.stop()
