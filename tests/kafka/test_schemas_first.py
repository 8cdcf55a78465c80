"""Schemas before data with Apache Kafka at one end or both: offsets differ there, ids do not; the copy is served read-only."""

import json
import struct
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.runtime.layout import SCHEMAS_TOPIC
from tests.kafka.copying import Cluster, Copying, make_topic, read_all, send
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess

KILLS = 4

PAIRS = [("other_kafka", "kafka"), ("other_kafka", "ours")]
"""One schemas topic a cluster: what is copied to one is not written there by a registry, too."""


@pytest.mark.parametrize(("source", "destination"), PAIRS)
def test_ids_are_equal_behind_a_mirror_that_numbers_anew(
    source: str, destination: str, request: pytest.FixtureRequest, topic: str, tmp_path: Path
) -> None:
    here: Cluster = request.getfixturevalue(source)
    there: Cluster = request.getfixturevalue(destination)
    make_topic(here, topic)
    with RegistryProcess(tmp_path / "registry", here.address, SCHEMAS_TOPIC) as live:
        with Copying(tmp_path, here, there, name=topic, words=["--topics", topic]) as copying:
            copying.start()
            ids, values = [], []
            for number in range(10):
                schema = {"type": "enum", "name": "E", "symbols": [f"{topic}_{number}"]}
                ids.append(live.register(f"{topic}{number}-value", schema)[1]["id"])
                values.append(b"\x00" + struct.pack(">I", ids[-1]) + b"\x00")
                send(here, topic, values[-1:])
                if number == 5:
                    copying.kill()
                    copying.start()
            copying.await_copied({(topic, 0): values})
            assert eventually(lambda: copying.status()["schemas"]["state"] == "copying", what="the schemas' state")
            with RegistryProcess(tmp_path / "copy", there.address, SCHEMAS_TOPIC, "--read-only") as offline:
                for schema_id in ids:
                    assert offline.ask("GET", f"/schemas/ids/{schema_id}") == live.ask("GET", f"/schemas/ids/{schema_id}")
                assert offline.ask("PUT", "/mode", {"mode": "IMPORT"})[1]["error_code"] == 42205


@pytest.mark.whole
def test_towards_kafka_whoever_sees_a_record_finds_its_schema_though_the_mirror_is_killed(
    topic: str, tmp_path: Path, zookeeper_chroot: str
) -> None:
    """Clusters of its own: the schemas topic of the others is a copy already, or written by another registry."""
    there = KafkaProcess(tmp_path / "kafka")
    with BrokerProcess(tmp_path / "ours", zookeeper_chroot) as here, ExitStack() as ends:
        ends.callback(there.kill)
        there.start()
        make_topic(here, topic)
        with RegistryProcess(tmp_path / "registry", here.address, SCHEMAS_TOPIC) as live:
            words = ["--topics", topic, "--transaction-timeout-ms", "10000"]
            with Copying(tmp_path, here, there, name=topic, words=words) as copying, Load(here, live, topic) as load:
                for number in range(KILLS):
                    copying.launch()
                    reached = len(arrived(there, topic))
                    await_more(copying, topic, reached)
                    eventually(
                        lambda least=15 * (number + 1): len(load.ids) >= least, what="schemas under load", within_ms=60_000
                    )
                    check(there, topic)
                    copying.kill()
                    check(there, topic)
                copying.launch()
                load.stop()
                sent = read_all(here.address, [(topic, 0)])
                copying.await_copied(sent)
                assert check(there, topic) == 2 * len(load.ids)
                assert copying.status()["mode"] == "transactional"
                with RegistryProcess(tmp_path / "copy", there.address, SCHEMAS_TOPIC, "--read-only") as offline:
                    for schema_id in {*load.ids[:30], *load.ids[-30:]}:
                        assert offline.ask("GET", f"/schemas/ids/{schema_id}") == live.ask("GET", f"/schemas/ids/{schema_id}")


class Load:
    """Registers a schema and sends two records with its id at once, again and again, until `stop`."""

    def __init__(self, cluster: Cluster, registry: RegistryProcess, topic: str) -> None:
        self._registry, self._topic = registry, topic
        self._producer = Producer({"bootstrap.servers": cluster.address, "linger.ms": 0})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.ids: list[int] = []

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_over.is_set():
            number = len(self.ids)
            schema = {"type": "enum", "name": "E", "symbols": [f"{self._topic}_{number}"]}
            self.ids.append(self._registry.register(f"{self._topic}{number}-value", schema)[1]["id"])
            for again in range(2):
                value = struct.pack(">bI", 0, self.ids[-1]) + b"%d" % again
                self._producer.produce(self._topic, value, partition=0)
            assert self._producer.flush(60) == 0
            self._is_over.wait(0.1)  # a slow machine must not make it a long topic


class BeforeItsSchema(Exception):
    """No AssertionError, which `eventually` takes for 'not yet'."""


def await_more(copying: Copying, topic: str, reached: int) -> None:
    try:
        eventually(lambda: check(copying.destination, topic) > reached, what="further data", within_ms=120_000)
    except AssertionError as error:
        raise AssertionError(f"{error}; {copying.trace()}") from None


def arrived(cluster: Cluster, topic: str) -> list[int]:
    """Return the schema ids of the records that a reader of committed data sees now."""
    return [struct.unpack(">bI", value[:5])[1] for value in visible(cluster, topic) if value is not None]


def check(cluster: Cluster, topic: str) -> int:
    """Read the data first and the schemas then, both read committed; return how many records there are."""
    ids = arrived(cluster, topic)
    known = {json.loads(value).get("id") for value in visible(cluster, SCHEMAS_TOPIC) if value is not None}
    if not set(ids) <= known:
        raise BeforeItsSchema(f"records with the ids {sorted(set(ids) - known)}")
    return len(ids)


def visible(cluster: Cluster, topic: str) -> list[bytes | None]:
    """Return what a reader of committed data sees of a topic of one partition that is written all the time: up to its end now.

    (`read_all` waits for an answer without records, which such a topic never gives.)
    """
    name = TopicPartition(topic, 0, 0)
    settings: dict[str, str | bool] = {"bootstrap.servers": cluster.address, "group.id": "visible", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0})
    found: list[bytes | None] = []
    try:
        if topic not in consumer.list_topics(timeout=20).topics:
            return found
        _, end = consumer.get_watermark_offsets(name, timeout=20)
        consumer.assign([name])
        while True:
            message = consumer.poll(20)
            assert message is not None, f"nothing comes of {topic} below {end}"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            if message.offset() >= end:
                return found
            found.append(message.value())
            if message.offset() == end - 1:
                return found
    finally:
        consumer.close()
