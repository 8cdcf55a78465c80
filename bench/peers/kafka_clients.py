"""The C clients for servers that speak Kafka's protocol, librdkafka and raw ones: the same settings for ours and for Kafka."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ..drivers.build import built
from ..drivers.run import Driven, drive
from ..harness.child import BenchFault
from ..harness.proc_meters import cpu_s
from .way import MESSAGE_BYTES

SHAPES: Mapping[str, Sequence[str]] = {
    "1": ("batch.num.messages=1", "linger.ms=0"),
    "25": ("batch.num.messages=25", "linger.ms=1000"),
    "50": ("batch.num.messages=50", "linger.ms=1000"),
    "default": (),
}
"""Messages a batch → librdkafka's settings.

By default librdkafka closes a batch at 1 MB or after 5 ms. At 25 and 50 it waits for as many: every batch is full.
"""
_LONGEST_S = 400
_PRODUCER = ("queue.buffering.max.messages=1000000",)
# By default librdkafka stops fetching for a second (fetch.queue.backoff.ms) once 100,000 messages wait in its queue: the figure
# would measure that pause.
_CONSUMER = ("group.id=bench", "enable.auto.commit=false", "queued.min.messages=1000000", "fetch.queue.backoff.ms=1")


class SpeaksKafka(Protocol):
    """A server that speaks Kafka's protocol and keeps a folder for each partition."""

    name: str
    port: int

    @property
    def bootstrap(self) -> str: ...

    @property
    def pids(self) -> Sequence[int]: ...

    def partition_folder(self, topic: str, partition: int = 0) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """The content of a partition's segments."""

    batches: int
    records: int
    bytes: int


def make_topic(server: SpeaksKafka, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic. Return when its partitions have segments on disk."""
    admin = _admin(server)  # a name, because a client without a reference ends its request
    made = admin.create_topics(
        [NewTopic(topic, partitions, 1, config=dict(settings or {}))], operation_timeout=120, request_timeout=120
    )
    made[topic].result(timeout=150)
    # Kafka responds before its broker has created the folders.
    deadline = time.monotonic() + 60
    while True:
        try:
            if segments_of(server, topic) and segments_of(server, topic, partitions - 1):
                return
        except BenchFault:
            pass
        if time.monotonic() > deadline:
            raise BenchFault(f"{server.name} answered that {topic} is created, and a minute later it has no segment")
        time.sleep(0.01)


def _admin(server: SpeaksKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})


def delete_topic(server: SpeaksKafka, topic: str) -> None:
    """Delete a topic. The server deletes its files soon after."""
    admin = _admin(server)
    admin.delete_topics([topic], operation_timeout=60)[topic].result(timeout=60)


def produce(server: SpeaksKafka, topic: str, count: int, shape: str, acks: int) -> Driven:
    """Send `count` messages to partition 0. Raises BenchFault unless exactly these are on disk."""
    before = on_disk(server, topic)
    driven = send(server, topic, count, shape, acks)
    after = on_disk(server, topic)
    check_log(server.name, topic, wanted=count, shape=shape, before=before, after=after)
    return driven


def send(server: SpeaksKafka, topic: str, count: int, shape: str, acks: int) -> Driven:
    """As `produce`, and the log is not looked at."""
    words = [
        topic,
        str(count),
        str(MESSAGE_BYTES),
        f"bootstrap.servers={server.bootstrap}",
        f"acks={acks}",
        *_PRODUCER,
        *SHAPES[shape],
    ]
    return drive([str(built("rdkafka_produce")), *words], lambda: server.pids)


def check_log(name: str, topic: str, *, wanted: int, shape: str, before: OnDisk, after: OnDisk) -> None:
    """Raise BenchFault when the log did not grow by what was sent, in batches of the size asked for."""
    records, batches = after.records - before.records, after.batches - before.batches
    if records != wanted:
        raise BenchFault(f"{name}: {wanted} messages were acknowledged and {records} are in the log of {topic}")
    if shape.isdigit() and batches != -(-wanted // int(shape)):
        raise BenchFault(f"{name}: {wanted} messages at {shape} a batch came as {batches} batches in {topic}")


def on_disk(server: SpeaksKafka, topic: str, partition: int = 0) -> OnDisk:
    """Walk the segments of a partition and return what they hold."""
    segments = segments_of(server, topic, partition)
    walk = subprocess.run([str(built("log_walk")), *map(str, segments)], capture_output=True, text=True)
    if walk.returncode:
        raise BenchFault(f"{server.name}: the log of {topic} cannot be walked: {walk.stderr}")
    return OnDisk(**json.loads(walk.stdout))


def segments_of(server: SpeaksKafka, topic: str, partition: int = 0) -> list[Path]:
    """Return a partition's segments, oldest first."""
    return sorted(server.partition_folder(topic, partition).glob("*.log"))


def consume(server: SpeaksKafka, topic: str, count: int, fetch_bytes: int, *, progress_every: int = 0) -> Driven:
    """Read `count` messages of partition 0 from its beginning.

    `progress_every`: `more["progress"]` has [messages, seconds] about so often; 0: only at the end.
    """
    words = [topic, str(count), str(MESSAGE_BYTES), f"bootstrap.servers={server.bootstrap}", *_CONSUMER]
    words.append(f"fetch.message.max.bytes={fetch_bytes}")
    told = {"BENCH_PROGRESS": str(progress_every)} if progress_every else {}
    return drive([str(built("rdkafka_consume")), *words], lambda: server.pids, environment=told)


def send_and_read(bootstrap: str, server_pids: Sequence[int], topic: str, per_s: int, seconds: int) -> Driven:
    """Send `per_s` messages a second for `seconds` and read them back in the same process; percentiles are in `more`."""
    words = [topic, str(per_s), str(seconds), str(MESSAGE_BYTES), f"bootstrap.servers={bootstrap}"]
    return drive([str(built("rdkafka_latency")), *words], lambda: server_pids)


def raw_produce(
    server: SpeaksKafka,
    topic: str,
    *,
    batch: int,
    count: int,
    in_flight: int,
    message_bytes: int = MESSAGE_BYTES,
    acks: int = 1,
    partitions: int = 1,
    connections: int = 1,
) -> Driven:
    """Send `count` messages through the raw pipelined client: the server's ceiling."""
    words = [server.bootstrap.rpartition(":")[0], str(server.port), topic, "0", batch, message_bytes, in_flight, count, acks, 7]
    command = [str(built("raw_produce")), *map(str, words), str(partitions), str(connections)]
    return whole_run(command, server.pids)


def whole_run(command: Sequence[str], pids: Sequence[int]) -> Driven:
    """Run a raw client to its end. The server's CPU is counted over the client's whole life."""
    before = cpu_s(pids)
    done = subprocess.run(list(command), capture_output=True, text=True, timeout=_LONGEST_S)
    used = cpu_s(pids) - before
    if done.returncode:
        raise BenchFault(f"{' '.join(command[1:])} failed: {done.stderr.strip()[:500]}")
    words: dict[str, Any] = json.loads(done.stdout)
    return Driven(
        count=int(words["messages"]),
        seconds=words["wall_s"],
        client_cpu_s=words["client_cpu_s"],
        client_thread_s=words["client_cpu_s"],
        server_cpu_s=used,
        more=words,
    )


def drop_from_page_cache(paths: Sequence[Path]) -> None:
    """Drop the pages of these files from the page cache, so that the next read goes to the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
