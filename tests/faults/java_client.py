"""Apache Kafka's Java producer as a process, with the interface of `clients.Sending`."""

import shutil
import subprocess
import threading
import time
from pathlib import Path

from bench.harness.cache import cache_folder
from headrace.local.kafka import maven
from headrace.local.kafka.jars import VERSION

from .clients import PACE_S
from .cluster import TOPIC, Cluster
from .history import History

SOURCE = Path(__file__).parent / "java" / "UniqueValues.java"
FLAGS = ("-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def jars() -> Path:
    """Return where the bench keeps Kafka's jars."""
    return cache_folder() / f"kafka-{VERSION}"


def lacking() -> str | None:
    """Return why the Java producer cannot run, None if it can. Fetches nothing."""
    if shutil.which("javac") is None:
        return "there is no JDK (javac) on the path"
    return (
        None
        if maven.is_complete(jars())
        else f"the jars of Apache Kafka {VERSION} are not in {jars()}: make test-kafka fetches them"
    )


class JavaSending:
    """A value to each partition in turn, every few milliseconds, while entered."""

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        words = [cluster.addresses, TOPIC, str(cluster.partitions), name, str(max(1, round(PACE_S * 1_000)))]
        self._command = ["java", *FLAGS, "-cp", f"{jars()}/*", str(SOURCE), *words]
        self._log = cluster.folder / f"java-{name}.log"
        self.name = name
        self._history = history
        self._is_paused = threading.Event()
        self._thread = threading.Thread(target=self._read, name=f"java producer {name}")
        self.longest_pause_s = 0.0
        self.last_s = time.monotonic()
        self.count = 0
        self.refused: list[str] = []
        """What the producer said of values that were not acknowledged."""

    def __enter__(self) -> "JavaSending":
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
        finally:
            self._process.kill()
            self._process.wait(20)

    def end(self) -> None:
        """Send no more, and wait for what is under way."""
        self._order("end")
        self._thread.join(180)

    def pause(self) -> None:
        """Send no more for now."""
        self._is_paused.clear()
        self._order("pause")

    @property
    def is_answered(self) -> bool:
        """Whether all that was sent before the pause is acknowledged or refused."""
        return self._is_paused.is_set()

    def resume(self) -> None:
        self._order("resume")

    def _order(self, word: str) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            mark, _, rest = line.strip().partition(" ")
            if mark == ">":
                self._history.unknown.add(rest)
            elif mark == "+":
                value, partition, offset = rest.split(" ")
                self._acknowledged(value, int(partition), int(offset))
            elif mark == "-":
                self.refused.append(rest)
            elif mark == "paused":
                self._is_paused.set()

    def _acknowledged(self, value: str, partition: int, offset: int) -> None:
        self._history.acknowledge(value, (partition, offset))
        now_s = time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, now_s - self.last_s)
        self.last_s = now_s
        self.count += 1
