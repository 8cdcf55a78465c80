"""The faults that drills plant in a stopped broker's files: after its start, a foreign client reads just what was meant."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import StoredBatch, damage, stored_batches
from tests.support.broker import BrokerProcess

Fault = Callable[[list[StoredBatch]], object]
VALUES = [f"event {number:02}".encode() for number in range(12)]


def write(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "enable.idempotence": True})
    for value in VALUES:
        producer.produce(topic, value, partition=0)
        assert producer.flush(20) == 0, "one batch a record"


def read(broker: BrokerProcess, topic: str) -> list[tuple[int, bytes]]:
    """Return offset and value of every record, in the order in which they came."""
    settings = {"bootstrap.servers": broker.address, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(20)
        assert message is not None, f"nothing came after {found[-1:]}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return found
        found.append((message.offset(), message.value()))


def after(broker: BrokerProcess, topic: str, *faults: Fault) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """Write the values, plant the faults one after the other, return what is read before and after."""
    write(broker, topic)
    before = read(broker, topic)
    assert [value for _, value in before] == VALUES
    assert broker.stop() == 0
    for fault in faults:
        stored = stored_batches(broker.data, topic)
        fault(stored)
    broker.restart()
    return before, read(broker, topic)


def test_a_batch_cut_out_is_gone_and_every_other_keeps_its_offset(broker: BrokerProcess, topic: str) -> None:
    before, left = after(broker, topic, lambda stored: log_surgery.cut_out(stored[5]))
    assert left == [*before[:5], *before[6:]]
    write(broker, topic)
    assert [value for _, value in read(broker, topic)[len(left) :]] == VALUES, "and the log goes on"


def test_the_first_batch_cut_out_leaves_a_log_that_begins_later(broker: BrokerProcess, topic: str) -> None:
    before, left = after(broker, topic, lambda stored: log_surgery.cut_out(stored[0]))
    assert left == before[1:]


def test_a_batch_appended_again_stands_at_the_end_under_a_new_offset(broker: BrokerProcess, topic: str) -> None:
    firsts: list[int] = []
    before, left = after(broker, topic, lambda stored: firsts.append(log_surgery.append_again(stored[3], stored)))
    assert left == [*before, (firsts[0], VALUES[3])]


def test_a_batch_altered_with_its_crc_made_right_is_read_without_complaint(broker: BrokerProcess, topic: str) -> None:
    before, left = after(broker, topic, lambda stored: log_surgery.alter(stored[7], b"event 07", b"event 7x"))
    assert left == [*before[:7], (before[7][0], b"event 7x"), *before[8:]]


def test_a_middle_segment_gone_is_a_hole_between_two_others(broker: BrokerProcess, topic: str) -> None:
    before, left = after(
        broker,
        topic,
        lambda stored: log_surgery.split_before(stored[4]),
        lambda stored: log_surgery.split_before(stored[8]),
        lambda stored: log_surgery.remove_segment(stored[4].path),
    )
    assert left == [*before[:4], *before[8:]]


def test_a_damaged_batch_is_served_to_nobody(broker: BrokerProcess, topic: str) -> None:
    before, left = after(broker, topic, lambda stored: damage(stored[6]))
    assert left == [*before[:6], *before[7:]]


def test_two_faults_in_one_log(broker: BrokerProcess, topic: str) -> None:
    before, left = after(
        broker,
        topic,
        lambda stored: log_surgery.append_again(stored[2], stored),
        lambda stored: log_surgery.cut_out(stored[9]),
    )
    assert left[:-1] == [*before[:9], *before[10:]]
    assert left[-1][1] == VALUES[2]
