"""A live and an offline cluster, a mirror between them and an audit beside them, whose number of topics is made to grow.

Each topic gets 20 events and one to three partitions, and is never written to again. `pulse` is the topic that is.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.connection.control_plane import ask_create_topics
from headrace.client.errors import ClientError
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.producer.producer import Producer
from headrace.runtime.status import read_status

from ..harness.child import BenchFault, Child, free_port
from ..harness.proc_meters import processor_s
from ..peers.headrace import Headrace

PULSE = "pulse"
EVENTS = 20
PAYLOAD = b"event %d of an idle topic, which is made of a hundred bytes or so"
CREATED_AT_ONCE = 250
LONGEST_S = 900


class World:
    """Everything that is measured. `close` ends the processes."""

    def __init__(self, folder: Path, *, has_audit: bool = True) -> None:
        self.live, self.offline = Headrace(folder / "live"), Headrace(folder / "offline")
        self._status = folder / "mirror" / "status.json"
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--status-file", str(self._status)]
        command += ["--source", self.live.bootstrap, "--destination", self.offline.bootstrap]
        command += ["--destination-zookeeper", self.offline.zookeeper_address]
        self.mirror = Child(command, folder / "mirror" / "log", port=free_port())
        port = free_port()
        command = [sys.executable, "-m", "headrace.cli.main", "audit", "run", "--port", str(port)]
        command += ["--live", self.live.bootstrap, "--offline", self.offline.bootstrap]
        command += ["--store", str(folder / "audit" / "books.sqlite"), "--status-file", str(folder / "audit" / "status.json")]
        self.audit = Child(command, folder / "audit" / "log", port=port) if has_audit else None
        self.source = Cluster(self.live.bootstrap, client_id="bench-growth")
        self.copy = Cluster(self.offline.bootstrap, client_id="bench-growth")
        self.topics: list[str] = []
        """All but `PULSE`."""

    def start(self) -> "World":
        self.live.start()
        self.offline.start()
        create_topic(self.source, PULSE, 1)
        if self.audit is not None:
            self.audit.start()
        self.start_mirror()
        return self

    def close(self) -> None:
        for child in (self.mirror, self.audit):
            if child is not None:
                child.kill()
        for cluster in (self.source, self.copy):
            cluster.close()
        self.live.stop()
        self.offline.stop()

    def processes(self) -> Mapping[str, Sequence[int]]:
        """Return the ids of the processes under the names of their columns."""
        found = {"mirror": [self.mirror.pid], "brokers": [self.live.broker.pid, self.offline.broker.pid]}
        found["ZooKeepers"] = [self.live.zookeeper.pid, self.offline.zookeeper.pid]
        return found | ({} if self.audit is None else {"audit": [self.audit.pid]})

    def shares(self, rest_s: float) -> dict[str, float]:
        """Return the share of one core that each of `processes` takes in the next `rest_s`."""
        before = {name: sum(map(processor_s, pids)) for name, pids in self.processes().items()}
        began = time.monotonic()
        time.sleep(rest_s)
        took_s = time.monotonic() - began
        return {name: (sum(map(processor_s, pids)) - before[name]) / took_s for name, pids in self.processes().items()}

    def start_mirror(self) -> None:
        """Start it and return when it is ready."""
        self._status.unlink(missing_ok=True)
        self.mirror.launch()
        self.await_(lambda: self.status().get("state") in ("ready", "stalled"), "the mirror to be ready")

    def status(self) -> dict[str, Any]:
        return read_status(self._status) or {}

    def grow(self, count: int) -> list[str]:
        """Create topics on live until there are `count`, and return the new ones, empty."""
        new = [f"idle-{number:05}" for number in range(len(self.topics), count)]
        for begin in range(0, len(new), CREATED_AT_ONCE):
            named = new[begin : begin + CREATED_AT_ONCE]
            some: list[tuple[str, int, int, dict[str, str]]] = [(name, 1 + hash_of(name) % 3, 1, {}) for name in named]
            answers = ask_create_topics(self.source.controller(), some, timeout_ms=30_000)
            refused = {name: why for name, why in answers.items() if why[0]}
            if refused:
                raise BenchFault(f"{len(refused)} topics were not created: {next(iter(refused.items()))}")
        self.topics += new
        return new

    def fill(self, topics: Sequence[str]) -> None:
        """Send `EVENTS` events to each of these topics."""
        producer = Producer(self.source, linger_ms=100, buffer_bytes=64 << 20, max_block_ms=60_000, delivery_timeout_ms=120_000)
        try:
            self.source.topics()
            now_ms = int(time.time() * 1000)
            for topic in topics:
                for number in range(EVENTS):
                    producer.send(topic, PAYLOAD % number, timestamp_ms=now_ms)
            producer.flush(120_000)
        finally:
            producer.close(10_000)

    def ends(self, cluster: Cluster) -> dict[TopicPartition, int]:
        """Return where each partition of the topics ends; those that the cluster does not list are left out."""
        listed = set(cluster.topics()) & {PULSE, *self.topics}
        names = [TopicPartition(topic, one) for topic in sorted(listed) for one in cluster.partitions(topic)]
        return log_offsets(cluster, dict.fromkeys(names, LATEST)) if names else {}

    def is_listed(self) -> bool:
        """Return whether the offline cluster lists all topics."""
        return {*self.topics} <= set(self.copy.topics())

    def is_level(self) -> bool:
        """Return whether both clusters end alike in all partitions."""
        return self.ends(self.source) == self.ends(self.copy)

    def await_(self, ask: Callable[[], bool], what: str, *, every_s: float = 0.1, longest_s: float = LONGEST_S) -> float:
        """Return after how many seconds it held. Raises BenchFault."""
        began = time.monotonic()
        while True:
            try:
                if ask():
                    return time.monotonic() - began
            except ClientError:
                pass  # a topic is being made
            self.mirror.assert_alive()
            if time.monotonic() - began > longest_s:
                raise BenchFault(f"waited {longest_s:.0f} s for {what}:\n{self.mirror.tail()}")
            time.sleep(every_s)


def hash_of(name: str) -> int:
    """Return a number that is the same in every run."""
    return int(name.rpartition("-")[2])
