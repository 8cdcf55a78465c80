"""librdkafka's producer and consumer on a thread each, for as long as a history lasts."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.processes import eventually

from .cluster import TOPIC, Cluster, within
from .history import NOT_TOLD, History, Row

PACE_S = 0.01
DELIVERY_MS = 900_000
"""Longer than any round. After a timeout, librdkafka begins a new epoch and sends what was perhaps stored a second time."""
COMMIT_EVERY = 200
"""Messages of a group's member."""


class Sending:
    """One producer: a value to each partition in turn, every few milliseconds, while entered."""

    def __init__(self, cluster: Cluster, history: History, name: str, *, idempotent: bool = True) -> None:
        self._cluster, self._history, self.name = cluster, history, name
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.addresses,
                "acks": "all",
                "enable.idempotence": idempotent,
                "linger.ms": 2,
                "delivery.timeout.ms": DELIVERY_MS,
                "request.timeout.ms": 10_000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self._may_send = threading.Event()
        self._may_send.set()
        self._thread = threading.Thread(target=self._run, name=f"producer {name}")
        self.longest_pause_s = 0.0
        self.last_s = time.monotonic()
        """When the last acknowledgement came."""
        self.count = 0
        """Of acknowledged values."""
        self.count_sent = self.count_answered = 0

    def __enter__(self) -> "Sending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Send no more, and wait for what is under way."""
        self._is_over.set()
        self._thread.join(180)

    def pause(self) -> None:
        """Send no more for now."""
        self._may_send.clear()

    @property
    def is_answered(self) -> bool:
        """Whether all that was sent before the pause is acknowledged or refused."""
        return self.count_sent == self.count_answered

    def resume(self) -> None:
        self._may_send.set()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            if not self._may_send.is_set():
                self._producer.poll(0.05)
                continue
            for partition in range(self._cluster.partitions):
                value = f"{self.name}.{partition}.{number}"
                self._history.unknown.add(value)
                try:
                    self._producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=self._delivered)
                    self.count_sent += 1
                except BufferError:
                    self._producer.poll(0.1)
            number += 1
            self._producer.poll(PACE_S)
        self._producer.flush(130)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        self.count_answered += 1
        if error is None:
            offset = message.offset()
            position = message.partition(), NOT_TOLD if offset is None else offset
            self._history.acknowledge(message.value().decode(), position)
            now_s = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now_s - self.last_s)
            self.last_s = now_s
            self.count += 1


class Readable(Protocol):
    """A cluster, as far as readers ask."""

    partitions: int
    """Of each topic."""

    @property
    def addresses(self) -> str: ...


def consumer(where: Readable, group: str, topic: str = TOPIC) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": where.addresses,
            "group.id": group,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    made.assign([TopicPartition(topic, partition, 0) for partition in range(where.partitions)])
    return made


def text(value: bytes) -> str:
    return value.decode()


class Reading:
    """One consumer that reads on into `rows` while entered. `decode`: what of a message's value is kept."""

    def __init__(self, where: Readable, rows: list[Row], topic: str = TOPIC, decode: Callable[[bytes], str] = text) -> None:
        self._consumer = consumer(where, "reading", topic)
        self._rows, self._decode = rows, decode
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consumer")
        self.errors: list[str] = []

    def __enter__(self) -> "Reading":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)
        self._consumer.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.take(self._consumer.consume(500, 0.2))

    def take(self, messages: list[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self._rows.append((message.partition(), message.offset(), self._decode(message.value())))
            elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                self.errors.append(str(error))


class GroupReading:
    """Members of one consumer group that read and commit while entered. They begin at a commit of 0, so any reset is an error."""

    def __init__(self, cluster: Cluster, history: History, group: str, *, members: int = 2, protocol: str = "classic") -> None:
        self._cluster, self._history, self._group, self._protocol = cluster, history, group, protocol
        self._parts = history.groups.setdefault(group, [])
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, name=f"{group} {number}") for number in range(members)]
        self.errors: list[str] = []

    def __enter__(self) -> "GroupReading":
        beginning = consumer(self._cluster, self._group)
        offsets = [TopicPartition(TOPIC, partition, 0) for partition in range(self._cluster.partitions)]

        def committed() -> bool:
            try:
                beginning.commit(offsets=offsets, asynchronous=False)
            except KafkaException:
                return False
            return True

        assert within(60, committed), "the group's first commit"
        beginning.close()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self) -> None:
        own = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000} if self._protocol == "classic" else {}
        member = Consumer(
            {
                "bootstrap.servers": self._cluster.addresses,
                "group.id": self._group,
                "group.protocol": self._protocol,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **own,
            }
        )
        part: list[Row] = []

        def assigned(_: Consumer, __: list[TopicPartition]) -> None:
            nonlocal part
            part = []
            self._parts.append(part)

        member.subscribe([TOPIC], on_assign=assigned)
        uncommitted = 0
        while not self._is_over.is_set():
            message = member.poll(0.2)  # one by one: of several, some may be of the assignment before
            if message is not None and (error := message.error()) is None:
                part.append((message.partition(), message.offset(), message.value().decode()))
                uncommitted += 1
            elif message is not None and error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                self.errors.append(f"group {self._group}: {error}")
            if uncommitted >= COMMIT_EVERY or (uncommitted and message is None):
                uncommitted = 0
                with suppress(KafkaException):
                    member.commit(asynchronous=True)
        member.close()


def end_of(asking: Consumer, partition: int, topic: str = TOPIC) -> int:
    """Return where the records that consumers may read end."""

    def asked() -> int:
        try:
            return int(asking.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]) + 1
        except KafkaException:
            return 0  # it may ask the leader before this one first

    return eventually(asked, within_ms=60_000, what=f"the end of partition {partition}") - 1


def read_all(
    where: Readable, wanted: Iterable[str], topic: str = TOPIC, decode: Callable[[bytes], str] = text, within_s: float = 60
) -> list[Row]:
    """Return everything from the start to the end, and more until all that is `wanted` is there, or it is too late."""
    reading = consumer(where, "again", topic)
    rows: list[Row] = []
    deadline = time.monotonic() + within_s
    try:
        ends = {partition: end_of(reading, partition, topic) for partition in range(where.partitions)}
        missing = set(wanted)
        left = {partition for partition, end in ends.items() if end > 0}
        while (left or missing) and time.monotonic() < deadline:
            for message in reading.consume(1_000, 0.5):
                if message.error() is None:
                    rows.append((message.partition(), message.offset(), decode(message.value())))
                    missing.discard(rows[-1][2])
            left = {one for one in left if reading.position([TopicPartition(topic, one)])[0].offset < ends[one]}
    finally:
        reading.close()
    return rows
