"""What is copied besides records, between brokers of ours: topic settings and the offsets of consumer groups."""

import json

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.client import admin
from headrace.client.topic_admin import topic_settings
from tests.integration.mirror.pair import Pair
from tests.support.broker import BrokerProcess
from tests.support.group_reading import consume
from tests.support.processes import eventually

TOPIC = "clicks"
SYNC = ["--sync-group-offsets", "--sync-group-offsets-interval-seconds", "1"]


def send(pair: Pair, count: int) -> None:
    producer: Producer = pair.producer(**{"batch.num.messages": 5})
    for number in range(count):
        producer.produce(TOPIC, b"event %d" % number, partition=0, timestamp=1_431_857_103_000)
    assert producer.flush(20) == 0


def committed(broker: BrokerProcess, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "log_level": 0})
    try:
        return int(consumer.committed([TopicPartition(TOPIC, 0)], timeout=10)[0].offset)
    finally:
        consumer.close()


def test_a_group_goes_on_at_the_copy_where_it_stopped_at_the_source(fresh: Pair) -> None:
    fresh.mirror.command += SYNC
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    fresh.start_mirror()
    send(fresh, 100)
    fresh.await_level(TOPIC)
    first = consume(fresh.live.address, TOPIC, "readers", 60)
    consume(fresh.live.address, TOPIC, "console-consumer-7", 10)
    offset = committed(fresh.live, "readers")
    assert offset > 0
    eventually(lambda: committed(fresh.offline, "readers") == offset, what="the same offset at the copy")
    assert committed(fresh.offline, "console-consumer-7") < 0, "excluded, as MirrorMaker does"
    # It continues there, without a gap and without a repetition; and is not thrown back afterwards.
    second = consume(fresh.offline.address, TOPIC, "readers", 40)
    assert first + second == [b"event %d" % number for number in range(100)]
    end = committed(fresh.offline, "readers")
    send(fresh, 10)
    more = consume(fresh.live.address, TOPIC, "readers", 1)
    assert more == [b"event 60"]
    eventually(lambda: fresh.is_level(TOPIC), what="level")
    eventually(lambda: fresh.status()["sync"]["trouble"] is None, what="no trouble")
    assert committed(fresh.offline, "readers") == end


def test_a_groups_offset_that_is_ahead_of_the_copy_waits_at_the_copys_end(fresh: Pair) -> None:
    fresh.mirror.command += SYNC
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    fresh.start_mirror()
    send(fresh, 50)
    fresh.await_level(TOPIC)
    orders = {"v": 1, "number": 1, "paused": {"*": {"since_ms": 0, "by": "", "reason": ""}}, "bytes_per_s": {}}
    fresh._status.with_suffix(".orders").write_text(json.dumps(orders))
    eventually(lambda: fresh.status()["orders"]["number"] == 1, what="paused")
    send(fresh, 50)
    consume(fresh.live.address, TOPIC, "readers", 100)
    end = fresh.offset(fresh.offline, TOPIC, 0)
    assert committed(fresh.live, "readers") > end
    eventually(lambda: committed(fresh.offline, "readers") == end, what="as far as it is copied")
    fresh._status.with_suffix(".orders").unlink()
    fresh.await_level(TOPIC)
    eventually(lambda: committed(fresh.offline, "readers") == committed(fresh.live, "readers"), what="all the way")


def test_topic_settings_go_along_and_what_makes_a_copy_a_copy_stays(fresh: Pair) -> None:
    fresh.mirror.command += ["--sync-topic-configs", "--sync-topic-configs-interval-seconds", "1"]
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1, {"retention.ms": "7200000", "segment.bytes": "2000000"})
    fresh.start_mirror()
    send(fresh, 10)
    fresh.await_level(TOPIC)

    def held() -> dict[str, str | None]:
        return {one.name: one.value for one in topic_settings(fresh.cluster(fresh.offline), TOPIC) if one.source == "topic"}

    eventually(lambda: held().get("retention.ms") == "7200000", what="the settings copied")
    assert held() == {"headrace.mirror": "true", "retention.ms": "7200000", "segment.bytes": "2000000"}
    send(fresh, 10)
    fresh.await_level(TOPIC)
