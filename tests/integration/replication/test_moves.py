"""Partitions move between brokers while clients write: Kafka's own requests, through kio and kafka-python."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from headrace.cli.main import main
from headrace.client import reassignment
from headrace.client.topic_admin import PartitionPlace, delete_topic
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


def read_all(cluster: BrokerCluster, topic: str, count: int, partition: int = 0) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": topic, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
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

    def __init__(self, cluster: BrokerCluster, topic: str, partition: int = 0) -> None:
        self.producer = Producer({"bootstrap.servers": cluster.address, "enable.idempotence": True, "linger.ms": 1})
        self.topic, self.partition, self.count = topic, partition, 0
        self.faults: list[str] = []

    def write(self, count: int, *, await_all: bool = False) -> None:
        for _ in range(count):
            self.producer.produce(self.topic, b"%d" % self.count, partition=self.partition, on_delivery=self._told)
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
        assert read_all(cluster, self.topic, self.count, self.partition) == [b"%d" % number for number in range(self.count)]


class Repeated:
    """Does something in a thread every 50 ms while entered."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Repeated":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            self._action()


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


def test_a_broker_that_was_down_during_a_whole_move_deletes_its_old_folder_when_it_returns(
    whole: BrokerCluster, topic: str, raw: RawClient
) -> None:
    whole.create(topic, 3, replicas=2)
    writings = [Writing(whole, topic, number) for number in range(3)]
    for writing in writings:
        writing.write(300, await_all=True)
    places = {place.partition: place.replicas for place in whole.places(topic)}
    away, stays = next((one[1], index) for index, one in places.items() if one[1] != 1)  # 1 is asked
    wanted = {index: [one for one in (1, 2, 3) if one != away] for index, one in places.items() if away in one and index != stays}
    whole.brokers[away].kill()
    assert reassign(raw, topic, wanted) == [ErrorCode.NONE] * len(wanted)

    def is_moved() -> bool:
        found = {place.partition: place for place in whole.places(topic)}
        return bool(found) and all(set(found[index].in_sync_replicas) == set(wanted[index]) for index in wanted)

    eventually(is_moved, within_ms=60_000, every_ms=50, what="the partitions have moved")

    def kept() -> set[str]:
        return {one.name for one in Path(whole.brokers[away].data).glob(f"{topic}-*")}

    assert kept() == {f"{topic}-{index}" for index, replicas in places.items() if away in replicas}
    whole.brokers[away].restart()
    eventually(lambda: kept() == {f"{topic}-{stays}"}, within_ms=60_000, what="the old folder is deleted, the other one stays")
    whole.await_in_sync(topic, 2)
    for writing in writings:
        writing.write(10, await_all=True)
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


def test_the_command_shows_moves_carries_them_out_and_can_be_repeated(
    whole: BrokerCluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole.create(topic, 2, replicas=2)
    at = ["--bootstrap", whole.address, "--json"]
    words = ["partition", "reassign", "--topic", topic, "--to", "1,2,3", *at]
    assert main([*words, "--dry-run"]) == 0
    assert [row["to"] for row in json.loads(capsys.readouterr().out)] == [[1, 2, 3], [2, 3, 1]]
    assert [len(one.replicas) for one in whole.places(topic)] == [2, 2]
    for _ in range(2):
        assert main(words) == 0
        assert [row["is_moving"] for row in json.loads(capsys.readouterr().out)] == [False, False]
    eventually(lambda: [one.replicas for one in whole.places(topic)] == [(1, 2, 3), (2, 3, 1)], what="the partitions have moved")
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1, 9]}]}))
    assert main(["partition", "reassign", "--file", str(file), *at]) == 1
    assert "brokers [9] are not there" in json.loads(capsys.readouterr().out)[0]["error"]
    file.write_text("{}")
    assert main(["partition", "reassign", "--file", str(file), *at]) == 1


def drained(cluster: BrokerCluster, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return what `headrace broker drain` makes of its run."""
    code = main(["broker", "drain", *words, "--bootstrap", cluster.address, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_drained_broker_leads_nothing_then_keeps_nothing_and_stops_without_a_change_of_leader(
    whole: BrokerCluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = whole.client()
    for other in client.topics():
        delete_topic(client, other)
    two, one, three = f"{topic}-two", f"{topic}-one", f"{topic}-three"
    whole.create(two, 3, replicas=2)
    whole.create(one, 3, replicas=1)
    whole.create(three, replicas=3)
    on_one = {place.partition: place.leader for place in whole.places(one)}
    writings = [Writing(whole, two, number) for number in range(3)] + [Writing(whole, one, number) for number in range(3)]
    with Repeated(lambda: [each.write(10) for each in writings]):
        code, dry = drained(whole, capsys, "1", "--dry-run")
        assert code == 1, f"{three} has nowhere to go"
        assert {row["state"] for row in dry["partitions"] if row["topic"] != three} == {"planned"}
        (stuck,) = [row for row in dry["partitions"] if row["topic"] == three]
        assert (stuck["state"], stuck["to"]) == ("stuck", None)
        assert "it has 3 replicas" in stuck["why"]

        code, leaders = drained(whole, capsys, "1", "--leaders-only")
        on_it = {place.partition for place in whole.places(one) if place.leader == 1}
        assert {(row["topic"], row["partition"]) for row in leaders["partitions"] if row["state"] == "stuck"} == {
            (one, number) for number in on_it
        }
        assert [place.leader == 1 for place in (*whole.places(two), *whole.places(three))] == [False] * 4
        assert [len(place.replicas) for place in (*whole.places(two), *whole.places(three))] == [2, 2, 2, 3]

        delete_topic(client, three)
        assert drained(whole, capsys, "1", "--at-once", "1", "--wait-ms", "1")[0] == 1, "1 ms is too short"
        counts: list[int] = []
        with Repeated(lambda: counts.append(len(reassignment.moving(client)))):
            code, done = drained(whole, capsys, "1", "--at-once", "2")
        assert max(counts) <= 2
        assert (code, done["keeps"], done["leads"]) == (0, 0, 0)
        assert {row["state"] for row in done["partitions"]} == {"moved"}
        assert drained(whole, capsys, "1") == (0, {"broker_id": 1, "keeps": 0, "leads": 0, "partitions": []})
        places = [*whole.places(two), *whole.places(one)]
        assert [len(place.replicas) for place in places] == [2, 2, 2, 1, 1, 1]
        assert all(place.leader in place.replicas and 1 not in place.replicas for place in places)
        assert all(place.leader == on_one[place.partition] for place in whole.places(one) if on_one[place.partition] != 1)
        # `….cut.<ms>` has what an old leader had to cut off: an operator may want it.
        eventually(
            lambda: all(".cut." in one.name for one in Path(whole.brokers[1].data).glob(f"{topic}-*")),
            within_ms=60_000,
            what="no replica folder is left",
        )
        whole.brokers[1].stop()

    def epochs(found: list[PartitionPlace]) -> list[tuple[int, int]]:
        return [(place.leader, place.leader_epoch) for place in found]

    eventually(
        lambda: epochs([*whole.places(two), *whole.places(one)]) == epochs(places),
        within_ms=60_000,
        what="no leader has changed, so no client has waited",
    )
    client.close()
    for writing in writings:
        writing.check(whole)
