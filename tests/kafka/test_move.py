"""docs/OPERATIONS.md, "Moving live from ours to Apache Kafka", as it is there: the mirror copies, then producers and then
consumers are switched. What was sent is counted from the raw input; what was consumed, by the ids in it.
"""

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.kafka.copying import Cluster, Copying, make_topic, read_all
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess
from tests.support.processes import eventually

PARTITIONS = 3
LINES = 40_000


class Application:
    """Sends the lines of a raw file, in order, to where it is configured; it continues with the first that was not
    acknowledged.
    """

    def __init__(self, raw: Path, topic: str) -> None:
        self._lines = raw.read_bytes().splitlines()
        self._topic = topic
        self.sent = 0
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.refused: list[KafkaError] = []

    def start(self, cluster: Cluster, *, at_once: int) -> None:
        """`at_once`: lines in a twentieth of a second, at most."""
        self._is_stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(cluster.address, at_once))
        self._thread.start()

    def stop(self) -> None:
        """End as an application does that is restarted with another configuration: what it took is delivered first."""
        self._is_stopping.set()
        assert self._thread is not None
        self._thread.join(120)
        assert not self._thread.is_alive()
        assert self.refused == []

    def is_done(self) -> bool:
        return self.sent == len(self._lines)

    def _run(self, address: str, at_once: int) -> None:
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})

        def told(error: KafkaError | None, _: object) -> None:
            if error is not None:
                self.refused.append(error)

        while not self._is_stopping.is_set() and not self.is_done():
            for line in self._lines[self.sent : self.sent + at_once]:
                producer.produce(self._topic, line, partition=self.sent % PARTITIONS, on_delivery=told)
                self.sent += 1
            producer.poll(0)
            self._is_stopping.wait(0.05)
        assert producer.flush(60) == 0


class Reader:
    """A member of a group that commits what it has handled, and commits at its end."""

    def __init__(self, topic: str, group: str) -> None:
        self._topic, self._group = topic, group
        self.handled: list[bytes] = []
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, cluster: Cluster) -> None:
        self._is_stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(cluster.address,))
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        assert self._thread is not None
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self, address: str) -> None:
        settings = {"bootstrap.servers": address, "group.id": self._group, "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({**settings, "enable.auto.commit": False, "isolation.level": "read_committed"})
        consumer.subscribe([self._topic])
        while not self._is_stopping.is_set():
            found = [one for one in consumer.consume(200, timeout=0.2) if one.error() is None]
            self.handled += [one.value() for one in found]  # type: ignore[misc]
            if found:
                consumer.commit(asynchronous=False)
        consumer.close()


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """The raw input: lines that distinguish themselves."""
    path = tmp_path / "access.log"
    words = random.Random(17)
    path.write_text("".join(f"{number:08d} GET /{words.randbytes(words.randrange(4, 60)).hex()}\n" for number in range(LINES)))
    return path


def headrace(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *words], capture_output=True, text=True, timeout=180, check=False
    )


@pytest.mark.whole
def test_live_moves_to_kafka_under_load_and_no_record_is_lost_or_handled_twice(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, raw: Path, tmp_path: Path
) -> None:
    make_topic(ours, topic, PARTITIONS)
    application, fast, slow = Application(raw, topic), Reader(topic, f"{topic}-fast"), Reader(topic, f"{topic}-slow")
    application.start(ours, at_once=20)
    fast.start(ours)
    slow.start(ours)
    sync = ("--sync-group-offsets", "--sync-group-offsets-interval-seconds", "1")
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic, *sync)) as copying:
        # 1. The mirror catches up while everything continues; it may die on the way.
        copying.start()
        eventually(lambda: copying.partition(topic).get("destination_end", 0) > 0, within_ms=60_000, what="it copies")
        copying.kill()
        copying.start()
        eventually(lambda: len(slow.handled) > 1_000, within_ms=60_000, what="the slow group reads")
        slow.stop()  # its application is down for a while: its offsets stay in the middle
        # 2. Producers are stopped; what they took is delivered.
        application.stop()
        assert 0 < application.sent < LINES, "the switch is in the middle of the input"
        sent_before = application.sent
        # 3. Everything is copied: verify compares each batch and says so.
        names = ("--from", ours.address, "--to", kafka.address, "--name", topic, "--topics", topic)
        verified = headrace("mirror", "verify", *names, "--settle-ms", "60000", "--json")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        # 4. Producers start at Kafka.
        application.start(kafka, at_once=1_000)
        # 5. Consumers read ours to its end, and stop; their offsets go along.
        eventually(lambda: len(fast.handled) == sent_before, within_ms=60_000, what="ours read to its end")
        fast.stop()
        stopped_ms = time.time() * 1_000

        def offsets_are_copied() -> bool:
            status = headrace("mirror", "status", "--status-file", str(tmp_path / f"mirror-{topic}.json"), "--json")
            told = json.loads(status.stdout)["sync"]
            return told["trouble"] is None and (told["group_offsets_copied_as_of_ms"] or 0) > stopped_ms

        eventually(offsets_are_copied, within_ms=60_000, what="the offsets copied")
        # 6. Consumers start at Kafka, and the mirror ends.
        fast.start(kafka)
        slow.start(kafka)
        copying.mirror.stop(60_000)
    eventually(application.is_done, within_ms=60_000, what="all sent")
    application.stop()
    expected = raw.read_bytes().splitlines()
    for reader in (fast, slow):
        eventually(lambda reader=reader: len(reader.handled) >= LINES, within_ms=60_000, what="all handled")
        reader.stop()
        assert len(reader.handled) == len(set(reader.handled)), "a record was handled twice"
        assert sorted(reader.handled) == expected
    held = read_all(kafka.address, [(topic, partition) for partition in range(PARTITIONS)])
    for partition in range(PARTITIONS):
        assert held[topic, partition] == expected[partition::PARTITIONS], "each partition in the order of the input"
