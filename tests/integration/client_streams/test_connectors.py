"""The paper's connectors against a real broker and a real ZooKeeper; librdkafka writes and counts the expected records."""

import threading
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.client.consumer.zk_errors import StreamMisused
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.streams import Message
from headrace.coordination.consumers import OffsetRegistry
from headrace.coordination.session import Session
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create, produce
from tests.support.processes import eventually

from .conftest import MakeReaders


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [f"{number:06d}".encode() for number in range(start, start + count)]


def registered(zookeeper: str, group: str) -> dict[tuple[str, int], int]:
    session = Session(zookeeper, name="looks").start()
    try:
        return OffsetRegistry(session).get_all(group)
    finally:
        session.close()


def test_each_partition_is_in_one_stream_of_one_member_and_in_order(
    broker: BrokerProcess, topic: str, group: str, readers: MakeReaders, kind: str
) -> None:
    one = readers(group, {topic: 3}, kind=kind, consumer_id="one")
    eventually(lambda: one.owned() == [[0, 1], [2], [3]], what="all of them, in ranges")
    produce(broker.address, topic, numbered(400))
    eventually(lambda: len(one.values) == 400, what="everything read")
    two = readers(group, {topic: 1}, kind=kind, consumer_id="two")
    # ZooKeeper's groups share out among streams (3 and 1), Kafka's among members (2 and 2).
    shared = [[0], [1], [2], [3]] if kind == "zookeeper" else [[0], [1], [], [2, 3]]
    eventually(lambda: sorted(one.owned() + two.owned()) == sorted(shared), what="shared")
    produce(broker.address, topic, numbered(400, 400))
    eventually(lambda: len(one.values + two.values) == 800, what="everything read")
    assert Counter(one.values + two.values) == Counter(numbered(800))
    for mine in [*one.messages, *two.messages]:
        for partition in range(4):
            offsets = [message.offset for message in mine if message.partition == partition]
            assert offsets == sorted(offsets)


def test_a_stream_never_ends_until_its_connector_is_closed(
    broker: BrokerProcess, topic: str, group: str, readers: MakeReaders, kind: str
) -> None:
    one = readers(group, {topic: 2}, kind=kind)
    eventually(lambda: sum(map(len, one.owned())) == 4, what="assigned")
    produce(broker.address, topic, numbered(8))
    eventually(lambda: len(one.values) == 8, what="read")
    assert one.ended == 0
    assert one.streams[0].poll is not None
    one.close()
    assert one.ended == 2
    assert one.errors == []
    with pytest.raises(StreamMisused, match="made before, or it is closed"):
        one.connector.create_message_streams({topic: 1})


def test_only_what_is_finished_is_committed_by_itself(
    broker: BrokerProcess, zookeeper: str, topic: str, group: str, readers: MakeReaders
) -> None:
    held = threading.Event()

    def hold_the_fifth(message: Message) -> None:
        if message.value == b"000016":  # the fifth of partition 0
            held.wait(60)

    produce(broker.address, topic, numbered(40))
    one = readers(group, {topic: 1}, act=hold_the_fifth, auto_commit_interval_ms=50)
    try:
        eventually(lambda: b"000016" in one.values, what="the fifth is in hand")
        fifth = next(message for message in one.messages[0] if message.value == b"000016")
        eventually(lambda: registered(zookeeper, group).get((topic, 0)) == fifth.offset, what="four are committed")
        handed = len(one.values)
        one.connector.commit()
        assert registered(zookeeper, group)[topic, 0] == fifth.offset, "by hand neither"
        assert len(one.values) == handed
    finally:
        held.set()
    eventually(lambda: len(one.values) == 40, what="all read")
    ends = {(topic, partition): at for partition, at in one.streams[0].positions.items()}
    eventually(lambda: registered(zookeeper, group) == ends, what="all committed")


def test_a_message_on_which_the_application_failed_is_delivered_again(
    broker: BrokerProcess, topic: str, group: str, readers: MakeReaders, kind: str
) -> None:
    def fail_at_the_end(message: Message) -> None:
        if message.value == b"000036":
            raise ValueError("the application's own")

    produce(broker.address, topic, numbered(40)[::4], partitions=1)  # partition 0 alone
    one = readers(group, {topic: 1}, kind=kind, act=fail_at_the_end)
    eventually(lambda: one.errors, what="failed", within_ms=30_000)
    one.close()
    two = readers(group, {topic: 1}, kind=kind)
    eventually(lambda: two.values, what="delivered again", within_ms=30_000)
    assert two.values == [b"000036"]


def test_without_auto_commit_nothing_is_registered_but_by_hand(
    broker: BrokerProcess, zookeeper: str, topic: str, group: str, readers: MakeReaders
) -> None:
    produce(broker.address, topic, numbered(8))
    one = readers(group, {topic: 2}, enable_auto_commit=False, auto_commit_interval_ms=10)
    eventually(lambda: len(one.values) == 8, what="read")
    one.close()
    assert registered(zookeeper, group) == {}
    two = readers(group, {topic: 2}, enable_auto_commit=False)
    eventually(lambda: len(two.values) == 8, what="read again")
    eventually(lambda: not any(stream._messages.is_in_hand for stream in two.streams), what="finished")
    two.connector.commit_offsets()
    assert registered(zookeeper, group) == {
        (topic, one.partition): one.next_offset for one in (m[-1] for m in _by_partition(two.messages))
    }


def _by_partition(messages: list[list[Message]]) -> list[list[Message]]:
    every = [message for mine in messages for message in mine]
    return [[message for message in every if message.partition == partition] for partition in range(4)]


def test_seek_by_offset_and_by_time_goes_back_and_forth(
    broker: BrokerProcess, topic: str, group: str, readers: MakeReaders, kind: str
) -> None:
    produce(broker.address, topic, numbered(40), batch=4)  # event time 1_000_000 ms and the number
    one = readers(group, {topic: 2}, kind=kind)
    eventually(lambda: len(one.values) == 40, what="read", within_ms=30_000)
    third = next(message for message in one.messages[0] if message.value == b"000008")  # the third of partition 0
    one.connector.seek(topic, 0, third.offset)
    eventually(lambda: len(one.values) == 48, what="eight again")
    assert [m.value for m in one.messages[0][20:]] == numbered(40)[8::4]
    assert one.connector.seek_to_time(topic, 3, 1_000_021) > 0  # in partition 3 is 23 the first from then on
    eventually(lambda: len(one.values) == 53, what="five again")
    assert [m.value for m in one.messages[1][-5:]] == numbered(40)[23::4]
    with pytest.raises(StreamMisused, match="no stream"):
        one.connector.seek(topic, 9, 0)
    with pytest.raises(StreamMisused, match="does not read it now"):
        one.streams[0].seek(3, 0)


def test_a_partition_that_changes_its_stream_within_a_member_is_neither_doubled_nor_skipped(
    broker: BrokerProcess, zookeeper: str, group: str, readers: MakeReaders
) -> None:
    grows = f"grows-{uuid.uuid4().hex[:8]}"
    create(broker.address, grows, 2)
    one = readers(group, {grows: 2})
    eventually(lambda: one.owned() == [[0], [1]], what="one each")
    produce(broker.address, grows, numbered(100), partitions=2)
    eventually(lambda: len(one.values) == 100, what="read")
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions(grows, 4)])[grows].result(20)
    eventually(lambda: one.owned() == [[0, 1], [2, 3]], what="1 has changed its stream, 2 and 3 are new")
    produce(broker.address, grows, numbered(100, 100), partitions=4)
    eventually(lambda: len(one.values) == 200, what="read")
    assert Counter(one.values) == Counter(numbered(200))


def test_fault_a_topic_made_anew_under_its_name_is_read_from_its_beginning(
    broker: BrokerProcess, zookeeper: str, group: str, readers: MakeReaders
) -> None:
    """Fault: at the deletion of a topic its readers committed how far they had read, and so much of the next topic of that name
    was skipped.
    """
    admin = AdminClient({"bootstrap.servers": broker.address})
    name = f"anew-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 1)
    produce(broker.address, name, numbered(20), partitions=1)
    one = readers(group, {name: 1}, auto_commit_interval_ms=60_000)
    eventually(lambda: len(one.values) == 20, what="read")
    admin.delete_topics([name])[name].result(20)
    eventually(lambda: one.owned() == [[]], what="given up")
    assert registered(zookeeper, group) == {}
    create(broker.address, name, 1)
    produce(broker.address, name, numbered(40, 100), partitions=1)
    eventually(lambda: len(one.values) >= 60, what="the new topic read")
    assert one.values[20:] == numbered(40, 100)


def test_a_stream_that_nobody_reads_holds_up_neither_the_others_nor_its_partitions_next_owner(
    broker: BrokerProcess, topic: str, group: str, readers: MakeReaders
) -> None:
    busy = threading.Event()
    one = readers(
        group, {topic: 2}, consumer_id="a", act=lambda m: busy.wait(60) and None if m.partition < 2 else None, handover_ms=300
    )
    try:
        produce(broker.address, topic, numbered(40))
        eventually(lambda: len(one.messages[1]) == 20, what="the second stream goes on")
        two = readers(group, {topic: 2}, consumer_id="b")
        eventually(lambda: two.owned() == [[2], [3]], what="taken over")
    finally:
        busy.set()
    eventually(lambda: one.owned() == [[0], [1]], what="shared, once the first stream is back")
    eventually(lambda: {m.value for m in one.messages[0]} | {m.value for m in one.messages[1]} >= set(numbered(40)), what="all")


def test_queues_are_bounded_for_all_streams_together(broker: BrokerProcess, topic: str, group: str, readers: MakeReaders) -> None:
    produce(broker.address, topic, [bytes(1_000)] * 2_000)
    largest = 0

    def look(_message: Message) -> None:
        nonlocal largest
        largest = max(largest, sum(stream.queued_bytes for stream in one.streams))
        time.sleep(0.0001)

    opened = threading.Event()
    one = readers(group, {topic: 4}, act=lambda m: opened.wait(60) and look(m), queue_bytes=400_000)
    opened.set()
    eventually(lambda: len(one.values) == 2_000, what="all read")
    assert 0 < largest <= 400_000


def test_two_threads_in_one_stream_are_told(topic: str, group: str, readers: MakeReaders) -> None:
    one = readers(group, {topic: 1})
    eventually(lambda: one.streams[0]._handing_out.locked(), what="iterating")
    with pytest.raises(StreamMisused, match="belongs to one thread"):
        one.streams[0].poll(1)
    with pytest.raises(StreamMisused, match="does not read it now"):
        one.streams[0].seek_to_time(77, 0)
    assert one.connector.is_sure
    assert TopicPartition(topic, 0) in eventually(lambda: one.connector.owned, what="owned")
