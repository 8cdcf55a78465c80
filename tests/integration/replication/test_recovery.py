"""Runbook: the in-sync replicas of a partition have lost their disks. An operator sees what is lost, and lets it continue.

The audit then says for another topic, which was lost in the same way, exactly which records are missing.
"""

import json
import shutil
import uuid
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from headrace.cli.main import main
from headrace.client import topic_admin
from headrace.runtime.layout import AUDIT_TOPIC
from tests.support.audited_application import AuditedApplication, W
from tests.support.audited_loss import named_as_missing
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually

FIRST, SECOND = 500, 100


def test_a_partition_whose_in_sync_replicas_lost_their_disks_continues_when_an_operator_decides(
    whole: BrokerCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic, audited = f"t_{uuid.uuid4().hex[:8]}", f"a_{uuid.uuid4().hex[:8]}"

    def recover(*options: str, of: str = topic) -> tuple[int, dict[str, object]]:
        status = main(["partition", "recover", of, "0", "--bootstrap", whole.address, "--json", *options])
        return status, json.loads(capsys.readouterr().out)

    whole.create(topic)
    survivor = next(one for one in whole.brokers if one != whole.leader(topic))
    produce(whole, topic, range(FIRST))
    admin = AdminClient({"bootstrap.servers": whole.address})
    on_all = [[*(one for one in whole.brokers if one != survivor), survivor]]
    wanted = [NewTopic(AUDIT_TOPIC, 1, replica_assignment=[[survivor]]), NewTopic(audited, 1, replica_assignment=on_all)]
    for made in admin.create_topics(wanted).values():
        made.result(60)
    whole.await_in_sync(audited, 3)
    application = AuditedApplication(whole.address, audited)
    application.log(range(FIRST))
    status, refused = recover("--execute")
    assert (status, refused["is_done"]) == (1, False)
    assert "nothing is lost" in str(refused["why"])

    whole.brokers[survivor].kill()
    lost = [one for one in whole.brokers if one != survivor]
    cluster = whole.client()
    try:
        eventually(lambda: members(whole, topic) == set(lost), within_ms=30_000, what="the survivor has left the set")
        produce(whole, topic, range(FIRST, FIRST + SECOND))
        eventually(lambda: members(whole, audited) == set(lost), within_ms=30_000, what="it has left the other sets, too")
        application.log(range(W, W + SECOND))
        for one in lost:
            whole.brokers[one].kill()
            shutil.rmtree(whole.brokers[one].data)
        whole.brokers[survivor].restart()
        eventually(
            lambda: set(topic_admin.describe_cluster(cluster).brokers) == {survivor},
            within_ms=60_000,
            what="the lost brokers are not registered",
        )
        status, refused = recover()
        assert status == 1
        assert all(f"broker {one}" in str(refused["why"]) for one in lost), refused
        for one in lost:
            whole.brokers[one].restart()
        eventually(lambda: recover()[0] == 0, within_ms=30_000, what="every replica answers")
        before = members(whole, topic)
        _, plan = recover("--dry-run")
        assert (plan["chosen"], plan["is_done"]) == (survivor, False)
        start = plan["start_offset"]
        assert isinstance(start, int)
        for replica in plan["replicas"]:  # type: ignore[attr-defined]
            assert replica["lost"] == [[replica["end_offset"], start]]
            assert (replica["end_offset"] > 0) == (replica["broker_id"] == survivor)
        assert members(whole, topic) == before, "a dry run changes nothing"
        status, done = recover("--execute")
        assert (status, done["is_done"], done["start_offset"]) == (0, True, start)
        assert recover("--execute", of=audited)[0] == 0
    finally:
        cluster.close()
    whole.await_in_sync(topic, 3)
    assert whole.leader(topic) == survivor
    produce(whole, topic, range(FIRST + SECOND, FIRST + SECOND + 10))
    read = consume(whole, topic, FIRST + 10)
    assert [value for _, value in read] == [b"%d" % one for one in (*range(FIRST), *range(FIRST + SECOND, FIRST + SECOND + 10))]
    assert read[FIRST][0] >= start, "no offset means two records"
    application.seal()
    (producer_id, *_) = application.producer.producer_ids
    application.close()
    (named,) = named_as_missing(
        whole.address, audited, tmp_path / "audit", producer_id=producer_id, kept=FIRST, logged=SECOND, lost=SECOND
    )
    assert (named["first_sequence"], named["count"]) == (FIRST, SECOND)


def members(whole: BrokerCluster, topic: str) -> set[int]:
    return {broker_id for one in whole.places(topic) for broker_id in one.in_sync_replicas}


def produce(whole: BrokerCluster, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": whole.address, "acks": "all"})
    for one in numbers:
        producer.produce(topic, b"%d" % one, partition=0)
    assert producer.flush(30) == 0


def consume(whole: BrokerCluster, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": whole.address, "group.id": topic, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[tuple[int, bytes]] = []

    def is_read() -> bool:
        read.extend((one.offset(), one.value()) for one in consumer.consume(1_000, timeout=0.2) if one.error() is None)
        return len(read) >= count

    try:
        eventually(is_read, within_ms=30_000, what="what is left is read")
    finally:
        consumer.close()
    return read
