"""docs/OPERATIONS.md's runbooks, as they are there: a rolling upgrade and back under load, a lost disk of either cluster, a
lost ZooKeeper. What was sent is known by the ids in the values; what is there is read by confluent-kafka.
"""

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.zookeeper import ZooKeeperProcess

from .datacenters import lose_disk

PARTITIONS = 4


def make_topic(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def values_in(address: str, topic: str) -> list[list[bytes]]:
    """Return each partition's values, in their order."""
    known = {"bootstrap.servers": address, "group.id": "none", "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer({**known, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    open_ends, deadline = set(range(PARTITIONS)), time.monotonic() + 60
    while open_ends:
        assert time.monotonic() < deadline, f"nothing more comes of {open_ends}"
        for one in consumer.consume(1_000, timeout=0.2):
            error, partition = one.error(), one.partition()
            assert partition is not None
            if error is None:
                found[partition].append(one.value())  # type: ignore[arg-type]
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ends.discard(partition)
    consumer.close()
    return found


class Sending:
    """An application that continues sending; `stop` returns what it sent, each partition's in order, all of it acknowledged."""

    def __init__(self, address: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
        self._topic = topic
        self.sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.acknowledged = 0
        self._refused: list[KafkaError] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _told(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._refused.append(error)

    def _run(self) -> None:
        number = 0
        while not self._is_stopping.wait(0.01):
            for _ in range(10):
                value = f"{number:08d}".encode()
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._told)
                self.sent[number % PARTITIONS].append(value)
                number += 1
            self._producer.poll(0)

    def stop(self) -> list[list[bytes]]:
        self._is_stopping.set()
        self._thread.join(30)
        assert self._producer.flush(90) == 0
        assert self._refused == []
        return self.sent

    def goes_on(self) -> None:
        """Return again was acknowledged than now."""
        before = self.acknowledged
        eventually(lambda: self.acknowledged > before + 200, within_ms=60_000, what="records acknowledged again")


def test_brokers_are_upgraded_one_by_one_and_back_under_load_and_nothing_is_lost(zookeeper_chroot: str, tmp_path: Path) -> None:
    brokers = [BrokerProcess(tmp_path / f"broker-{one}", zookeeper_chroot, broker_id=one) for one in (1, 2)]
    try:
        for broker in brokers:
            broker.start()
        both = ",".join(broker.address for broker in brokers)
        make_topic(both, "clicks")
        sending = Sending(both, "clicks")
        for _upgrade_then_back in range(2):
            for broker in brokers:
                sending.goes_on()
                assert broker.stop() == 0
                broker.start()
        sending.goes_on()
        sent = sending.stop()
        assert values_in(both, "clicks") == sent
    finally:
        for broker in brokers:
            broker.kill()


class Clusters:
    """A live and an offline cluster of one broker each, and mirrors between them."""

    def __init__(self, folder: Path, chroot: str) -> None:
        self.folder = folder
        self.zookeeper = {name: f"{chroot}/{name}" for name in ("live", "offline")}
        self.brokers = {name: BrokerProcess(folder / name, self.zookeeper[name]) for name in ("live", "offline")}
        self._mirrors: list[Process] = []

    def mirror(self, source: str, destination: str) -> tuple[Process, Path]:
        status = self.folder / f"{source}-{destination}-{len(self._mirrors)}.json"
        words = ["--source", self.brokers[source].address, "--destination", self.brokers[destination].address]
        words += ["--destination-zookeeper", self.zookeeper[destination], "--status-file", str(status)]
        words += ["--audit-bootstrap", self.brokers["live"].address]
        process = Process([sys.executable, "-m", "headrace.cli.main", "mirror", "run", *words], status.with_suffix(".log"))
        self._mirrors.append(process.start())
        return process, status

    def close(self) -> None:
        for process in (*self._mirrors, *(broker.process for broker in self.brokers.values())):
            process.kill()


@pytest.fixture
def clusters(zookeeper_chroot: str, tmp_path: Path) -> Iterator[Clusters]:
    made = Clusters(tmp_path, zookeeper_chroot)
    try:
        for broker in made.brokers.values():
            broker.start()
        yield made
    finally:
        made.close()


def headrace(*words: str) -> str:
    command = [sys.executable, "-m", "headrace.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.whole
def test_a_lost_disk_is_filled_again_from_the_other_cluster(clusters: Clusters) -> None:
    live, offline = (clusters.brokers[name].address for name in ("live", "offline"))
    topic = f"clicks_{uuid.uuid4().hex[:8]}"
    make_topic(live, topic)
    sending = Sending(live, topic)
    forward, _ = clusters.mirror("live", "offline")
    sending.goes_on()
    # The offline disk: the mirror that runs fills it again.
    lose_disk(clusters.brokers["offline"])
    sending.goes_on()
    sent = sending.stop()
    eventually(lambda: values_in(offline, topic) == sent, within_ms=60_000, what="the offline log made anew")
    # The live disk: nobody may write to it until the copy is back, at the offsets that it had.
    forward.stop()
    lose_disk(clusters.brokers["live"])
    headrace("topic", "config", topic, "--bootstrap", live, "--set", "headrace.mirror=true")
    back, status = clusters.mirror("offline", "live")
    eventually(lambda: values_in(live, topic) == sent, within_ms=60_000, what="the live log made anew")
    back.stop()
    headrace("topic", "config", topic, "--bootstrap", live, "--set", "headrace.mirror=false")
    forward, status = clusters.mirror("live", "offline")
    more = Sending(live, topic)
    more.goes_on()
    again = more.stop()
    expected = [first + second for first, second in zip(sent, again, strict=True)]
    assert values_in(live, topic) == expected

    def is_whole() -> bool:
        words: dict[str, Any] = read_status(status) or {}
        assert words.get("errors", []) == [], words["errors"]
        return values_in(offline, topic) == expected

    eventually(is_whole, within_ms=60_000, what="the offline log goes on")
    headrace("mirror", "verify", "--from", live, "--to", offline, "--topics", topic)


def test_a_zookeeper_that_is_killed_and_comes_back_costs_nothing(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper:
        with BrokerProcess(tmp_path / "broker", f"{zookeeper.address}/live") as broker:
            make_topic(broker.address, "clicks")
            sending = Sending(broker.address, "clicks")
            sending.goes_on()
            zookeeper.kill()
            sending.goes_on()
            sending.goes_on()
            zookeeper.start()
            sending.goes_on()
            sent = sending.stop()
            assert values_in(broker.address, "clicks") == sent
            make_topic(broker.address, "orders")
