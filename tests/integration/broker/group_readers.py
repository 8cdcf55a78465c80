"""Members of consumer groups, from other projects' clients, each on its own thread or in its own process."""

import threading
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

from tests.support.broker import BrokerProcess
from tests.support.processes import Process
from tests.support.raw_kafka import RawClient

PARTITIONS = 6
SETTINGS: dict[str, object] = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 200}
QUICK = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest"}


def produce(broker: BrokerProcess, topic: str, values: Sequence[str]) -> None:
    """Write value n to partition n modulo their number; all acknowledged on return."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def texts(prefix: str, number: int) -> list[str]:
    return [f"{prefix}-{index}" for index in range(number)]


class Reader:
    """A librdkafka consumer on its own thread; `values` is what it received, `partitions` its current assignment."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **config: Any) -> None:
        self.values: list[str] = []
        self.partitions: set[int] = set()
        self.assignments = 0
        self.revocations = 0
        self.errors: list[str] = []
        self._client = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.address, "group.id": group, "error_cb": self._failed, "log_level": 0, **QUICK, **config}
        )
        self._client.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, commit, leave the group."""
        self._stop.set()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._client.poll(0.05)
            if message is None:
                continue
            if message.error() is None:
                self.values.append(message.value().decode())
            else:
                self.errors.append(message.error().name())
        self._client.close()

    def _failed(self, error: confluent_kafka.KafkaError) -> None:
        self.errors.append(error.name())

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.assignments += 1
        self.partitions |= {one.partition for one in partitions}

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.revocations += 1
        self.partitions -= {one.partition for one in partitions}


class KafkaPythonReader:
    """A kafka-python consumer on its own thread; `values` is what it received, `partitions` its current assignment."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **config: Any) -> None:
        self.values: list[str] = []
        self.partitions: set[int] = set()
        self._client_of = partial(
            KafkaConsumer,
            topic,
            bootstrap_servers=broker.address,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=3_000,
            heartbeat_interval_ms=200,
            **config,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, commit, leave the group."""
        self._stop.set()
        self._thread.join(20)

    def _run(self) -> None:
        client = self._client_of()
        while not self._stop.is_set():
            try:
                polled = client.poll(timeout_ms=100)
            except KafkaConnectionError:  # its poll raises this when it looks for the coordinator of a broker that is down
                self._stop.wait(0.1)
                continue
            for records in polled.values():
                self.values.extend(record.value.decode() for record in records)
            self.partitions = {one.partition for one in client.assignment()}
        client.close()


def shared(*readers: Reader) -> Callable[[], bool]:
    """Return a condition: the readers own all partitions between them, each at least one, none twice."""

    def ask() -> bool:
        held = [partition for reader in readers for partition in reader.partitions]
        return sorted(held) == list(range(PARTITIONS)) and all(reader.partitions for reader in readers)

    return ask


def described(broker: BrokerProcess, group: str) -> Any:
    """Return the broker's description of the group, from a new client: an old one's timeout with a dead broker does not count."""
    with RawClient(broker.port) as client:
        return client.ask(15, 5, {"groups": [group], "include_authorized_operations": False}).groups[0]


def members(broker: BrokerProcess, group: str) -> list[Any]:
    """Return the members of the group once it is stable, none before."""
    found = described(broker, group)
    return list(found.members) if found.group_state == "Stable" else []


def read_all(values: Sequence[str], *readers: Reader) -> Callable[[], bool]:
    return lambda: {value for reader in readers for value in reader.values} >= set(values)


def kcat_member(broker: BrokerProcess, group: str, topic: str, folder: Path, *config: str) -> Process:
    """Return a running kcat that reads the topic as a member of the group, in its own process, which outlives a broker."""
    words = [word for name, value in QUICK.items() for word in ("-X", f"{name}={value}")]
    extra = [word for one in config for word in ("-X", one)]
    command = ["kcat", "-b", broker.address, "-u", "-q", "-E", *words, *extra, "-G", group, topic]
    return Process(command, folder / f"kcat-{uuid.uuid4().hex[:6]}").start()
