"""A ZooKeeper that comes back older than it was: from a copy or a snapshot of its disk, while brokers and logs continue.

What must hold (docs/AUDIT_RULES.md, "Edges"): no producer id is issued twice, for a broker would take another application's
records for repeated ones; no topic that was made since is set aside; a group reads on from an older commit, and misses nothing.
"""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.processes import eventually
from tests.support.zookeeper import ZooKeeperProcess

from .test_runbooks import headrace, make_topic

pytestmark = pytest.mark.whole


def send(address: str, topic: str, values: list[bytes]) -> None:
    """Send with a producer of its own that numbers its records, and return once all are acknowledged."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(30) == 0
    assert refused == []


def commit(address: str, topic: str, offsets: list[int]) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False})
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def read_by_group(address: str, topic: str, count: int) -> list[bytes]:
    """Return the next records of the group's position."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "error"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"only {found} came"
        assert message.error() is None, message.error()
        found.append(message.value())
    consumer.close()
    return found


def values_in(address: str, topic: str) -> list[bytes]:
    return [bytes(message.value()) for message in read_all(address, topic)]


def roll_back(zookeeper: ZooKeeperProcess, folder: Path, older: Path | None) -> None:
    """Give ZooKeeper an older disk, or (None) an empty one."""
    zookeeper.kill()
    shutil.rmtree(folder / "data")
    if older is not None:
        shutil.copytree(older, folder / "data")
    zookeeper.start()


def test_a_broker_refuses_an_older_zookeeper_and_after_the_runbook_no_id_is_issued_twice(tmp_path: Path) -> None:
    """Fault: an id was issued again, and records of the new producer were acknowledged and not stored, as repeated ones; a topic
    that was made since was set aside.
    """
    folder, older, tree = tmp_path / "zookeeper", tmp_path / "older", str(tmp_path / "tree.json")
    with ZooKeeperProcess(folder) as zookeeper:
        broker = BrokerProcess(tmp_path / "broker", zookeeper.address).start()
        try:
            make_topic(broker.address, "clicks")
            zookeeper.kill()
            shutil.copytree(folder / "data", older)
            zookeeper.start()
            broker.kill()
            broker.start()
            make_topic(broker.address, "made-since")
            send(broker.address, "clicks", [b"first"])
            send(broker.address, "made-since", [b"kept"])
            commit(broker.address, "clicks", [0, 0, 0, 0])
            copy = broker.data / "tree.json"
            eventually(lambda: "made-since" in copy.read_text(), within_ms=30_000, what="the new topic in the broker's copy")
            commit(broker.address, "clicks", [1, 0, 0, 0])
            broker.kill()
            roll_back(zookeeper, folder, older)
            broker.launch()
            eventually(lambda: not broker.process.is_running(), within_ms=60_000, what="the broker refuses")
            assert "is older than this broker" in broker.log
            assert [path.name for path in broker.data.glob("*.gone.*")] == []
            roll_back(zookeeper, folder, None)
            headrace("zookeeper", "rebuild", "--data", str(broker.data), tree)
            headrace("zookeeper", "import", "--zookeeper", zookeeper.address, tree)
            broker.start()
            send(broker.address, "clicks", [b"second"])
            assert values_in(broker.address, "clicks") == [b"first", b"second"]
            assert values_in(broker.address, "made-since") == [b"kept"]
            # The copy is from before the last commit: the group handles the record again, and misses none.
            assert read_by_group(broker.address, "clicks", 2) == [b"first", b"second"]
        finally:
            broker.kill()
