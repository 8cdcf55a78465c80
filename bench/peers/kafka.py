"""Apache Kafka: one KRaft node from the jars of Maven Central, formatted by its own StorageTool, started by its own main class.

Two sets of JVM flags. `default` is what kafka-server-start gives (1 GiB of heap, G1 with its flags). `tuned` is common advice for
a small machine: 4 GiB of heap, half of it young, touched at the start; the parallel collector.
"""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.local.kafka.jars import COORDINATES, VERSION

from ..harness.child import BenchFault, free_port
from . import kafka_clients, maven
from .lifecycle import LoopbackServer
from .maven import Artifact

FLAGS = {
    "default": (
        "-Xmx1G",
        "-Xms1G",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-XX:MaxInlineLevel=15",
        "-Djava.awt.headless=true",
    ),
    "tuned": ("-Xmx4G", "-Xms4G", "-Xmn2G", "-server", "-XX:+UseParallelGC", "-XX:+AlwaysPreTouch", "-Djava.awt.headless=true"),
}
TUNED_SETTINGS = {
    "num.network.threads": "2",
    "num.io.threads": "2",
    "socket.send.buffer.bytes": "1048576",
    "socket.receive.buffer.bytes": "1048576",
    "socket.request.max.bytes": "104857600",
}


def jars() -> Path:
    """Return the folder of Kafka's jars. Raises Unavailable."""
    return maven.jars(f"kafka-{VERSION}", [Artifact(*one) for one in COORDINATES], what=f"Apache Kafka {VERSION}")


class Kafka(LoopbackServer):
    """One node: broker and controller in one process."""

    start_within_s = 90.0
    stop_within_s = 30.0

    def __init__(
        self, folder: Path, flags: str = "default", settings: Mapping[str, str] | None = None, *, warm_up_requests: int = 0
    ) -> None:
        """`warm_up_requests`: sent at the first start, so that the JVM has compiled what runs hot."""
        self.name = "Kafka" if flags == "default" else f"Kafka, {flags}"
        super().__init__(folder)
        self._controller_port = free_port()
        self._flags = FLAGS[flags]
        self._settings = {**(TUNED_SETTINGS if flags == "tuned" else {}), **(settings or {})}
        self._warm_up_requests = warm_up_requests

    def version(self) -> str:
        jars()
        return f"Apache Kafka {VERSION}, KRaft"

    def prepare(self) -> None:
        self._format()

    def command(self) -> Sequence[str]:
        return self._java("kafka.Kafka", self._properties, *self._flags)

    def start(self) -> None:
        super().start()
        if self._warm_up_requests:
            _warm_up(self, self._warm_up_requests)

    def partition_folder(self, topic: str, partition: int = 0) -> Path:
        """Return the folder of the partition's segments."""
        folder = self.data / f"{topic}-{partition}"
        if not folder.is_dir():
            raise BenchFault(f"{topic}-{partition} has no folder in {self.data}")
        return folder

    @property
    def _properties(self) -> str:
        return str(self.folder / "server.properties")

    def _java(self, main: str, *words: str) -> list[str]:
        flags = [word for word in words if word.startswith("-X") or word.startswith("-D") or word == "-server"]
        return [maven.java(), *flags, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars()}/*", main] + [
            word for word in words if word not in flags
        ]

    def _format(self) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.segment.delete.delay.ms": "1000",
            **self._settings,
        }
        Path(self._properties).write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        # A fixed id: StorageTool takes an id that begins with '-' for an option.
        identity = urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_URL, "headrace-bench").bytes).decode().rstrip("=")
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", self._properties, "--ignore-formatted"),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BenchFault(f"Kafka's StorageTool refused to format: {(done.stdout + done.stderr)[-2000:]}")


def _warm_up(server: Kafka, requests: int) -> None:
    """Let the JVM compile what it runs hot: produce in small and in larger batches, consume."""
    topic = "warm-up"
    kafka_clients.make_topic(server, topic)
    kafka_clients.raw_produce(server, topic, batch=1, count=requests, in_flight=500)
    kafka_clients.raw_produce(server, topic, batch=50, count=requests * 5, in_flight=200)
    for _ in range(3):
        kafka_clients.consume(server, topic, requests * 6, 204_800)
    kafka_clients.delete_topic(server, topic)
