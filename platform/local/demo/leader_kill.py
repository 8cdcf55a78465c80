"""Kills the live broker that leads a partition of the demo's topic while the demo sends, where topics have three replicas."""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ...client import topic_admin
from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...runtime.layout import Layout
from .. import control

REPLICATED_BROKERS = 3
LOOK_EVERY_S = 0.05
TAKEN_OVER_MS = 30_000


def process_of(broker_id: int) -> str:
    """Return the name of a live broker's process."""
    return "broker-live" if broker_id == 1 else f"broker-live-{broker_id}"


class LeaderKill:
    """While entered: waits for the topic's first records, kills their leader with SIGKILL, and waits until another broker leads.
    The supervisor starts the killed one again. Does nothing on fewer than three brokers.
    """

    def __init__(self, layout: Layout, topic: str, say: Callable[[str], None]) -> None:
        self._layout = layout
        self._topic = topic
        self._say = say
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader kill", daemon=True)
        self.fault: str | None = None
        """Why no leader was killed, or no broker took over; None if all went as it should."""
        self.is_needed = layout.brokers >= REPLICATED_BROKERS

    def __enter__(self) -> Self:
        if self.is_needed:
            self.fault = "no leader was killed: the topic had no records in time"
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        if self.is_needed:
            self._thread.join(TAKEN_OVER_MS / 1000 + 10)

    def _run(self) -> None:
        cluster = Cluster(self._layout.live_bootstrap, client_id="headrace-demo-kill", request_timeout_ms=5_000)
        try:
            found = self._await_records(cluster)
            if found is None:
                return
            partition, leader, epoch = found
            process = control.running(self._layout).process(process_of(leader))
            if process.pid is None:
                self.fault = f"no leader was killed: {process.name} does not run"
                return
            os.kill(process.pid, signal.SIGKILL)
            self._say(f"kill -9: broker {leader}, the leader of {self._topic}-{partition}")
            self._await_another(cluster, partition, epoch)
        finally:
            cluster.close()

    def _await_records(self, cluster: Cluster) -> tuple[int, int, int] | None:
        """Return a partition with records, its leader and leader epoch; None if the sending ended first."""
        while not self._is_over.wait(LOOK_EVERY_S):
            try:
                (topic,) = topic_admin.describe_topics(cluster, [self._topic])
                led = {TopicPartition(self._topic, one.partition): one for one in topic.partitions if one.leader >= 0}
                ends = log_offsets(cluster, dict.fromkeys(led, LATEST))
            except ClientError:
                continue  # not there yet
            for partition, end in ends.items():
                if end > 0:
                    return partition.partition, led[partition].leader, led[partition].leader_epoch
        return None

    def _await_another(self, cluster: Cluster, partition: int, epoch: int) -> None:
        killed_at = time.monotonic()
        while time.monotonic() - killed_at < TAKEN_OVER_MS / 1000:
            try:
                (topic,) = topic_admin.describe_topics(cluster, [self._topic])
            except ClientError:
                time.sleep(LOOK_EVERY_S)
                continue
            place = next(one for one in topic.partitions if one.partition == partition)
            if place.leader >= 0 and place.leader_epoch > epoch:
                after_ms = round((time.monotonic() - killed_at) * 1000)
                self._say(
                    f"broker {place.leader} leads {self._topic}-{partition} after {after_ms:,} ms, epoch {place.leader_epoch}"
                )
                self.fault = None
                return
            time.sleep(LOOK_EVERY_S)
        self.fault = f"no broker leads {self._topic}-{partition} {TAKEN_OVER_MS // 1000} s after its leader was killed"
