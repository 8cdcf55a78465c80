"""Two real brokers and a real mirror between them, each in its own process; and comparisons of both logs byte by byte."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import ClientError, UnknownTopic
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.runtime.status import read_status
from headrace.wire.batch.record_batch import BatchHeader, iter_records
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.told_by_ranges import ToldByRanges

EPOCH_AT = slice(12, 16)
"""The one place where a copied batch may differ."""


class Pair:
    """A live and an offline cluster. `zookeeper` is `host:port/chroot`; both clusters live below it."""

    def __init__(self, folder: Path, zookeeper: str, *, live_settings: dict[str, object] | None = None) -> None:
        self.folder = folder
        self.live_zookeeper = f"{zookeeper}/live"
        self.offline_zookeeper = f"{zookeeper}/offline"
        self.live = BrokerProcess(folder / "live", self.live_zookeeper, settings=live_settings)
        self.offline = BrokerProcess(folder / "offline", self.offline_zookeeper)
        self._status = folder / "mirror.json"
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--source", self.live.address]
        command += ["--destination", self.offline.address, "--destination-zookeeper", self.offline_zookeeper]
        self.mirror = Process([*command, "--status-file", str(self._status)], folder / "mirror.log")
        self._clusters: dict[str, Cluster] = {}

    def __enter__(self) -> "Pair":
        for broker in (self.live, self.offline):
            broker.launch()
        for broker in (self.live, self.offline):
            eventually(broker.is_ready, within_ms=30_000, every_ms=20, what="broker ready")
        return self

    def __exit__(self, *_: object) -> None:
        for cluster in self._clusters.values():
            cluster.close()
        self.mirror.kill()
        self.live.kill()
        self.offline.kill()

    # -- the mirror

    def launch_mirror(self) -> None:
        """Start it and do not wait."""
        self._status.unlink(missing_ok=True)
        self.mirror.start()

    def start_mirror(self) -> None:
        self.launch_mirror()
        eventually(lambda: self.status()["state"] == "ready", what="mirror ready")

    def kill_mirror(self) -> None:
        self.mirror.kill()

    def freeze_mirror(self) -> None:
        os.killpg(self.mirror.pid, signal.SIGSTOP)

    def thaw_mirror(self) -> None:
        os.killpg(self.mirror.pid, signal.SIGCONT)

    def status(self) -> dict[str, Any]:
        return read_status(self._status) or {"state": "absent", "partitions": [], "errors": []}

    # -- what is in the logs

    def cluster(self, broker: BrokerProcess) -> Cluster:
        if broker.address not in self._clusters:
            self._clusters[broker.address] = Cluster(broker.address, request_timeout_ms=10_000)
        return self._clusters[broker.address]

    def partitions(self, broker: BrokerProcess, topic: str) -> list[int]:
        cluster = self.cluster(broker)
        cluster.forget(topic)
        return cluster.partitions(topic)

    def offset(self, broker: BrokerProcess, topic: str, partition: int, which: int = LATEST) -> int:
        """Return where a partition ends (or begins); ask again while a broker is restarting."""
        name = TopicPartition(topic, partition)
        cluster = self.cluster(broker)

        def ask() -> tuple[int]:
            try:
                return (log_offsets(cluster, {name: which})[name],)
            except ClientError as error:
                if error.retriable:
                    raise AssertionError(str(error)) from error
                raise

        return eventually(ask, what=f"an offset of {topic}-{partition}")[0]

    def batches(self, broker: BrokerProcess, topic: str, partition: int) -> Iterator[tuple[BatchHeader, bytes]]:
        start, end = (self.offset(broker, topic, partition, which) for which in (EARLIEST, LATEST))
        for header, batch in read_range(self.cluster(broker), topic, partition, start, end, on_corrupt=lambda bad: None):
            yield header, bytes(batch)

    def content(self, broker: BrokerProcess, topic: str, partition: int) -> list[bytes]:
        """Return a partition's batches as bytes, without the leader epoch."""
        return [batch[:12] + batch[16:] for _, batch in self.batches(broker, topic, partition)]

    def all_values(self, broker: BrokerProcess, topic: str) -> list[bytes]:
        """Return every record's value, partition by partition; empty if the topic does not exist yet."""
        try:
            partitions = self.partitions(broker, topic)
        except UnknownTopic:
            return []
        return [
            record.value or b""
            for partition in partitions
            for _, batch in self.batches(broker, topic, partition)
            for record in iter_records(batch)
        ]

    def values(self, broker: BrokerProcess, topic: str) -> Counter[bytes]:
        """Return how often each record's value is in a topic."""
        return Counter(self.all_values(broker, topic))

    def end_or_zero(self, broker: BrokerProcess, topic: str, partition: int) -> int:
        """Return where a partition ends now; 0 if the topic does not exist yet or no broker answers."""
        name = TopicPartition(topic, partition)
        try:
            return log_offsets(self.cluster(broker), {name: LATEST})[name]
        except ClientError:
            return 0

    def is_level(self, topic: str) -> bool:
        """Return whether every partition of the topic ends at the same offset, not 0, in both clusters."""
        ends = [
            (self.offset(self.live, topic, partition), self.offset(self.offline, topic, partition))
            for partition in self.partitions(self.live, topic)
        ]
        return any(source for source, _ in ends) and all(source == copied for source, copied in ends)

    def await_level(self, topic: str) -> None:
        def ask() -> bool:
            try:
                return self.is_level(topic)
            except ClientError as error:  # the offline topic may not be there yet, a broker may be starting
                raise AssertionError(str(error)) from error

        eventually(ask, within_ms=40_000, what=f"{topic} level; mirror says {self.status()}")

    def assert_same(self, topic: str) -> None:
        """Assert that both logs hold the same bytes at the same offsets."""
        for partition in self.partitions(self.live, topic):
            live, offline = (self.content(broker, topic, partition) for broker in (self.live, self.offline))
            assert live == offline, f"{topic}-{partition}: {len(live)} and {len(offline)} batches"

    # -- what was sent and reported

    def producer(self, **settings: object) -> Producer:
        return Producer({"bootstrap.servers": self.live.address, "linger.ms": 5, "log_level": 0, **settings})

    def reports(self) -> list[RangeReport]:
        """Return the mirror's range reports, in the order of the audit topic."""
        reports = (decode(value) for value in self.all_values(self.live, AUDIT_TOPIC))
        return [report for report in reports if isinstance(report, RangeReport)]

    def counted(self, topic: str) -> Counter[int]:
        """Return window → records by the mirror's reports, which must leave out nothing and name each record once."""
        told = self.told(topic)
        assert all(len(covered) == 1 for covered in told.covered.values()), told.covered
        assert all(len(found) == 1 for records in told.records.values() for found in records.values())
        return Counter(told.windows())

    def told(self, topic: str) -> ToldByRanges:
        return ToldByRanges(report for report in self.reports() if report.topic == topic)
