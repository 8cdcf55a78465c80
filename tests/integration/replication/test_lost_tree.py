"""Runbook: an ensemble loses all its disks, or comes back older, while partitions have three replicas (docs/OPERATIONS.md)."""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headrace.cli.main import main
from tests.support.broker import BrokerProcess
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually
from tests.support.zookeeper import ZooKeeperProcess

PARTITIONS = 2
COMMAND = "then run `headrace partition recover TOPIC PARTITION`"
SETTINGS = {"zookeeper.copy.interval.ms": 300}


class Site:
    """Three brokers on an ensemble of their own, of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.zookeeper = ZooKeeperProcess(folder / "zookeeper").start()
        self.disk = folder / "zookeeper" / "data"
        self.chroot = f"{self.zookeeper.address}/live"
        self.cluster = BrokerCluster(folder, self.chroot, settings=SETTINGS)
        self.brokers = self.cluster.brokers
        self.tree = folder / "tree.json"

    def end(self) -> None:
        self.cluster.__exit__()
        self.zookeeper.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    try:
        with made.cluster:
            yield made
    finally:
        made.end()


class Books:
    """What a producer was told: partition and offset of each value. One producer for a whole test."""

    def __init__(self, address: str, topic: str, *, is_idempotent: bool = True) -> None:
        self.topic, self.acknowledged = topic, dict[tuple[int, int], bytes]()
        self._is_idempotent = is_idempotent
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": is_idempotent, "log_level": 0})
        self._next = 0

    def produce(self, count: int = 100) -> None:
        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            place, value = (message.partition(), message.offset()), message.value()
            assert place not in self.acknowledged, f"{place} was acknowledged twice"
            self.acknowledged[place] = value  # type: ignore[index,assignment]  # both are known of what was delivered

        for one in range(self._next, self._next + count):
            self._producer.produce(self.topic, b"%d" % one, partition=one % PARTITIONS, on_delivery=delivered)
        self._next += count
        assert self._producer.flush(60) == 0

    def check(self, cluster: BrokerCluster) -> None:
        """Every acknowledged record is there once, at its offset; of an idempotent producer, nothing else is."""
        consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": "all", "auto.offset.reset": "error"})
        consumer.assign([TopicPartition(self.topic, index, 0) for index in range(PARTITIONS)])
        read: dict[tuple[int, int], bytes] = {}

        def is_read() -> bool:
            for one in consumer.consume(1_000, timeout=0.2):
                assert one.error() is None, one.error()
                place = one.partition(), one.offset()
                assert place not in read, f"{place} was read twice"
                read[place] = one.value()  # type: ignore[index,assignment]  # both are known of what was read
            return read.keys() >= self.acknowledged.keys()

        try:
            eventually(is_read, within_ms=60_000, what="everything is read")
        finally:
            consumer.close()
        assert (read if self._is_idempotent else {place: read[place] for place in self.acknowledged}) == self.acknowledged


def test_an_ensemble_and_one_broker_lose_their_disks_and_no_acknowledged_record_is_lost(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault: no replica led any more, and no command let one lead. A broker with an empty disk would have led, empty."""
    cluster, topic = site.cluster, f"t_{uuid.uuid4().hex[:8]}"
    cluster.create(topic, PARTITIONS)
    books = Books(cluster.address, topic)
    books.produce()
    killed = cluster.kill_leader(topic)
    books.produce()
    site.brokers[killed].restart()
    cluster.await_in_sync(topic, 3)
    commit(cluster, topic, 40)
    kept = site.brokers[1].data / "tree.json"
    eventually(lambda: f"offsets/{topic}" in kept.read_text(), within_ms=60_000, what="a copy with topic and offset")

    site.zookeeper.kill()
    shutil.rmtree(site.disk)
    site.zookeeper.start()
    books.produce()
    lost = next(one for one in site.brokers if one not in (1, cluster.leader(topic)))
    for broker in site.brokers.values():
        broker.kill()
    shutil.rmtree(site.brokers[lost].data)
    for one, broker in site.brokers.items():
        if one != lost:
            assert main(["zookeeper", "rebuild", "--data", str(broker.data), str(site.tree)]) == 0
    assert main(["zookeeper", "import", "--zookeeper", site.chroot, str(site.tree)]) == 0
    assert "run `headrace partition recover --all`" in capsys.readouterr().out

    recover = partial(recovered, capsys, cluster.address)
    for one in site.brokers.values():
        one.launch()
    site.brokers[lost].kill()
    for one, broker in site.brokers.items():
        if one != lost:
            broker.await_ready()
    eventually(lambda: len(shown(recover, topic)["replicas"]) == 2, within_ms=60_000, what="two replicas answer")
    found = shown(recover, topic)
    assert f"what broker {lost} holds is not known" in found["doubt"]
    assert found["start_offset"] > 1 << 40, "the next batch goes behind what may have been used"
    status, rows = recover("--all", "--execute")
    assert (status, [one["is_done"] for one in rows]) == (1, [False] * PARTITIONS)

    site.brokers[lost].restart()
    eventually(lambda: recover("--all")[0] == 0, within_ms=60_000, what="every replica answers")
    found = shown(recover, topic)
    ends = {one["broker_id"]: one["end_offset"] for one in found["replicas"]}
    assert (found["doubt"], found["is_done"], ends[lost]) == (None, False, 0)
    assert found["start_offset"] == max(ends.values())
    assert cluster.leader(topic) == -1, "a dry run changes nothing, and no replica leads without the operator"
    status, rows = recover("--all", "--execute")
    assert (status, [one["is_done"] for one in rows]) == (0, [True] * PARTITIONS)
    cluster.await_in_sync(topic, 3)
    books.produce()
    books.check(cluster)
    assert committed(cluster, topic) == 40
    assert recover("--all") == (0, [])


def test_an_ensemble_that_comes_back_older_is_obeyed_once_an_operator_has_recovered_the_partitions(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, topic = site.cluster, f"t_{uuid.uuid4().hex[:8]}"
    cluster.create(topic, PARTITIONS)
    books = Books(cluster.address, topic, is_idempotent=False)
    books.produce()
    killed = cluster.kill_leader(topic)
    ids = site.brokers[killed].data / "producer_ids.json"
    before = ids.read_bytes()
    site.brokers[killed].restart()
    # A broker with later producer ids than the older tree has would not start.
    eventually(lambda: ids.read_bytes() != before, within_ms=60_000, what="a block of producer ids")
    cluster.await_in_sync(topic, 3)
    old = site.folder / "old"
    site.zookeeper.kill()
    shutil.copytree(site.disk, old)
    site.zookeeper.start()

    def is_elected() -> bool:
        return main(["cluster", "elect", "--bootstrap", cluster.address]) == 0 and cluster.leader(topic) == killed

    eventually(is_elected, within_ms=60_000, what="the preferred replica leads, in a later epoch")
    books.produce()

    site.zookeeper.kill()
    shutil.rmtree(site.disk)
    shutil.move(old, site.disk)
    for broker in site.brokers.values():
        broker.kill()
    site.zookeeper.start()
    logged = {broker: len(broker.log) for broker in site.brokers.values()}
    for broker in logged:
        broker.launch()
    for broker, before_it in logged.items():
        broker.await_ready(60_000)
        stopped = partial(has_logged, broker, before_it)
        eventually(stopped, within_ms=60_000, what="an error with the command")
    recover = partial(recovered, capsys, cluster.address)

    def is_certain() -> bool:
        status, rows = recover("--all")
        return status == 0 and topic in {one["topic"] for one in rows}

    eventually(is_certain, within_ms=60_000, what="every replica answers")
    status, rows = recover("--all", "--execute")
    assert status == 0
    assert (topic, 0) in [(one["topic"], one["partition"]) for one in rows if one["is_done"]]
    cluster.await_in_sync(topic, 3)
    books.produce()
    books.check(cluster)


def has_logged(broker: BrokerProcess, before: int) -> bool:
    return COMMAND in broker.log[before:]


def recovered(capsys: pytest.CaptureFixture[str], address: str, *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    status = main(["partition", "recover", "--bootstrap", address, "--json", *words])
    return status, json.loads(capsys.readouterr().out)


def shown(recover: Callable[..., tuple[int, Any]], topic: str) -> dict[str, Any]:
    return dict(recover(topic, "0")[1])


def commit(cluster: BrokerCluster, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(cluster: BrokerCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": "readers", "log_level": 0})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)
