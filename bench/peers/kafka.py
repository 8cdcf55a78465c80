"""Apache Kafka: one KRaft node from the jars of Maven Central, formatted by its own StorageTool, started by its own main class.

Two sets of JVM flags: `default` is what kafka-server-start gives (1 GiB of heap, G1 with its flags), `tuned` what is commonly
advised on a small machine: a larger young heap pinned, parallel collector off the request path, compact strings, no biased
checks.
"""

import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..harness.cache import cache_folder
from ..harness.child import BenchFault, Child, free_port
from ..harness.missing import Missing

VERSION = "4.3.1"
"""The newest whose jars Maven Central had in full when this was written (4.4.0 lacked kafka-tools-api)."""
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
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>bench</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def jars() -> Path:
    """Return the folder of Kafka's jars, fetched once with Maven into the bench's cache. Raises Missing."""
    folder = cache_folder() / f"kafka-{VERSION}"
    if (folder / "complete").exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing(f"Apache Kafka {VERSION}: its jars are not in {folder} and there is no Maven (mvn) to fetch them")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*one) for one in wanted)))
    done = subprocess.run(
        [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Missing(f"Apache Kafka {VERSION}: Maven could not fetch it: {(done.stdout + done.stderr).strip()[-500:]}")
    (folder / "complete").touch()
    return folder


def java() -> str:
    """Return the java program. Raises Missing."""
    found = shutil.which("java")
    if found is None:
        raise Missing("Java: there is no `java` on the path (17 or newer is needed)")
    return found


class Kafka:
    """One node, broker and controller in one process, on free loopback ports, everything below `folder`."""

    def __init__(self, folder: Path, flags: str = "default", settings: Mapping[str, str] | None = None) -> None:
        self.name = "Kafka" if flags == "default" else f"Kafka, {flags}"
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._controller_port = free_port()
        self._flags = FLAGS[flags]
        self._settings = {**(TUNED_SETTINGS if flags == "tuned" else {}), **(settings or {})}
        self.broker = Child(["java"], folder / "broker.log", port=self.port)

    def version(self) -> str:
        jars()
        return f"Apache Kafka {VERSION}, KRaft"

    def start(self) -> None:
        self._format()
        self.start_broker()

    def start_broker(self, within_s: float = 90.0) -> None:
        """Start it on the folder as it is and return when its port is open."""
        self.launch_broker()
        self.broker.wait_for_port(within_s)

    def launch_broker(self) -> None:
        """Start it on the folder as it is and do not wait."""
        self.broker = Child(self._java("kafka.Kafka", self._properties, *self._flags), self.folder / "broker.log", port=self.port)
        self.broker.launch()

    def stop(self) -> None:
        self.broker.stop(30)

    @property
    def pids(self) -> Sequence[int]:
        return [self.broker.pid]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def partition_folder(self, topic: str, partition: int = 0) -> Path:
        """Return where the partition's segments are."""
        folder = self.data / f"{topic}-{partition}"
        if not folder.is_dir():
            raise BenchFault(f"{topic}-{partition} has no folder in {self.data}")
        return folder

    @property
    def _properties(self) -> str:
        return str(self.folder / "server.properties")

    def _java(self, main: str, *words: str) -> list[str]:
        flags = [word for word in words if word.startswith("-X") or word.startswith("-D") or word == "-server"]
        return [java(), *flags, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars()}/*", main] + [
            word for word in words if word not in flags
        ]

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
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
        # Not a random one: an id that happened to begin with '-' would be taken for an option.
        identity = urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_URL, "headrace-bench").bytes).decode().rstrip("=")
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", self._properties, "--ignore-formatted"),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BenchFault(f"Kafka's StorageTool refused to format: {(done.stdout + done.stderr)[-2000:]}")
