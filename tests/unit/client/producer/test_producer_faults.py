"""The producer through faults of the broker: each record is stored once and in order, or given up with the reason."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import (
    BrokerError,
    DeliveryFailed,
    DeliveryTimedOut,
    FlushTimedOut,
)
from headrace.client.producer.delivery import Delivery
from headrace.client.producer.producer import Producer
from headrace.wire.batch.record_batch import read_header
from headrace.wire.errors import ErrorCode
from tests.support.scripted_broker import METADATA, PRODUCE, Fault, ScriptedBroker
from tests.unit.client.sending import numbers, send

FAULTS = st.sampled_from(
    [
        Fault(),
        Fault(close_before=True),
        Fault(close_after=True),
        Fault(cut_at=6),
        Fault(wrong_correlation_id=True),
        Fault(garbage=True),
        Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Fault(error_code=ErrorCode.REQUEST_TIMED_OUT),
        Fault(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
        Fault(error_code=ErrorCode.KAFKA_STORAGE_ERROR),
    ]
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FAULTS, max_size=4), st.lists(st.sampled_from([Fault(), Fault(close_before=True), Fault(cut_at=3)]), max_size=2))
def test_through_any_passing_faults_each_record_is_stored_once_and_in_order(produce: list[Fault], metadata: list[Fault]) -> None:
    broker = ScriptedBroker({"clicks": 1, "views": 3})
    broker.fail(PRODUCE, *produce)
    broker.fail(METADATA, *metadata)
    cluster = Cluster(broker.address)
    producer = Producer(cluster, batch_bytes=150, linger_ms=1)
    sent = numbers(20)
    for number, value in enumerate(sent):
        producer.send("clicks", value, timestamp_ms=1)
        producer.send("views", value, partition=number % 3, timestamp_ms=1)
    producer.close()
    cluster.close()
    broker.close()
    assert broker.values("clicks", 0) == sent
    assert [broker.values("views", partition) for partition in range(3)] == [sent[partition::3] for partition in range(3)]


def test_a_duplicate_answer_is_an_acknowledgement(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(close_after=True))
    producer = Producer(cluster, on_delivery=told.append)
    send(producer, [b"a"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]
    assert [(one.error, one.base_offset) for one in told] == [(None, 0)]
    assert broker.count(PRODUCE) == 2


def test_when_the_broker_lost_what_it_acknowledged_the_producer_begins_again_and_goes_on(
    broker: ScriptedBroker, cluster: Cluster
) -> None:
    producer = Producer(cluster)
    send(producer, [b"a"])
    producer.flush()
    send(producer, [b"b"])
    producer.flush()
    held = broker.topics["clicks"][0]
    # As after a crash of the machine: the last batch, acknowledged, is not in the log, and so its sequence is not known.
    held.batches.pop()
    held.sequences[101, 0], held.last[101, 0], held.next_offset = 1, (0, 0), 1
    send(producer, [b"c"])
    producer.flush()
    send(producer, [b"d"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a", b"c", b"d"]
    assert producer.producer_ids == (101, 102)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_forgotten_producer_takes_a_new_id(broker: ScriptedBroker, cluster: Cluster, code: ErrorCode) -> None:
    broker.fail(PRODUCE, Fault(error_code=code))
    producer = Producer(cluster)
    send(producer, [b"a", b"b"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a", b"b"]
    assert producer.producer_ids == (101, 102)


def test_a_refused_batch_is_given_up_and_those_behind_it_are_not(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(), Fault(error_code=ErrorCode.POLICY_VIOLATION))
    producer = Producer(cluster, batch_bytes=100, on_delivery=told.append)
    send(producer, [b"a" * 50, b"b" * 50, b"c" * 50])
    with pytest.raises(DeliveryFailed, match=r"1 records were given up.*POLICY_VIOLATION.*mirrored") as caught:
        producer.flush()
    assert isinstance(caught.value.first, BrokerError)
    producer.flush()
    producer.close()
    assert broker.values("clicks", 0) == [b"a" * 50, b"c" * 50]
    assert [one.error is None for one in told] == [True, False, True]


def test_records_wait_for_a_broker_that_is_not_there_yet() -> None:
    broker = ScriptedBroker({"clicks": 1})
    port = broker.port
    broker.close()
    cluster = Cluster(f"127.0.0.1:{port}")
    producer = Producer(cluster)
    send(producer, [b"a", b"b"])
    with pytest.raises(FlushTimedOut, match="2 records still wait"):
        producer.flush(timeout_ms=100)
    broker = ScriptedBroker({"clicks": 1}, port=port)
    producer.flush()
    assert broker.values("clicks", 0) == [b"a", b"b"]
    producer.close()
    broker.close()


def test_a_batch_whose_time_is_over_is_given_up_with_the_last_answer(cluster: Cluster, broker: ScriptedBroker) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)] * 100)
    producer = Producer(cluster, delivery_timeout_ms=300, on_delivery=told.append)
    send(producer, [b"a", b"b"])
    with pytest.raises(DeliveryFailed, match="2 records"):
        producer.flush()
    assert isinstance(told[0].error, DeliveryTimedOut)
    assert "NOT_ENOUGH_REPLICAS" in str(told[0].error)
    broker.faults[PRODUCE].clear()
    send(producer, [b"c"])
    producer.close()
    assert broker.values("clicks", 0) == [b"c"]


def test_records_of_an_unknown_topic_are_given_up_in_the_end_and_without_a_partition(cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, delivery_timeout_ms=200, on_delivery=told.append)
    send(producer, [b"a", b"b"], "nothing")
    with pytest.raises(DeliveryFailed, match="topic 'nothing'"):
        producer.flush()
    assert [(one.partition, one.record_count) for one in told] == [(-1, 2)]
    producer.close()


def test_a_topic_that_is_refused_for_good_fails_at_once(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(METADATA, Fault(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION))
    producer = Producer(cluster)
    send(producer, [b"a"], "in valid")
    with pytest.raises(DeliveryFailed, match="INVALID_TOPIC_EXCEPTION"):
        producer.flush()
    producer.close()


def test_after_an_unknown_fate_a_late_copy_cannot_take_the_next_batchs_place(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.REQUEST_TIMED_OUT)] * 100)
    producer = Producer(cluster, delivery_timeout_ms=200)
    send(producer, [b"a"])
    with pytest.raises(DeliveryFailed):
        producer.flush()
    broker.faults[PRODUCE].clear()
    send(producer, [b"b"])
    producer.close()
    assert producer.producer_ids == (101, 102)
    assert read_header(bytes(broker.topics["clicks"][0].batches[0][1])).producer_id == 102
