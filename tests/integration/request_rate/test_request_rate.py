"""The service as real processes with a real broker, registry and ZooKeeper; librdkafka counts the expected records."""

import io
import json
import random
import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer

from headrace.apps.request_rate.state import MINUTE_MS
from headrace.audit.model.messages import Skipped
from headrace.audit.model.windows import WINDOW_MS
from headrace.client import admin
from headrace.client.connection.cluster import Cluster
from headrace.coordination.consumers import OffsetRegistry
from headrace.coordination.session import Session
from headrace.schema_registry.client import RegistryClient
from headrace.wire.quarantine_record import LogOrigin, QuarantineRecord
from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess
from tests.support.told_by_ranges import ToldByRanges

from .conftest import Members, told

SCHEMA = {
    "type": "record",
    "name": "Hit",
    "fields": [{"name": "path", "type": "string"}, {"name": "status", "type": "int"}],
}
PARSED = fastavro.parse_schema(SCHEMA)
T0 = 1_431_820_800_000
"""17 May 2015, midnight."""


def new_topic() -> str:
    return f"hits-{uuid.uuid4().hex[:8]}"


def create(bootstrap: str, topic: str, partitions: int = 4) -> None:
    cluster = Cluster(bootstrap)
    try:
        assert admin.create_topic(cluster, topic, partitions)
    finally:
        cluster.close()


def framed(schema_id: int, path: str, status: int) -> bytes:
    """Return a payload made by hand: zero byte, schema id, Avro body."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, PARSED, {"path": path, "status": status})
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


class Traffic:
    """Events of a few hours, written by librdkafka; some of them unusable."""

    def __init__(self, broker: BrokerProcess, registry: RegistryProcess, topic: str, *, seed: int = 1) -> None:
        self.topic = topic
        self._random = random.Random(seed)
        self._schema_id = RegistryClient(registry.url).register(f"{topic}-value", SCHEMA)
        self._producer = Producer({"bootstrap.servers": broker.address, "batch.num.messages": 50, "linger.ms": 10_000})
        self.sent = 0

    def send(self, count: int, *, bad_every: int = 0) -> None:
        for _ in range(count):
            self.sent += 1
            at_ms = T0 + self._random.randrange(3 * 3_600_000)
            payload = framed(self._schema_id, f"/{self.sent}", 200)
            if bad_every and self.sent % bad_every == 0:
                payload = self._random.choice([payload[:-1], b"plain text", b"\x00\x00\x0f\x00\x00" + payload[5:]])
            self._producer.produce(self.topic, payload, partition=self.sent % 4, timestamp=at_ms)
            self._producer.poll(0)
        assert self._producer.flush(20) == 0


def is_usable(payload: bytes) -> bool:
    """Judge a payload independently of the service: framed, status under 1000, and the whole body is one event."""
    if len(payload) < 5 or payload[0] != 0 or int.from_bytes(payload[1:5], "big") >= 1_000:
        return False
    source = io.BytesIO(payload[5:])
    try:
        fastavro.schemaless_reader(source, PARSED)
    except Exception:
        return False
    return source.tell() == len(payload) - 5


def by(messages: list[Any], unit_ms: int, *, usable: bool) -> dict[int, int]:
    """Count messages by event time, in units of `unit_ms`."""
    times = [message.timestamp()[1] for message in messages if is_usable(message.value()) is usable]
    return dict(Counter(at // unit_ms * unit_ms for at in times))


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    from headrace.client.fetch.fetched import TopicPartition
    from headrace.client.fetch.log_offsets import LATEST, log_offsets

    cluster = Cluster(bootstrap)
    try:
        wanted = {TopicPartition(topic, partition): LATEST for partition in cluster.partitions(topic)}
        return {name.partition: end for name, end in log_offsets(cluster, wanted).items()}
    finally:
        cluster.close()


def await_end(members: Members, topic: str) -> None:
    """Wait until the group has committed each partition's end."""
    wanted = ends(members.bootstrap, topic)
    session = Session(members._words[1], name="oracle").start()
    try:
        offsets = OffsetRegistry(session)

        def committed() -> dict[int, int]:
            got = offsets.get_many("request-rate", [(topic, partition) for partition in wanted])
            return {partition: offset for (_, partition), offset in got.items()}

        eventually(lambda: committed() == wanted, what=f"the ends {wanted} committed", within_ms=30_000)
    finally:
        session.close()


def assert_counted_exactly(members: Members, topic: str) -> ToldByRanges:
    """Assert that minutes, reports and quarantine agree with the topic as librdkafka reads it; return the reports."""
    messages = read_all(members.bootstrap, topic)
    assert members.minutes(topic) == by(messages, MINUTE_MS, usable=True)
    reported = told(members.bootstrap, topic)
    expected: dict[int, dict[int, list[tuple[int, str, None]]]] = {}
    for message in messages:
        kind = "held" if is_usable(message.value()) else "quarantined"
        window = message.timestamp()[1] // WINDOW_MS * WINDOW_MS
        expected.setdefault(message.partition(), {})[message.offset()] = [(window, kind, None)]
    assert reported.records == expected
    assert reported.covered == {partition: [(0, end)] for partition, end in ends(members.bootstrap, topic).items()}
    return reported


def test_one_of_two_is_killed_and_the_other_takes_over_exactly(
    broker: BrokerProcess, registry: RegistryProcess, members: Members
) -> None:
    topic = new_topic()
    create(broker.address, topic)
    traffic = Traffic(broker, registry, topic)
    traffic.send(500, bad_every=25)
    members.start("one", topic)
    members.start("two", topic)
    members.await_ready("one")
    members.await_ready("two")
    eventually(lambda: len(members.owned("one")) == len(members.owned("two")) == 2, what="shared")
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            traffic.send(50, bad_every=25)
            stop.wait(0.02)

    sending = threading.Thread(target=go_on)
    sending.start()
    try:
        before = members.status("one")["partitions"]
        eventually(lambda: members.status("one")["partitions"] != before, what="reading while it is killed")
        members.processes["one"].kill()
        eventually(lambda: members.owned("two") == {0, 1, 2, 3}, what="taken over")
    finally:
        stop.set()
        sending.join()
    await_end(members, topic)
    assert_counted_exactly(members, topic)

    bad = [message for message in read_all(broker.address, topic) if not is_usable(message.value())]
    records = [QuarantineRecord.from_json(message.value()) for message in read_all(broker.address, f"{topic}.quarantine")]
    origins = {(record.origin.partition, record.origin.offset) for record in records if isinstance(record.origin, LogOrigin)}
    assert origins == {(message.partition(), message.offset()) for message in bad}
    assert {record.payload for record in records} == {message.value() for message in bad}
    assert {record.stage for record in records} == {"consumer"}
    assert {record.code for record in records} == {"schema_mismatch", "not_framed", "unknown_schema_id"}

    members.start("one", topic)
    eventually(lambda: len(members.owned("one")) == len(members.owned("two")) == 2, what="shared again")
    traffic.send(200)
    await_end(members, topic)
    assert_counted_exactly(members, topic)


def test_both_are_stopped_cleanly_and_started_again_and_nothing_is_redelivered(
    broker: BrokerProcess, registry: RegistryProcess, members: Members
) -> None:
    topic = new_topic()
    create(broker.address, topic)
    traffic = Traffic(broker, registry, topic)
    members.start("one", topic)
    members.start("two", topic)
    members.await_ready("one")
    traffic.send(300)
    eventually(lambda: len(members.owned("one")) == len(members.owned("two")) == 2, what="shared")
    assert members.processes["one"].stop() == 0
    assert members.processes["two"].stop() == 0
    traffic.send(300)
    members.start("one", topic)
    await_end(members, topic)
    assert assert_counted_exactly(members, topic).redelivered == 0


def test_it_is_ready_before_its_topic_exists(broker: BrokerProcess, registry: RegistryProcess, members: Members) -> None:
    topic = new_topic()
    members.start("one", topic)
    members.await_ready("one")
    assert members.owned("one") == set()
    assert "nothing counted yet" in members.rates("--topic", topic)
    create(broker.address, topic)
    traffic = Traffic(broker, registry, topic)
    traffic.send(100)
    await_end(members, topic)
    assert_counted_exactly(members, topic)
    lines = members.rates("--last", "3").splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{topic}  2015-05-17 ") for line in lines)


@pytest.mark.situation(
    "groups and sinks",
    "a group is rewound",
    shown="`redelivered` n, nothing doubled",
    when="with the group's next report",
    do="nothing",
)
def test_without_its_state_it_counts_the_log_anew_and_the_books_show_it_as_redelivered(
    broker: BrokerProcess, registry: RegistryProcess, members: Members
) -> None:
    topic = new_topic()
    create(broker.address, topic)
    traffic = Traffic(broker, registry, topic)
    traffic.send(400)
    members.start("one", topic)
    await_end(members, topic)
    assert members.processes["one"].stop() == 0
    states = sorted((members.home / "request-rate").glob("*.json"))
    assert len(states) == 4
    states[0].unlink()
    states[1].write_text("{ torn")
    words = json.loads(states[2].read_text())
    states[2].write_text(json.dumps({**words, "offset": 1 << 40}))
    members.start("one", topic)
    traffic.send(50)
    await_end(members, topic)
    assert assert_counted_exactly(members, topic).redelivered == 300
    assert len(list((members.home / "request-rate").glob("*.damaged"))) == 2


def test_a_silent_registry_is_waited_for(broker: BrokerProcess, registry: RegistryProcess, members: Members) -> None:
    topic = new_topic()
    create(broker.address, topic)
    traffic = Traffic(broker, registry, topic)
    traffic.send(100)
    registry.process.stop()
    try:
        process = members.start("one", topic)
        eventually(lambda: "registry_silent" in process.output(), what="said so")
        assert members.minutes(topic) == {}
    finally:
        registry.start()
    await_end(members, topic)
    assert assert_counted_exactly(members, topic).windows("quarantined") == {}


def test_a_batch_that_rotted_on_the_disk_goes_to_quarantine_by_its_range_and_the_rest_is_counted(
    tmp_path: Path, zookeeper_chroot: str, registry: RegistryProcess
) -> None:
    topic = new_topic()
    own = BrokerProcess(tmp_path / "broker", zookeeper_chroot).start()
    members = Members(tmp_path, zookeeper_chroot, own.address, registry.url)
    try:
        create(own.address, topic)
        traffic = Traffic(own, registry, topic)
        for _ in range(3):
            traffic.send(80)
        own.stop()
        (segment,) = own.data.rglob(f"{topic}-1/*.log")
        data = bytearray(segment.read_bytes())
        data[data.index(b"/101")] ^= 0xFF  # of the second sending; number 101 went to partition 1
        segment.write_bytes(data)
        own.restart()
        members.start("one", topic)
        await_end(members, topic)
        reported = assert_counted_exactly(members, topic)
        (record,) = [QuarantineRecord.from_json(message.value()) for message in read_all(own.address, f"{topic}.quarantine")]
        assert (record.code, record.stage, record.payload) == ("corrupt_batch", "consumer", b"")
        assert isinstance(record.origin, LogOrigin)
        assert record.origin.partition == 1
        assert reported.skipped[1] == [Skipped(record.origin.offset, record.origin.to_offset or 0, "corrupt")]
        sound = [message.offset() for message in read_all(own.address, topic) if message.partition() == 1]
        assert record.origin.offset - 1 in sound, "right behind the last record of the batch before it"
        assert max(sound) > record.origin.to_offset
        assert not [offset for offset in sound if record.origin.offset <= offset < record.origin.to_offset]
    finally:
        members.stop_all()
        own.kill()
