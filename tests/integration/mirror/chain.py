"""Several clusters of ours with mirrors between any two of them, and an oracle that reads the brokers' files with code of its
own.
"""

import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from crc32c import crc32c

from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually


class Site:
    """One cluster: a broker with a ZooKeeper folder of its own."""

    def __init__(self, folder: Path, zookeeper: str, name: str) -> None:
        self.zookeeper = f"{zookeeper}/{name}"
        self.broker = BrokerProcess(folder / name, self.zookeeper)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.address})

    def make(self, topic: str, partitions: int) -> None:
        admin = self.admin()
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)

    def delete(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(20)

    def set_mirrored(self, topic: str, is_mirrored: bool) -> None:
        """Make the topic a copy, or promote it: then ordinary producers may write."""
        word = "true" if is_mirrored else "false"
        entry = ConfigEntry("headrace.mirror", word, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self.admin()
        admin.incremental_alter_configs([resource])[resource].result(20)

    def send(self, topic: str, count: int, mark: str, partitions: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "linger.ms": 2, "batch.num.messages": 7, "log_level": 0})
        for number in range(count):
            producer.produce(topic, f"{mark} {number} ".encode() * 8, partition=number % partitions, timestamp=1_431_857_103_000)
            if number % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    def files(self, topic: str, partition: int) -> list[tuple[int, bytes]]:
        """Return what is in the partition's files: each batch's base offset, and its bytes but for the leader epoch."""
        found = []
        for path in sorted((self.broker.data / f"{topic}-{partition}").glob("*.log")):
            data, at = path.read_bytes(), 0
            while at + 61 <= len(data) and (size := int.from_bytes(data[at + 8 : at + 12], "big")):
                batch = data[at : at + 12 + size]
                if len(batch) < 12 + size:
                    break  # being written
                assert crc32c(batch[21:]) == int.from_bytes(batch[17:21], "big"), f"{path} at {at}"
                found.append((int.from_bytes(batch[:8], "big"), batch[:12] + batch[16:]))
                at += 12 + size
        return found


class Link:
    """A mirror from one site to another."""

    def __init__(self, folder: Path, source: Site, destination: Site, name: str) -> None:
        self._status = folder / f"mirror-{name}.json"
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--source", source.broker.address]
        command += ["--destination", destination.broker.address, "--destination-zookeeper", destination.zookeeper]
        command += ["--audit-bootstrap", source.broker.address, "--status-file", str(self._status)]
        self.process = Process(command, folder / f"mirror-{name}.log")

    def start(self) -> None:
        self._status.unlink(missing_ok=True)
        self.process.start()

    def kill(self) -> None:
        self.process.kill()

    def status(self) -> dict[str, Any]:
        return read_status(self._status) or {}

    def states(self) -> list[str]:
        return [one["state"] for one in self.status().get("errors", [])]


def await_same(one: Site, other: Site, topic: str, partitions: int) -> None:
    """Return once both sites' files hold the same batches at the same offsets."""

    def is_same() -> bool:
        return all(one.files(topic, number) == other.files(topic, number) for number in range(partitions))

    eventually(is_same, within_ms=60_000, every_ms=200, what=f"{topic} the same in both sites")
