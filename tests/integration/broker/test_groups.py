"""Consumer groups of other projects' clients, against a real broker process and a real ZooKeeper: members join, leave, die,
fall silent; the broker dies; administrators describe and delete.
"""

import os
import signal
import threading
import uuid
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import GroupSubscribedToTopicError
from kafka.structs import OffsetAndMetadata

from headrace.client.connection import control_plane
from headrace.client.connection.connection import Connection
from headrace.client.consumer import zk_membership
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from headrace.client.consumer.zk_errors import GroupOfKafkaClients
from headrace.coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry
from headrace.coordination.session import Session
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

from .group_readers import PARTITIONS, SETTINGS, KafkaPythonReader, Reader, kcat_member, members, produce, read_all, shared, texts


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return SETTINGS


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(10)
    return name


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_the_partitions_through_joins_and_departures(
    broker: BrokerProcess, topic: str, group: str, strategy: str
) -> None:
    config = {"partition.assignment.strategy": strategy}
    first, second = texts("first", 60), texts("second", 60)
    produce(broker, topic, first)
    with Reader(broker, group, topic, **config) as a, Reader(broker, group, topic, **config) as b:
        eventually(shared(a, b), what="two members sharing")
        eventually(read_all(first, a, b), what="everything read")
        with Reader(broker, group, topic, **config) as c:
            eventually(shared(a, b, c), what="three members sharing")
            produce(broker, topic, second)
            eventually(read_all(second, a, b, c), what="everything read by three")
            assert c.values
        eventually(shared(a, b), what="two members again")
        third = texts("third", 60)
        produce(broker, topic, third)
        eventually(read_all(third, a, b), what="what came after the departure")
    every = [value for reader in (a, b, c) for value in reader.values]
    assert len(every) == len(set(every)) == 180, "none twice: those who leave commit first"


def test_librdkafka_kafka_python_and_kcat_work_in_one_group(
    broker: BrokerProcess, topic: str, group: str, tmp_path: Path
) -> None:
    other = KafkaPythonReader(broker, group, topic)
    kcat = kcat_member(broker, group, topic, tmp_path)
    try:
        with Reader(broker, group, topic) as reader:
            eventually(lambda: len(other.partitions) == len(reader.partitions) == 2, what="three clients sharing six partitions")
            values = texts("mixed", 120)
            produce(broker, topic, values)
            eventually(lambda: {*other.values, *reader.values, *kcat.output().split()} >= set(values), what="everything read")
            assert other.values
            assert reader.values
    finally:
        kcat.stop()
        other.close()


def test_a_killed_members_partitions_go_to_the_others_when_its_session_ends(
    broker: BrokerProcess, topic: str, group: str, tmp_path: Path
) -> None:
    kcat = kcat_member(broker, group, topic, tmp_path)
    try:
        with Reader(broker, group, topic) as reader:
            eventually(lambda: len(reader.partitions) == 3, what="half of the partitions")
            kcat.kill()
            values = texts("after", 60)
            produce(broker, topic, values)
            eventually(lambda: len(reader.partitions) == 6, what="all partitions after the death of the other")
            eventually(read_all(values, reader), what="everything read")
    finally:
        kcat.kill()


def test_a_member_that_is_frozen_is_out_and_comes_back_when_it_wakes(
    broker: BrokerProcess, topic: str, group: str, tmp_path: Path
) -> None:
    kcat = kcat_member(broker, group, topic, tmp_path, "session.timeout.ms=1000")
    try:
        with Reader(broker, group, topic) as reader:
            eventually(lambda: len(reader.partitions) == 3, what="half of the partitions")
            os.kill(kcat.pid, signal.SIGSTOP)
            eventually(lambda: len(reader.partitions) == 6, what="all partitions while the other is frozen")
            assert "group_members_silent" in broker.log
            os.kill(kcat.pid, signal.SIGCONT)
            eventually(lambda: len(reader.partitions) == 3, what="half of them again")
    finally:
        kcat.kill()


def test_a_static_member_that_restarts_keeps_its_partitions_and_the_others_notice_nothing(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    with Reader(broker, group, topic, **{"group.instance.id": "one"}) as one:
        two = Reader(broker, group, topic, **{"group.instance.id": "two"})
        eventually(shared(one, two), what="two static members sharing")
        seen, before = (one.assignments, one.revocations), set(two.partitions)
        two.close()
        values = texts("static", 60)
        produce(broker, topic, values)
        with Reader(broker, group, topic, **{"group.instance.id": "two"}) as again:
            eventually(lambda: again.partitions == before, what="the same partitions again")
            eventually(read_all(values, one, again), what="everything read")
            assert (one.assignments, one.revocations) == seen
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        members = admin.describe_groups([group])[group]["members"]
        assert {one["group_instance_id"] for one in members} == {"one", "two"}, "they left without leaving the group"
    finally:
        admin.close()


def test_a_second_process_with_the_same_instance_id_fences_the_first(broker: BrokerProcess, topic: str, group: str) -> None:
    with Reader(broker, group, topic, **{"group.instance.id": "one"}) as first:
        eventually(lambda: len(first.partitions) == PARTITIONS, what="all partitions")
        with Reader(broker, group, topic, **{"group.instance.id": "one"}) as second:
            eventually(lambda: "_FATAL" in first.errors, what="the first one fenced")
            eventually(lambda: len(second.partitions) == PARTITIONS, what="all partitions for the second")


def test_a_group_survives_the_brokers_death_and_loses_nothing_above_what_it_committed(zookeeper: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, f"{zookeeper}/killed", settings=SETTINGS).start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(10)
        config = {"auto.commit.interval.ms": 100, "reconnect.backoff.max.ms": 200}
        before, after = texts("before", 300), texts("after", 300)
        with Reader(broker, "g", "t", **config) as a, Reader(broker, "g", "t", **config) as b:
            produce(broker, "t", before)
            eventually(read_all(before, a, b), what="everything read before the death")
            # Without commits the group has no offset to continue from.
            asked = [ConsumerGroupTopicPartitions("g")]
            eventually(
                lambda: len(admin.list_consumer_group_offsets(asked)["g"].result(10).topic_partitions) == PARTITIONS,
                what="commits of all partitions",
            )
            broker.kill()
            broker.restart()
            # Asked of the broker. The readers keep their old assignments, for which no commit is accepted, until they notice its
            # death.
            eventually(lambda: len(members(broker, "g")) == 2, what="two members again")
            produce(broker, "t", after)
            eventually(read_all(after, a, b), what="everything read after the death")
            eventually(shared(a, b), what="two members sharing again")
        every = [value for reader in (a, b) for value in reader.values]
        assert set(every) == {*before, *after}
        last = texts("last", PARTITIONS)
        produce(broker, "t", last)
        with Reader(broker, "g", "t") as c:
            eventually(read_all(last, c), what="what came after they left")
            assert sorted(c.values) == sorted(last), "they had committed all they read, and nothing more"
    finally:
        broker.kill()


def test_metadata_and_leader_epoch_are_kept_beside_the_offset_and_paper_consumers_read_on(
    broker: BrokerProcess, topic: str, group: str, zookeeper: str
) -> None:
    produce(broker, topic, texts("x", 12))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": group})
    behind_first = consumer.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=10)[0].offset + 1
    noted = TopicPartition(topic, 0, behind_first, "on host-7, ☃", leader_epoch=3)
    consumer.commit(offsets=[noted, TopicPartition(topic, 1, 0)], asynchronous=False)
    found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 2)], timeout=10)
    consumer.close()
    assert [(one.offset, one.metadata or "", one.leader_epoch) for one in found[:2]] == [
        (behind_first, "on host-7, ☃", 3),
        (0, "", None),
    ]
    assert found[2].offset == confluent_kafka.OFFSET_INVALID
    session = Session(zookeeper, name="test").start()
    try:
        assert OffsetRegistry(session).get_all(group) == {(topic, 0): behind_first, (topic, 1): 0}
    finally:
        session.close()
    with ZooKeeperConsumer(broker.address, zookeeper, group, [topic], consumer_id="paper") as paper:
        read = [message.value.decode() for message in paper.stream(idle_timeout_ms=1_500)]
        assert sorted(read) == sorted(set(texts("x", 12)) - {"x-0"})
        admin = AdminClient({"bootstrap.servers": broker.address})
        described = admin.describe_consumer_groups([group])[group].result(10)
        assert described.state is ConsumerGroupState.STABLE
        (member,) = described.members
        assert {one.partition for one in member.assignment.topic_partitions} == set(range(PARTITIONS))
        with pytest.raises(confluent_kafka.KafkaException, match="not empty"):
            admin.delete_consumer_groups([group])[group].result(10)


def test_a_kafka_client_and_a_paper_consumer_are_kept_apart_whoever_comes_second_is_told(
    broker: BrokerProcess, topic: str, group: str, zookeeper: str
) -> None:
    produce(broker, topic, texts("x", 12))
    paper = ZooKeeperConsumer(broker.address, zookeeper, group, [topic], consumer_id="paper")
    with paper, Reader(broker, group, topic) as late:
        eventually(lambda: "INCONSISTENT_GROUP_PROTOCOL" in late.errors, what="the Kafka client told")
        assert len([*paper.stream(idle_timeout_ms=1_000)]) == 12
        assert (late.values, late.partitions) == ([], set())
        paper.commit()
    with Reader(broker, group, topic, **{"client.id": "early bird"}) as early:
        eventually(lambda: len(early.partitions) == PARTITIONS, what="a Kafka client in the group, the paper's consumer gone")
        for _ in range(2):
            with pytest.raises(GroupOfKafkaClients, match=r"'early bird'.*group id of its own"):
                ZooKeeperConsumer(broker.address, zookeeper, group, [topic], consumer_id="paper").start()
        produce(broker, topic, texts("y", 12))
        eventually(read_all(texts("y", 12), early), what="read on from what the paper's consumer committed")
        assert sorted(early.values) == sorted(texts("y", 12))
        assert early.errors == []


def test_of_the_papers_consumers_one_asks_for_kafka_clients_and_the_others_rely_on_its_partitions(
    broker: BrokerProcess, topic: str, group: str, zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = list[str](), control_plane.ask_group_members

    def counted(connection: Connection, name: str) -> tuple[str, list[str]]:
        asked.append(name)
        return ask(connection, name)

    monkeypatch.setattr(control_plane, "ask_group_members", counted)
    with ExitStack() as stack:
        consumers = [ZooKeeperConsumer(broker.address, zookeeper, group, [topic], consumer_id=name) for name in "abcdef"]
        for consumer in consumers:
            stack.enter_context(consumer)
            threading.Thread(target=list, args=(consumer.stream(),), daemon=True).start()
            eventually(lambda consumer=consumer: len(consumer.positions()) >= 1, what="it reads")  # type: ignore[misc]
        assert asked == [group]


def test_a_member_that_relies_on_another_one_in_vain_asks_for_itself_and_its_stream_is_told(
    broker: BrokerProcess, topic: str, group: str, zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first by name registers, and then neither asks nor reads."""
    monkeypatch.setattr(zk_membership, "ADMISSION_MS", 300)
    session = Session(zookeeper, name="silent").start()
    try:
        with Reader(broker, group, topic, **{"client.id": "early bird"}) as early:
            eventually(lambda: len(early.partitions) == PARTITIONS, what="a Kafka client in the group")
            ConsumerRegistry(session).register(group, "a", {topic: 1})
            with ZooKeeperConsumer(broker.address, zookeeper, group, [topic], consumer_id="b") as late:
                with pytest.raises(GroupOfKafkaClients, match="'early bird'"):
                    next(late.stream(idle_timeout_ms=20_000))
                assert OwnerRegistry(session).owners(group, topic) == {}
    finally:
        session.close()


def test_administrators_list_describe_change_and_delete_groups(broker: BrokerProcess, topic: str, group: str) -> None:
    produce(broker, topic, texts("x", 60))
    admin = AdminClient({"bootstrap.servers": broker.address})
    python = KafkaAdminClient(bootstrap_servers=broker.address)

    def listed() -> dict[str, ConsumerGroupState]:
        return {one.group_id: one.state for one in admin.list_consumer_groups().result(10).valid}

    place = KafkaPythonPartition(topic, 0)
    try:
        with Reader(broker, group, topic) as reader:
            eventually(lambda: len(reader.values) == 60, what="everything read")
            assert listed()[group] is ConsumerGroupState.STABLE
            described = admin.describe_consumer_groups([group])[group].result(10)
            (member,) = described.members
            assert (described.partition_assignor, member.client_id, member.host) == ("range", "rdkafka", "127.0.0.1")
            assert len(member.assignment.topic_partitions) == PARTITIONS
            with pytest.raises(confluent_kafka.KafkaException, match="not empty"):
                admin.delete_consumer_groups([group])[group].result(10)
            assert python.delete_group_offsets(group, [place])[place] is GroupSubscribedToTopicError
        assert listed()[group] is ConsumerGroupState.EMPTY
        changed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 5)])
        admin.alter_consumer_group_offsets([changed])[group].result(10)
        python.alter_group_offsets(group, {KafkaPythonPartition(topic, 2): OffsetAndMetadata(7, "noted", 2)})
        python.delete_group_offsets(group, [place])
        offsets = python.list_group_offsets({group: None})[group]
        assert place not in offsets
        assert offsets[KafkaPythonPartition(topic, 1)].offset == 5
        assert offsets[KafkaPythonPartition(topic, 2)] == OffsetAndMetadata(7, "noted", 2)
        admin.delete_consumer_groups([group])[group].result(10)
        assert group not in listed()
        assert python.list_group_offsets({group: None})[group] == {}
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            admin.delete_consumer_groups([group])[group].result(10)
        assert caught.value.args[0].code() == confluent_kafka.KafkaError.GROUP_ID_NOT_FOUND
    finally:
        python.close()
