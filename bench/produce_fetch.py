"""Produce and fetch through one broker of ours with confluent-kafka: at default batches, at 50 and at 1 message a batch.

One producer or one consumer, 200-byte messages as in the 2011 paper, acks=1, no forced flush. The client runs in this
process, the broker in its own; both share the machine. CPU seconds are the broker's own, from /proc.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.local import zookeeper
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, accepts, eventually, free_port

MESSAGE = b"m" * 200
SHAPES: dict[str, tuple[int, dict[str, int]]] = {
    "default": (600_000, {}),
    "50 a batch": (300_000, {"batch.num.messages": 50}),
    "1 a batch": (40_000, {"batch.num.messages": 1, "linger.ms": 0}),
}
"""Name → messages, librdkafka settings. The counts keep every measurement above a second or so."""
DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement."""

    messages_per_s: float
    mb_per_s: float
    broker_cpu_s_per_million: float


@contextmanager
def broker(folder: Path) -> Iterator[BrokerProcess]:
    """Run a ZooKeeper and a broker of our own on free ports."""
    port = free_port()
    keeper = Process(zookeeper.command(port, folder / "zookeeper"), folder / "zookeeper.log").start()
    try:
        eventually(lambda: accepts(port), what="ZooKeeper's port open")
        server = BrokerProcess(folder / "broker", f"127.0.0.1:{port}", settings={"num.partitions": "1"})
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        keeper.stop()


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figure(count: int, took_s: float, cpu: float) -> Figure:
    return Figure(
        messages_per_s=count / took_s, mb_per_s=count * len(MESSAGE) / took_s / 1e6, broker_cpu_s_per_million=cpu / count * 1e6
    )


def produce(bootstrap: str, pid: int, topic: str, count: int, settings: dict[str, int]) -> Figure:
    """Send `count` messages and wait until each is acknowledged; raises when one is not."""
    refused: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "queue.buffering.max.messages": 1_000_000, **settings})
    producer.list_topics(topic, timeout=20)
    cpu, began = cpu_s(pid), time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, MESSAGE, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1_000 == 0:
            producer.poll(0)
    left = producer.flush(DEADLINE_S)
    took = time.perf_counter() - began
    if left or refused:
        raise RuntimeError(f"{left} messages not acknowledged in time, {len(refused)} refused: {refused[:1]}")
    return _figure(count, took, cpu_s(pid) - cpu)


def fetch(bootstrap: str, pid: int, topic: str, count: int) -> Figure:
    """Read `count` messages from the beginning by assignment; raises when they do not come in time."""
    # librdkafka stops fetching for a whole second (fetch.queue.backoff.ms) when 100,000 messages wait to be taken: with its
    # defaults the figure would be that pause's, whatever the broker does.
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = 0
    cpu, began = cpu_s(pid), time.perf_counter()
    while got < count:
        got += len(consumer.consume(10_000, timeout=1.0))
        if time.perf_counter() - began > DEADLINE_S:
            raise RuntimeError(f"only {got} of {count} messages came")
    took = time.perf_counter() - began
    figure = _figure(count, took, cpu_s(pid) - cpu)
    consumer.close()
    return figure
