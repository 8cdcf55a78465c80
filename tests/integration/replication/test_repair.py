"""Bytes that flip on a replica's disk are found by comparing the replicas, and repaired; no reader loses a record."""

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from headrace.cli.main import main
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually

COUNT = 3_000
SETTINGS = {"log.scrub.interval.ms": 500, "log.scrub.bytes.per.second": 64 << 20}
TOPIC_SETTINGS = {"segment.bytes": "20000"}
AUDIT_SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[topics.default]
tiers = ["live"]
"""


@pytest.fixture(scope="module")
def scrubbing(tmp_path_factory: pytest.TempPathFactory, zookeeper: str) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path_factory.mktemp("scrubbing"), zookeeper, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(scrubbing: BrokerCluster) -> str:
    """A topic with `COUNT` records and several closed segments, on all three brokers."""
    return filled(scrubbing, 3)


def filled(scrubbing: BrokerCluster, replicas: int) -> str:
    name = f"t_{uuid.uuid4().hex[:8]}"
    scrubbing.create(name, replicas=replicas, config=TOPIC_SETTINGS)
    producer = Producer({"bootstrap.servers": scrubbing.address, "acks": "all", "batch.num.messages": 50, "linger.ms": 20})
    for number in range(COUNT):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    (place,) = scrubbing.places(name)
    first = [segment_of(scrubbing.brokers[one], name) for one in place.replicas]
    eventually(lambda: len({path.read_bytes() for path in first}) == 1, within_ms=60_000, what="the replicas are equal")
    return name


def flip(broker: BrokerProcess, topic: str, position: int) -> bytes:
    """Flip a bit of the first segment, behind the broker's back. Return the file as it was."""
    path = segment_of(broker, topic)
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([whole[position] ^ 4]))
        file.flush()
        os.fsync(file.fileno())
    return whole


def segment_of(broker: BrokerProcess, topic: str) -> Path:
    return broker.data / f"{topic}-0" / f"{0:020d}.log"


def read_by_a_group(cluster: BrokerCluster, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []

    def is_read() -> bool:
        read.extend(one.value() for one in consumer.consume(500, timeout=0.2) if one.error() is None)
        return len(read) >= COUNT

    try:
        eventually(is_read, within_ms=60_000, what="the group has read all")
        return read
    finally:
        consumer.close()


def test_a_followers_flipped_bit_is_repaired(scrubbing: BrokerCluster, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    leader = scrubbing.leader(topic)
    follower = scrubbing.brokers[next(one for one in scrubbing.brokers if one != leader)]
    whole = flip(follower, topic, 5_000)
    eventually(lambda: segment_of(follower, topic).read_bytes() == whole, within_ms=60_000, what="the follower is repaired")
    scrubbing.await_in_sync(topic, 3, within_ms=60_000)
    aside = list(follower.data.glob(f"{topic}-0.damaged.*"))
    assert aside
    main(["cluster", "status", "--bootstrap", scrubbing.address, "--json"])
    said, *_ = [one for one in json.loads(capsys.readouterr().out)["repaired"] if one["topic"] == topic]
    assert said["from_offset"] <= 5_000 < said["to_offset"]
    assert (said["broker_id"], said["partition"]) == (int(follower.data.parent.name.removeprefix("broker-")), 0)
    assert said["records"] > 0
    assert read_by_a_group(scrubbing, topic) == [b"%d" % number for number in range(COUNT)]


def test_the_audit_says_how_many_records_of_a_complete_window_were_repaired(
    scrubbing: BrokerCluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = scrubbing.leader(topic)
    follower = scrubbing.brokers[next(one for one in scrubbing.brokers if one != leader)]
    whole = flip(follower, topic, 5_000)
    eventually(lambda: segment_of(follower, topic).read_bytes() == whole, within_ms=60_000, what="the follower is repaired")
    scrubbing.await_in_sync(topic, 3, within_ms=60_000)
    main(["cluster", "status", "--bootstrap", scrubbing.address, "--json"])
    known = [one for one in json.loads(capsys.readouterr().out)["repaired"] if one["topic"] == topic]
    said = {(one["from_offset"], one["to_offset"]): one["records"] for one in known}
    assert said
    service = AuditService(tmp_path / "audit", scrubbing.address, settings=AUDIT_SETTINGS)

    def figures() -> tuple[int, int]:
        windows = service.windows(topic).values()
        are_complete = all(one["verdict"] == "COMPLETE" for one in windows)
        return are_complete * sum(one["tiers"]["live"] or 0 for one in windows), sum(
            one.get("repaired", {}).get("live", 0) for one in windows
        )

    try:
        service.start()
        eventually(lambda: figures() == (COUNT, sum(said.values())), within_ms=60_000, what="COMPLETE, with the repaired records")
        main(["audit", "report", "--topic", topic, "--url", service.url])
        assert "repaired in live" in capsys.readouterr().out
    finally:
        service.process.kill()


def test_a_leaders_flipped_bit_is_repaired(scrubbing: BrokerCluster, topic: str) -> None:
    leader = scrubbing.brokers[scrubbing.leader(topic)]
    whole = flip(leader, topic, 7_000)
    eventually(lambda: segment_of(leader, topic).read_bytes() == whole, within_ms=60_000, what="the leader is repaired")
    scrubbing.await_in_sync(topic, 3, within_ms=60_000)
    assert read_by_a_group(scrubbing, topic) == [b"%d" % number for number in range(COUNT)]


def test_a_group_loses_nothing_where_a_leader_starts_with_damage(scrubbing: BrokerCluster, topic: str) -> None:
    """A reader that jumped over the damage would commit behind records that are whole again a moment later."""
    leader = scrubbing.leader(topic)
    broker = scrubbing.brokers[leader]
    broker.kill()
    eventually(lambda: scrubbing.leader(topic) not in (-1, leader), within_ms=60_000, what="another leader")
    whole = flip(broker, topic, 9_000)
    broker.restart()
    assert read_by_a_group(scrubbing, topic) == [b"%d" % number for number in range(COUNT)]
    eventually(lambda: segment_of(broker, topic).read_bytes() == whole, within_ms=60_000, what="it is repaired")
    scrubbing.await_in_sync(topic, 3, within_ms=60_000)


LEADER_EPOCH_AT = 15
"""In a batch: the CRC does not cover it."""


def test_bytes_that_no_crc_covers_are_repaired_by_the_majority(scrubbing: BrokerCluster, topic: str) -> None:
    leader = scrubbing.leader(topic)
    follower = scrubbing.brokers[next(one for one in scrubbing.brokers if one != leader)]
    whole = flip(follower, topic, LEADER_EPOCH_AT)
    eventually(lambda: segment_of(follower, topic).read_bytes() == whole, within_ms=60_000, what="the follower is repaired")
    scrubbing.await_in_sync(topic, 3, within_ms=60_000)


def test_without_a_majority_nothing_is_changed_and_the_status_says_so(
    scrubbing: BrokerCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = filled(scrubbing, 2)
    leader = scrubbing.leader(topic)
    flip(scrubbing.brokers[leader], topic, LEADER_EPOCH_AT)
    changed = segment_of(scrubbing.brokers[leader], topic).read_bytes()

    def reported() -> list[dict[str, object]]:
        main(["cluster", "status", "--bootstrap", scrubbing.address, "--json"])
        return [one for one in json.loads(capsys.readouterr().out)["damaged"] if one["topic"] == topic]

    eventually(lambda: bool(reported()), within_ms=60_000, what="the status names the range")
    (one,) = reported()
    assert (one["kind"], one["broker_id"], one["partition"], one["from_offset"]) == ("undecided", leader, 0, 0)
    assert isinstance(one["since_ms"], int)
    assert main(["cluster", "status", "--bootstrap", scrubbing.address]) == 1
    assert f"{topic}-0 on broker {leader}, offsets 0 to" in capsys.readouterr().out
    assert segment_of(scrubbing.brokers[leader], topic).read_bytes() == changed
