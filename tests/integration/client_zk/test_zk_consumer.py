"""The paper's consumer against a real broker and a real ZooKeeper; librdkafka writes and counts the expected records."""

import threading
import time
import uuid
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest

from headrace.audit.counter import WindowCounter
from headrace.client.consumer.stream_message import HandedBatch, Message
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from headrace.client.consumer.zk_errors import PartitionsLost, RebalanceFailed, StreamMisused
from headrace.client.fetch.fetched import CorruptRange, TopicPartition
from headrace.coordination.consumers import OffsetRegistry, OwnerRegistry
from headrace.coordination.errors import ConsumerIdTaken
from headrace.coordination.session import Session
from headrace.coordination.topics import TopicRegistry
from headrace.wire.batch.record_batch import read_header
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create, produce
from tests.support.processes import eventually
from tests.support.zookeeper import ZooKeeperProcess, expire

from .conftest import MakeReader


def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [f"{number:06d}".encode() for number in range(start, start + count)]


def test_every_message_is_handed_out_once_and_in_order_and_the_iterator_ends_when_idle(
    broker: BrokerProcess, zookeeper: str, topic: str
) -> None:
    produce(broker.address, topic, numbered(1_000))
    with ZooKeeperConsumer(broker.address, zookeeper, group(), [topic], session_timeout_ms=2_000) as consumer:
        messages = list(islice(consumer.stream(idle_timeout_ms=20_000), 1_000))
        assert list(consumer.stream(idle_timeout_ms=300)) == []
        assert sorted(message.value or b"" for message in messages) == numbered(1_000)
        for partition in range(4):
            mine = [message for message in messages if message.partition == partition]
            assert [message.value for message in mine] == numbered(1_000)[partition::4]
            assert all(earlier.offset + 1 == earlier.next_offset <= later.offset for earlier, later in pairwise(mine))
            assert consumer.position(TopicPartition(topic, partition)) == mine[-1].next_offset
        assert messages[0].timestamp_ms == 1_000_000 + int(messages[0].value or b"")
        produce(broker.address, topic, numbered(10, 1_000))
        assert len(list(consumer.stream(idle_timeout_ms=800))) == 10, "after an idle end it goes on"


def test_a_group_goes_on_behind_its_last_commit(broker: BrokerProcess, zookeeper: str, topic: str) -> None:
    produce(broker.address, topic, numbered(100))
    name = group()
    first = ZooKeeperConsumer(broker.address, zookeeper, name, [topic], commit_on_revoke=False, session_timeout_ms=2_000).start()
    handed = [first.poll(10_000) for _ in range(50)]
    first.commit()
    handed += [first.poll(10_000) for _ in range(10)]
    first.close()
    with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000) as second:
        rest = [message.value for message in second.stream(idle_timeout_ms=800)]
    assert Counter(rest) == Counter(numbered(100)) - Counter(message.value for message in handed[:50] if message)
    with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000) as third:
        assert list(third.stream(idle_timeout_ms=800)) == [], "a clean close commits what was handed out"


def test_largest_begins_behind_what_is_there(broker: BrokerProcess, topic: str, reader: MakeReader) -> None:
    produce(broker.address, topic, numbered(40))
    late = reader(group(), topic, auto_offset_reset="largest").start()
    eventually(lambda: len(late.consumer.positions()) == 4, what="assigned")
    produce(broker.address, topic, numbered(4, 40))
    eventually(lambda: len(late.messages) == 4, what="the new ones")
    assert sorted(value or b"" for value in late.values) == numbered(4, 40)


def test_members_that_come_and_go_share_the_partitions_and_nothing_is_handed_out_twice(
    broker: BrokerProcess, topic: str, reader: MakeReader
) -> None:
    name = group()
    one = reader(name, topic, consumer_id="one").start()
    produce(broker.address, topic, numbered(200))
    eventually(lambda: len(one.messages) == 200, what="the first member has read all")
    two = reader(name, topic, consumer_id="two").start()
    eventually(lambda: len(one.consumer.positions()) == len(two.consumer.positions()) == 2, what="two partitions each")
    assert not one.consumer.positions().keys() & two.consumer.positions().keys()
    produce(broker.address, topic, numbered(200, 200))
    eventually(lambda: len(one.messages) + len(two.messages) == 400, what="everything read")
    three = reader(name, topic, consumer_id="three").start()
    eventually(lambda: sorted(len(each.consumer.positions()) for each in (one, two, three)) == [1, 1, 2], what="three share four")
    two.close()
    eventually(lambda: len(one.consumer.positions()) == len(three.consumer.positions()) == 2, what="two share again")
    produce(broker.address, topic, numbered(200, 400))
    eventually(lambda: len(one.messages) + len(two.messages) + len(three.messages) == 600, what="everything read")
    assert sorted(value or b"" for value in one.values + two.values + three.values) == numbered(600)


def test_a_member_keeps_reading_what_stays_its_own_while_another_joins(
    broker: BrokerProcess, topic: str, reader: MakeReader
) -> None:
    revoked: list[TopicPartition] = []
    name = group()
    one = reader(name, topic, consumer_id="a", on_revoked=revoked.extend).start()
    eventually(lambda: len(one.consumer.positions()) == 4, what="all assigned")
    two = reader(name, topic, consumer_id="b").start()
    eventually(lambda: len(two.consumer.positions()) == 2, what="shared")
    assert sorted(revoked) == [TopicPartition(topic, 2), TopicPartition(topic, 3)]


def test_a_topic_and_its_partitions_may_come_after_the_consumer(
    broker: BrokerProcess, zookeeper: str, reader: MakeReader
) -> None:
    name, later = group(), f"later-{uuid.uuid4().hex[:8]}"
    early = reader(name, later).start()
    assert early.consumer.is_sure, "registered and ready without its topic"
    assert early.consumer.positions() == {}
    create(broker.address, later, 2)
    eventually(lambda: len(early.consumer.positions()) == 2, what="the topic found", within_ms=4_000)
    produce(broker.address, later, numbered(10), partitions=2)
    eventually(lambda: len(early.messages) == 10, what="its messages")
    session = Session(zookeeper, name="admin").start()
    try:
        OffsetRegistry(session).put(name, later, 2, 0)
        TopicRegistry(session).add_partitions(later, {2: [1]})
        eventually(
            lambda: TopicPartition(later, 2) in early.consumer.positions(), what="the new partition taken", within_ms=4_000
        )
    finally:
        session.close()


def test_what_is_told_as_handed_out_is_what_was_handed_out_across_a_rebalance(
    broker: BrokerProcess, topic: str, reader: MakeReader
) -> None:
    counters = [WindowCounter(100), WindowCounter(100)]

    def hook(counter: WindowCounter) -> object:
        def on_handed(handed: HandedBatch) -> None:
            counter.add(handed.header, handed.batch, from_offset=handed.from_offset, to_offset=handed.to_offset)

        return on_handed

    def slowly(_message: Message) -> None:
        time.sleep(0.0005)

    name = group()
    produce(broker.address, topic, numbered(2_000), batch=500)
    one = reader(name, topic, consumer_id="a", on_handed=hook(counters[0]), act=slowly).start()
    eventually(lambda: len(one.messages) > 100, what="under way")
    two = reader(name, topic, consumer_id="b", on_handed=hook(counters[1]), act=slowly).start()
    eventually(lambda: len(one.messages) + len(two.messages) == 2_000, what="all handed out")
    one.close()
    two.close()
    for counter, each in zip(counters, (one, two), strict=True):
        expected = Counter(message.timestamp_ms // 100 * 100 for message in each.messages)
        assert {start: sum(entry.count for entry in found) for start, found in counter.take().items()} == dict(expected)
    assert sorted(value or b"" for value in one.values + two.values) == numbered(2_000)


def test_a_lost_session_loses_the_partitions_and_what_was_not_committed_comes_again(
    broker: BrokerProcess, topic: str, reader: MakeReader
) -> None:
    lost: list[TopicPartition] = []
    produce(broker.address, topic, numbered(40))
    one = reader(group(), topic, on_lost=lost.extend, commit_on_revoke=False).start()
    eventually(lambda: len(one.messages) == 40, what="all read")
    expire(one.consumer._session)
    eventually(lambda: len(one.messages) == 80, what="all read again")
    assert len(lost) == 4
    assert Counter(one.values) == Counter(numbered(40) * 2)


def test_a_commit_after_the_session_was_lost_commits_nothing(broker: BrokerProcess, zookeeper: str, topic: str) -> None:
    produce(broker.address, topic, numbered(8))
    name = group()
    with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000) as consumer:
        assert consumer.poll(10_000) is not None
        before = consumer._session.generation
        expire(consumer._session)
        eventually(lambda: consumer._session.generation > before and consumer.is_sure, what="a new session")
        with pytest.raises(PartitionsLost):
            consumer.commit()
        assert OffsetRegistry(consumer._session).get_all(name) == {}
        assert len(list(consumer.stream(idle_timeout_ms=800))) == 8


def test_nothing_is_handed_out_while_zookeeper_is_away_and_all_of_it_when_it_is_back(
    tmp_path: Path, own_zookeeper: ZooKeeperProcess, reader: MakeReader
) -> None:
    chroot = f"{own_zookeeper.address}/c"
    with BrokerProcess(tmp_path / "broker", chroot) as broker:
        create(broker.address, "t", 4)
        produce(broker.address, "t", numbered(100))
        one = reader("g", "t", bootstrap=broker.address, hosts=chroot, session_timeout_ms=10_000).start()
        eventually(lambda: len(one.messages) == 100, what="all read")
        own_zookeeper.kill()
        eventually(lambda: not one.consumer.may_act, what="unsure")
        produce(broker.address, "t", numbered(100, 100))
        eventually(lambda: one.consumer.queued_bytes > 0, what="fetched and held")
        assert len(one.messages) == 100
        own_zookeeper.start()
        eventually(lambda: len(one.messages) == 200, what="the rest")
        assert sorted(value or b"" for value in one.values) == numbered(200)
        one.close()


def test_a_restart_of_the_broker_is_waited_out(tmp_path: Path, zookeeper_chroot: str, reader: MakeReader) -> None:
    broker = BrokerProcess(tmp_path / "broker", zookeeper_chroot).start()
    try:
        create(broker.address, "t", 4)
        produce(broker.address, "t", numbered(100))
        one = reader("g", "t", bootstrap=broker.address, hosts=zookeeper_chroot).start()
        eventually(lambda: len(one.messages) == 100, what="all read")
        broker.kill()
        broker.restart()
        produce(broker.address, "t", numbered(100, 100))
        eventually(lambda: len(one.messages) == 200, what="the rest")
        assert sorted(value or b"" for value in one.values) == numbered(200)
        one.close()
    finally:
        broker.kill()


def test_a_batch_that_rotted_on_the_disk_is_told_at_its_place_and_the_rest_is_handed_out(
    tmp_path: Path, zookeeper_chroot: str, reader: MakeReader
) -> None:
    told: list[tuple[TopicPartition, CorruptRange, int]] = []
    broker = BrokerProcess(tmp_path / "broker", zookeeper_chroot).start()
    try:
        create(broker.address, "t", 1)
        for start in (0, 20, 40):
            produce(broker.address, "t", numbered(20, start), partitions=1)
        broker.stop()
        (segment,) = [
            path for path in (tmp_path / "broker").rglob("*.log") if path.stat().st_size and path.parent.name.startswith("t-")
        ]
        data = bytearray(segment.read_bytes())
        data[data.index(b"000030")] ^= 0xFF
        segment.write_bytes(data)
        broker.restart()
        one = reader(
            "g",
            "t",
            bootstrap=broker.address,
            hosts=zookeeper_chroot,
            on_corrupt=lambda name, bad: told.append((name, bad, len(one.messages))),
        ).start()
        eventually(lambda: len(one.messages) == 40, what="the sound ones")
        assert one.values == numbered(20) + numbered(20, 40)
        ((name, bad, after),) = told
        assert name == TopicPartition("t", 0)
        assert after == 20
        header = read_header(data, data.index(b"000020") - data.index(b"000000"))
        assert (bad.from_offset, bad.to_offset) == (one.messages[19].next_offset, header.next_offset)
        one.close()
    finally:
        broker.kill()


def test_an_application_that_does_not_come_back_loses_its_partitions_to_who_waits_and_hears_it(
    broker: BrokerProcess, topic: str, reader: MakeReader
) -> None:
    stuck, lost = threading.Event(), list[TopicPartition]()
    name = group()
    produce(broker.address, topic, numbered(4))
    one = reader(
        name, topic, consumer_id="a", act=lambda _m: stuck.wait(60) and None, on_lost=lost.extend, handover_ms=300
    ).start()
    try:
        eventually(lambda: one.messages, what="in the application's hands")
        two = reader(name, topic, consumer_id="b").start()
        eventually(lambda: len(two.consumer.positions()) == 2, what="taken over")
        assert lost == []
    finally:
        stuck.set()
    eventually(lambda: sorted(lost) == sorted(two.consumer.positions()), what="told")


def test_a_partition_that_is_never_released_fails_the_stream_in_bounded_time(
    broker: BrokerProcess, zookeeper: str, topic: str, reader: MakeReader
) -> None:
    name = group()
    stranger = Session(zookeeper, name="stranger").start()
    try:
        OwnerRegistry(stranger).claim(name, topic, 2, "stranger")
        one = reader(name, topic, rebalance_patience_ms=500).start()
        eventually(lambda: one.error is not None, what="given up")
        assert isinstance(one.error, RebalanceFailed)
        assert f"{topic}-2" in str(one.error)
        assert OwnerRegistry(stranger).owners(name, topic) == {2: "stranger"}, "its own claims were given back"
    finally:
        stranger.close()


def test_what_is_free_is_read_while_another_holds_the_rest_and_the_rest_when_it_is_free(
    broker: BrokerProcess, zookeeper: str, topic: str, reader: MakeReader
) -> None:
    name = group()
    stranger = Session(zookeeper, name="stranger").start()
    try:
        OwnerRegistry(stranger).claim(name, topic, 0, "stranger")
        one = reader(name, topic, recheck_ms=60_000).start()
        eventually(lambda: {at.partition for at in one.consumer.positions()} == {1, 2, 3}, what="the free ones are read")
        produce(broker.address, topic, numbered(8))
        eventually(lambda: len(one.messages) == 6, what="handed out")
    finally:
        stranger.close()
    # Only the watch on the stranger's node can tell so soon: the lists are read again after a minute.
    eventually(lambda: len(one.consumer.positions()) == 4, what="all claimed")
    eventually(lambda: sorted(one.values) == numbered(8), what="nothing skipped, nothing twice")


def test_two_living_members_under_one_id_are_refused(broker: BrokerProcess, topic: str, reader: MakeReader) -> None:
    name = group()
    reader(name, topic, consumer_id="same", session_timeout_ms=1_000).start()
    with pytest.raises(ConsumerIdTaken):
        reader(name, topic, consumer_id="same", session_timeout_ms=1_000).start()


def test_a_slow_application_bounds_what_is_fetched_ahead(broker: BrokerProcess, zookeeper: str, topic: str) -> None:
    produce(broker.address, topic, [bytes(1_000)] * 2_000)
    with ZooKeeperConsumer(
        broker.address, zookeeper, group(), [topic], queue_bytes=200_000, session_timeout_ms=2_000
    ) as consumer:
        largest, count = 0, 0
        for _ in consumer.stream(idle_timeout_ms=800):
            largest = max(largest, consumer.queued_bytes)
            count += 1
        assert count == 2_000
        assert 0 < largest <= 200_000


def test_a_stream_belongs_to_one_thread_and_a_consumer_starts_once(
    broker: BrokerProcess, zookeeper: str, topic: str, reader: MakeReader
) -> None:
    one = reader(group(), topic).start()
    eventually(lambda: one.consumer._handing_out.locked(), what="iterating")
    with pytest.raises(StreamMisused, match="one thread"):
        one.consumer.poll(10)
    with pytest.raises(StreamMisused, match="started before"):
        one.consumer.start()
    with pytest.raises(StreamMisused, match="no topics"):
        ZooKeeperConsumer(broker.address, zookeeper, "g", [])
    with pytest.raises(StreamMisused, match="not this consumer's"):
        one.consumer.seek(TopicPartition("other", 0), 0)


def test_a_seek_at_the_assignment_decides_where_reading_begins(broker: BrokerProcess, zookeeper: str, topic: str) -> None:
    produce(broker.address, topic, numbered(40), batch=1)
    name = group()
    with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000) as first:
        assert len(list(first.stream(idle_timeout_ms=800))) == 40
    again: list[int] = []

    def to_the_start(starts: dict[TopicPartition, int]) -> None:
        for partition, start in starts.items():
            again.append(start)
            second.seek(partition, 0)

    second = ZooKeeperConsumer(broker.address, zookeeper, name, [topic], on_assigned=to_the_start, session_timeout_ms=2_000)
    with second:
        assert len(list(second.stream(idle_timeout_ms=800))) == 40
    assert len(again) == 4
    assert all(again)
