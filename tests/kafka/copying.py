"""Two clusters, any of them Apache Kafka, and a real mirror between them; and an oracle that reads through confluent-kafka.

The oracle knows what was sent by the ids in the values, and reads the copy as any consumer of Kafka does, read committed.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess
from tests.support.processes import Process, eventually
from tests.support.told_by_ranges import ToldByRanges

Cluster = BrokerProcess | KafkaProcess

KAFKA_TOPIC = {
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": "9223372036854775807",
}
"""What a source topic in Apache Kafka needs that events of any year stay in it."""


class Copying:
    """A mirror from one cluster to another. The clusters belong to the caller."""

    def __init__(
        self, folder: Path, source: Cluster, destination: Cluster, *, name: str = "test", words: Sequence[str] = ()
    ) -> None:
        self.source = source
        self.destination = destination
        self.name = name
        self._status = folder / f"mirror-{name}.json"
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--source", source.address]
        command += ["--destination", destination.address, "--name", name, "--status-file", str(self._status), *words]
        self.mirror = Process(command, folder / f"mirror-{name}.log")

    def __enter__(self) -> "Copying":
        return self

    def __exit__(self, *_: object) -> None:
        self.mirror.kill()

    def launch(self) -> None:
        self._status.unlink(missing_ok=True)
        self.mirror.start()

    def start(self) -> None:
        """Start the mirror; return when both clusters have answered it."""
        self.launch()
        eventually(lambda: self.status()["state"] == "ready", within_ms=60_000, what="mirror ready")

    def kill(self) -> None:
        self.mirror.kill()

    def status(self) -> dict[str, Any]:
        return read_status(self._status) or {"state": "absent", "partitions": [], "errors": []}

    def partition(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Return the status file's words about a partition; empty if there are none."""
        found = [one for one in self.status()["partitions"] if (one["topic"], one["partition"]) == (topic, partition)]
        return found[0] if found else {}

    # -- the oracle

    def await_copied(self, expected: dict[tuple[str, int], list[bytes]], *, within_ms: int = 120_000) -> None:
        """Return once the destination holds these values, each partition's in this order: none missing, none twice."""

        def is_there() -> bool:
            found = read_all(self.destination.address, expected)
            short = {name: len(found[name]) for name in expected if len(found[name]) < len(expected[name])}
            return not short

        try:
            eventually(is_there, within_ms=within_ms, every_ms=300, what="the copy")
        except AssertionError:
            pass  # the comparison below says what is missing
        self.assert_copied(expected)

    def assert_copied(self, expected: dict[tuple[str, int], list[bytes]]) -> None:
        found = read_all(self.destination.address, expected)
        for name, values in expected.items():
            got = found[name]
            doubled, missing, strange = len(got) - len(set(got)), len(set(values) - set(got)), len(set(got) - set(values))
            assert not doubled, f"{name}: {doubled} records twice; {self.trace()}"
            assert not missing, f"{name}: {missing} of {len(values)} missing, {strange} strange; {self.trace()}"
            assert not strange, f"{name}: {strange} strange records; {self.trace()}"
            assert got == values, f"{name}: all there, the order is another"

    def trace(self) -> str:
        """Return the mirror's status and the end of its log."""
        return f"status {self.status()}\n{self.mirror.output()[-3000:]}"

    def reports(self) -> list[RangeReport]:
        """Return the mirror's range reports, in the order of the audit topic (on the source)."""
        found = read_all(self.source.address, [(AUDIT_TOPIC, 0)])[AUDIT_TOPIC, 0]
        return [report for report in map(decode, found) if isinstance(report, RangeReport)]

    def told(self, topic: str) -> ToldByRanges:
        return ToldByRanges(report for report in self.reports() if report.topic == topic)

    def counted(self, topic: str) -> int:
        """Return how many records the mirror has reported of a topic; each once."""
        told = self.told(topic)
        return sum(told.windows().values())


def make_topic(cluster: Cluster, topic: str, partitions: int = 1, **settings: str) -> None:
    """Make a topic; in Apache Kafka, one that keeps events of any year."""
    wanted = {
        **(KAFKA_TOPIC if isinstance(cluster, KafkaProcess) else {}),
        **{k.replace("_", "."): v for k, v in settings.items()},
    }
    admin = AdminClient({"bootstrap.servers": cluster.address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=wanted)]).values():
        future.result(30)


def delete_topic(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    for future in admin.delete_topics([topic], operation_timeout=30).values():
        future.result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, what=f"{topic} gone")


def producer(cluster: Cluster, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": cluster.address, "linger.ms": 5, "log_level": 0, **settings})


def send(
    cluster: Cluster,
    topic: str,
    values: Sequence[bytes],
    *,
    partition: int = 0,
    timestamp_ms: int = 1_431_857_103_000,
    step_ms: int = 100,
    **settings: object,
) -> None:
    """Produce the values, in order, `step_ms` apart."""
    sender = producer(cluster, **settings)
    for number, value in enumerate(values):
        sender.produce(topic, value, partition=partition, timestamp=timestamp_ms + number * step_ms)
        if number % 5_000 == 0:
            sender.poll(0)
    assert sender.flush(60) == 0


def read_all(address: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], list[bytes]]:
    """Return each partition's values from its beginning to its end, read committed; empty where there is no such topic."""
    found: dict[tuple[str, int], list[bytes]] = {name: [] for name in names}
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        topics = consumer.list_topics(timeout=20).topics
        present = [name for name in found if name[0] in topics and name[1] in topics[name[0]].partitions]
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in present])
        open_ends = set(present)
        heard = time.monotonic()
        while open_ends:
            messages = consumer.consume(5_000, timeout=0.1)  # it waits for all 5,000
            heard = time.monotonic() if messages else heard
            assert time.monotonic() < heard + 20, f"nothing more comes of {open_ends}"
            for message in messages:
                name = (message.topic(), message.partition())
                error = message.error()
                if error is None:
                    found[name].append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(name)
                else:
                    raise AssertionError(str(error))
    finally:
        consumer.close()
    return found


def numbered(prefix: str, count: int, size: int = 100) -> list[bytes]:
    """Return values that distinguish themselves."""
    return [f"{prefix}-{number:08d} ".encode().ljust(size, b".") for number in range(count)]
