"""Partitions move between brokers while clients write: Kafka's own requests, through kio and kafka-python."""

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from headrace.wire.errors import ErrorCode
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient

ALTER, LIST = 45, 46


@pytest.fixture
def topic() -> str:
    return f"t_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def raw(whole: BrokerCluster) -> Iterator[RawClient]:
    with RawClient(int(whole.brokers[1].address.rsplit(":", 1)[1]), timeout_ms=30_000) as client:
        yield client


def reassign(raw: RawClient, topic: str, wanted: Mapping[int, list[int] | None]) -> list[ErrorCode]:
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in wanted.items()]
    answer = raw.ask(ALTER, 1, {"timeout_ms": 30_000, "topics": [{"name": topic, "partitions": partitions}]})
    return [ErrorCode(int(one.error_code)) for of_topic in answer.responses for one in of_topic.partitions]


def moving(raw: RawClient, topic: str) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    asked = [{"name": topic, "partition_indexes": [0]}]
    answer = raw.ask(LIST, 0, {"timeout_ms": 30_000, "topics": asked})
    return [
        (tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas))
        for of_topic in answer.topics
        for one in of_topic.partitions
    ]


def await_moved(cluster: BrokerCluster, topic: str, replicas: tuple[int, ...]) -> None:
    def is_moved() -> bool:
        places = cluster.places(topic)
        return bool(places) and all(
            one.replicas == replicas and set(one.in_sync_replicas) == set(replicas) and one.leader in replicas for one in places
        )

    eventually(is_moved, within_ms=60_000, every_ms=50, what=f"{topic} is on {replicas}")


def folders(cluster: BrokerCluster, topic: str) -> dict[int, list[str]]:
    return {
        broker_id: sorted(one.name for one in Path(broker.data).glob(f"{topic}-0*"))
        for broker_id, broker in cluster.brokers.items()
    }


def read_all(cluster: BrokerCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": topic, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[bytes] = []

    def is_read() -> bool:
        read.extend(one.value() for one in consumer.consume(1_000, timeout=0.2) if one.error() is None)
        return len(read) >= count

    try:
        eventually(is_read, within_ms=60_000, what=f"{count} records")
    finally:
        consumer.close()
    return read


class Writing:
    """An idempotent producer that numbers its records."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        self.producer = Producer({"bootstrap.servers": cluster.address, "enable.idempotence": True, "linger.ms": 1})
        self.topic, self.count = topic, 0
        self.faults: list[str] = []

    def write(self, count: int, *, await_all: bool = False) -> None:
        for _ in range(count):
            self.producer.produce(self.topic, b"%d" % self.count, partition=0, on_delivery=self._told)
            self.count += 1
            self.producer.poll(0)
        if await_all:
            assert self.producer.flush(60) == 0

    def _told(self, error: object, _: object) -> None:
        if error is not None:
            self.faults.append(str(error))

    def check(self, cluster: BrokerCluster) -> None:
        assert self.producer.flush(60) == 0
        assert self.faults == []
        assert read_all(cluster, self.topic, self.count) == [b"%d" % number for number in range(self.count)]


def test_a_partition_moves_with_its_leader_and_the_old_folder_is_deleted(
    whole: BrokerCluster, topic: str, raw: RawClient
) -> None:
    whole.create(topic, replicas=2)
    writing = Writing(whole, topic)
    writing.write(2_000, await_all=True)
    first = whole.places(topic)[0].replicas
    third = ({1, 2, 3} - set(first)).pop()
    wanted = (third, first[1])
    assert reassign(raw, topic, {0: list(wanted)}) == [ErrorCode.NONE]
    writing.write(2_000)
    await_moved(whole, topic, wanted)
    assert moving(raw, topic) == []
    eventually(lambda: folders(whole, topic)[first[0]] == [], within_ms=60_000, what="the old folder is deleted")
    assert reassign(raw, topic, {0: list(first)}) == [ErrorCode.NONE]
    writing.write(1_000)
    await_moved(whole, topic, first)
    writing.check(whole)


def test_a_move_to_a_broker_that_is_away_is_listed_and_can_be_ended(whole: BrokerCluster, topic: str, raw: RawClient) -> None:
    whole.create(topic, replicas=2)
    assert reassign(raw, topic, {0: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    first = whole.places(topic)[0].replicas
    third = ({1, 2, 3} - set(first)).pop()
    if third == 1:  # the one that is asked must stay
        assert reassign(raw, topic, {0: [1, first[0]]}) == [ErrorCode.NONE]
        await_moved(whole, topic, (1, first[0]))
        first, third = (1, first[0]), first[1]
    whole.brokers[third].kill()
    assert reassign(raw, topic, {0: [first[0], third]}) == [ErrorCode.NONE], "its session is not over yet"
    eventually(lambda: moving(raw, topic) == [((*first, third), (third,), (first[1],))], what="the move is listed")
    assert [set(one.replicas) for one in whole.places(topic)] == [{1, 2, 3}], "Metadata shows adding replicas, too"
    assert reassign(raw, topic, {0: None}) == [ErrorCode.NONE]
    eventually(lambda: moving(raw, topic) == [], what="the move has ended")
    await_moved(whole, topic, first)


def test_a_partition_of_one_replica_gets_three_and_goes_back_to_one(whole: BrokerCluster, topic: str, raw: RawClient) -> None:
    whole.create(topic, replicas=1)
    writing = Writing(whole, topic)
    writing.write(2_000, await_all=True)
    (first,) = whole.places(topic)[0].replicas
    others = sorted({1, 2, 3} - {first})
    assert reassign(raw, topic, {0: [*others, first]}) == [ErrorCode.NONE]
    writing.write(2_000)
    await_moved(whole, topic, (*others, first))
    assert reassign(raw, topic, {0: [others[1]]}) == [ErrorCode.NONE]
    writing.write(1_000)
    await_moved(whole, topic, (others[1],))
    eventually(
        lambda: {one for one, found in folders(whole, topic).items() if found} == {others[1]},
        within_ms=60_000,
        what="one folder is left",
    )
    whole.brokers[others[1]].stop()
    whole.brokers[others[1]].restart()
    await_moved(whole, topic, (others[1],))
    writing.check(whole)
