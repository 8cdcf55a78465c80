"""What a producer says became of each batch, and under which numbers it may be in the log, against what the broker holds."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import DeliveryFailed, FlushTimedOut
from headrace.client.producer.delivery import BatchNumbers, Delivery, DeliveryEnd
from headrace.client.producer.producer import Producer
from headrace.wire.batch.record_batch import BatchHeader, iter_records, read_header
from headrace.wire.errors import ErrorCode
from tests.support.processes import eventually
from tests.support.scripted_broker import PRODUCE, Fault, ScriptedBroker
from tests.unit.client.sending import numbers, send


def _named(header: BatchHeader) -> BatchNumbers:
    return BatchNumbers(header.producer_id, header.producer_epoch, header.base_sequence, header.crc)


def _stored(broker: ScriptedBroker) -> list[BatchHeader]:
    return [read_header(bytes(batch)) for _, batch in broker.topics["clicks"][0].batches]


def _ends(told: list[Delivery]) -> list[tuple[DeliveryEnd, tuple[BatchNumbers, ...]]]:
    return [(one.end, one.numbers) for one in told]


def test_an_acknowledged_batch_is_named_as_the_log_holds_it(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, on_delivery=told.append)
    for values in ([b"a", b"b"], [b"c"]):
        send(producer, values)
        producer.flush()
    producer.close()
    first, second = _stored(broker)
    assert _ends(told) == [(DeliveryEnd.ACKNOWLEDGED, (_named(first),)), (DeliveryEnd.ACKNOWLEDGED, (_named(second),))]
    assert [one.numbers[0].first_sequence for one in told] == [0, 2]


def test_without_idempotence_a_batch_has_no_numbers(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, idempotent=False, on_delivery=told.append)
    send(producer, [b"a"])
    producer.close()
    assert _ends(told) == [(DeliveryEnd.ACKNOWLEDGED, ())]


def test_a_refused_batch_is_nowhere_and_the_next_takes_its_numbers(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(), Fault(error_code=ErrorCode.POLICY_VIOLATION))
    producer = Producer(cluster, batch_bytes=100, on_delivery=told.append)
    send(producer, [b"a" * 50, b"b" * 50, b"c" * 50])
    with pytest.raises(DeliveryFailed):
        producer.flush()
    producer.close()
    first, third = _stored(broker)
    assert _ends(told) == [
        (DeliveryEnd.ACKNOWLEDGED, (_named(first),)),
        (DeliveryEnd.REFUSED, ()),
        (DeliveryEnd.ACKNOWLEDGED, (_named(third),)),
    ]
    assert (first.base_sequence, third.base_sequence) == (0, 1)


def test_a_batch_that_every_response_put_off_is_refused(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)] * 100)
    producer = Producer(cluster, delivery_timeout_ms=300, on_delivery=told.append)
    send(producer, [b"a"])
    with pytest.raises(DeliveryFailed):
        producer.flush()
    assert _ends(told) == [(DeliveryEnd.REFUSED, ())]
    producer.close()


def test_a_batch_that_is_refused_after_a_send_without_a_response_may_be_stored(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(close_after=True), Fault(error_code=ErrorCode.POLICY_VIOLATION))
    producer = Producer(cluster, on_delivery=told.append)
    send(producer, [b"a"])
    with pytest.raises(DeliveryFailed):
        producer.flush()
    (stored,) = _stored(broker)
    assert _ends(told) == [(DeliveryEnd.UNCERTAIN, (_named(stored),))]
    producer.close()


def test_records_that_never_left_are_never_sent(cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, delivery_timeout_ms=200, on_delivery=told.append)
    send(producer, [b"a", b"b"], "nothing")
    with pytest.raises(DeliveryFailed):
        producer.flush()
    # One batch, or two where the first was given up before the second record came.
    assert set(_ends(told)) == {(DeliveryEnd.NEVER_SENT, ())}
    assert sum(one.record_count for one in told) == 2
    producer.close()


def test_a_batch_in_flight_when_the_producer_is_closed_may_be_stored(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(delay_ms=200, close_after=True))
    producer = Producer(cluster, on_delivery=told.append)
    send(producer, [b"a"])
    eventually(lambda: broker.count(PRODUCE) == 1)
    with pytest.raises(FlushTimedOut):
        producer.close(timeout_ms=0)
    eventually(lambda: len(_stored(broker)) == 1)
    assert _ends(told) == [(DeliveryEnd.UNCERTAIN, (_named(_stored(broker)[0]),))]


def test_a_batch_sent_again_under_another_id_is_named_under_both_if_the_first_send_had_no_response(
    broker: ScriptedBroker, cluster: Cluster
) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, on_delivery=told.append)
    send(producer, [b"a"])
    producer.flush()
    broker.fail(PRODUCE, Fault(close_after=True), Fault(forgets_producers=True))
    send(producer, [b"b"])
    producer.close()
    first, twice, again = _stored(broker)
    assert broker.values("clicks", 0) == [b"a", b"b", b"b"], "the broker's fault, which the numbers make visible"
    assert _ends(told) == [
        (DeliveryEnd.ACKNOWLEDGED, (_named(first),)),
        (DeliveryEnd.ACKNOWLEDGED, (_named(twice), _named(again))),
    ]
    assert [header.producer_id for header in (first, twice, again)] == [101, 101, 102]


def test_numbers_that_the_broker_excluded_at_once_are_not_named(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(error_code=ErrorCode.UNKNOWN_PRODUCER_ID))
    producer = Producer(cluster, on_delivery=told.append)
    send(producer, [b"a"])
    producer.close()
    assert _ends(told) == [(DeliveryEnd.ACKNOWLEDGED, (_named(_stored(broker)[0]),))]
    assert producer.producer_ids == (101, 102)


def test_a_batch_given_up_under_its_next_numbers_may_stand_under_the_first(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, on_delivery=told.append)
    send(producer, [b"a"])
    producer.flush()
    refused = Fault(error_code=ErrorCode.POLICY_VIOLATION)
    broker.fail(
        PRODUCE, Fault(close_after=True), Fault(forgets_producers=True, error_code=ErrorCode.UNKNOWN_PRODUCER_ID), refused
    )
    send(producer, [b"b"])
    with pytest.raises(DeliveryFailed):
        producer.flush()
    assert _ends(told)[1:] == [(DeliveryEnd.UNCERTAIN, (_named(_stored(broker)[1]),))]
    producer.close()


FAULTS = st.sampled_from(
    [
        Fault(),
        Fault(),
        Fault(close_before=True),
        Fault(close_after=True),
        Fault(cut_at=6),
        Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Fault(error_code=ErrorCode.REQUEST_TIMED_OUT),
        Fault(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        Fault(error_code=ErrorCode.POLICY_VIOLATION),
        Fault(forgets_producers=True),
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(FAULTS, max_size=8), delivery_timeout_ms=st.sampled_from([100, 5_000]))
def test_each_batch_ends_once_and_all_that_is_stored_is_named_once(faults: list[Fault], delivery_timeout_ms: int) -> None:
    """The broker may forget its producers: a batch may then be stored twice, under two numbers of one delivery or under one."""
    broker = ScriptedBroker({"clicks": 1})
    broker.fail(PRODUCE, *faults)
    cluster = Cluster(broker.address, request_timeout_ms=2_000)
    told: list[Delivery] = []
    producer = Producer(cluster, batch_bytes=150, linger_ms=1, delivery_timeout_ms=delivery_timeout_ms, on_delivery=told.append)
    send(producer, numbers(25))
    try:
        producer.close()
    except DeliveryFailed:
        pass
    cluster.close()
    broker.close()
    assert sum(one.record_count for one in told) == 25
    named = Counter(name for one in told for name in one.numbers)
    assert set(named.values()) <= {1}, "no numbers are said of two batches"
    batches = [bytes(batch) for _, batch in broker.topics["clicks"][0].batches]
    stored = {_named(read_header(batch)) for batch in batches}
    assert stored <= set(named), "all that the log holds is named"
    for one in told:
        assert (one.error is None) == (one.end is DeliveryEnd.ACKNOWLEDGED)
        assert bool(one.numbers) == (one.end in (DeliveryEnd.ACKNOWLEDGED, DeliveryEnd.UNCERTAIN))
        if one.end is DeliveryEnd.ACKNOWLEDGED:
            assert one.numbers[-1] in stored
    lost = sum(one.record_count for one in told if one.end in (DeliveryEnd.REFUSED, DeliveryEnd.NEVER_SENT))
    values = {record.value for batch in batches for record in iter_records(batch)}
    assert len(values) <= 25 - lost
