"""A real Apache Kafka for tests: one KRaft node, the bench's jars, a small heap; killed and started again on folder and port."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.harness.unavailable import Unavailable
from bench.peers import kafka as peer
from bench.peers import maven
from tests.support.processes import Process, accepts, eventually, free_port

FLAGS = ("-Xmx512M", "-Xms256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
"""Quick to start and small: several of them share a machine with what is tested."""


def lacking() -> str | None:
    """Return what this machine lacks to run Apache Kafka; None if nothing. Fetches its jars the first time."""
    try:
        maven.java()
        peer.jars()
    except Unavailable as error:
        return f"wants Apache Kafka: {error}"
    return None


class _Node(peer.Kafka):
    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, settings=settings)
        # Ports that the system gives to no client: the broker comes back on them after a kill.
        self.port, self._controller_port = free_port(), free_port()

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", self._properties, *FLAGS)


class KafkaProcess:
    """Broker and controller in one process. The constructor starts nothing; `start` returns when it serves."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._node = _Node(folder, {**_SMALL, **(settings or {})})
        self._is_formatted = False
        self.process = Process(self._node.command(), folder / "log")

    @property
    def address(self) -> str:
        return self._node.bootstrap

    def launch(self) -> "KafkaProcess":
        if not self._is_formatted:
            self._node.prepare()
            self._is_formatted = True
        self.process.start()
        return self

    def start(self) -> "KafkaProcess":
        return self.launch().await_ready()

    def await_ready(self) -> "KafkaProcess":
        eventually(lambda: accepts(self._node.port), within_ms=120_000, every_ms=100, what=f"Kafka on {self.address}")
        return self

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()

    def stop(self) -> int:
        return self.process.stop(60_000)

    def admin(self, main: str, *words: str) -> str:
        """Run one of Kafka's own command line programs against it and return its output."""
        done = subprocess.run(self._node._java(main, *words), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


_SMALL = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.backoff.ms": "500",
    "group.coordinator.threads": "1",
}
