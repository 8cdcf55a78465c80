import os
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.cluster import Cluster
from headrace.client.delivery import Delivery
from headrace.client.errors import (
    BrokerError,
    BufferFull,
    DeliveryFailed,
    DeliveryTimedOut,
    FlushTimedOut,
    ProducerClosed,
    ProducerForked,
    RecordTooLarge,
    UnsupportedApi,
)
from headrace.client.partitioner import partition_for_key
from headrace.client.producer import Producer
from headrace.wire.compression import Codec
from headrace.wire.errors import ErrorCode
from headrace.wire.record_batch import iter_records, read_header
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE, Fault, ScriptedBroker


@pytest.fixture
def made() -> Iterator[list[Producer]]:
    """Producers that a test makes, ended after it."""
    producers: list[Producer] = []
    yield producers
    for producer in producers:
        try:
            producer.close(timeout_ms=0)
        except (FlushTimedOut, DeliveryFailed):
            pass


def _send(producer: Producer, values: list[bytes], topic: str = "clicks", *, at: int = 1_000) -> None:
    for value in values:
        producer.send(topic, value, timestamp_ms=at)


def _numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_what_is_sent_is_stored_in_order_with_key_time_and_headers(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.send("clicks", b"v", key=b"k", timestamp_ms=123, headers=[("h", b"1"), ("n", None)])
    producer.send("clicks", None, timestamp_ms=124)
    producer.close()
    batch = bytes(broker.topics["clicks"][0].batches[0][1])
    assert [tuple(record)[1:] for record in iter_records(batch)] == [
        (123, b"k", b"v", (("h", b"1"), ("n", None))),
        (124, None, None, ()),
    ]
    assert read_header(batch).producer_id == producer.producer_id == producer.producer_ids[-1] == 101


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_arrives(broker: ScriptedBroker, cluster: Cluster, codec: Codec) -> None:
    producer = Producer(cluster, codec=codec)
    _send(producer, [b"x" * 500] * 20)
    producer.close()
    assert broker.values("clicks", 0) == [b"x" * 500] * 20
    assert read_header(bytes(broker.topics["clicks"][0].batches[0][1])).codec is codec


def test_on_delivery_is_called_once_a_batch_with_where_it_is(cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, on_delivery=told.append, window_ms=100)
    for at in (10, 20, 99, 100, 101):
        producer.send("clicks", b"v", timestamp_ms=at)
    producer.flush()
    assert told == [
        Delivery(topic="clicks", partition=0, base_offset=0, record_count=3, first_timestamp_ms=10, max_timestamp_ms=99),
        Delivery(topic="clicks", partition=0, base_offset=3, record_count=2, first_timestamp_ms=100, max_timestamp_ms=101),
    ]
    producer.close()


def test_an_on_delivery_that_raises_does_not_stop_the_sending(broker: ScriptedBroker, cluster: Cluster) -> None:
    def fail(_: Delivery) -> None:
        raise RuntimeError("not mine")

    producer = Producer(cluster, on_delivery=fail, window_ms=100)
    _send(producer, [b"a"], at=1)
    _send(producer, [b"b"], at=200)
    producer.close()
    assert broker.values("clicks", 0) == [b"a", b"b"]


def test_one_request_carries_one_batch_of_many_partitions(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, linger_ms=60_000)
    for partition in range(3):
        producer.send("views", b"v", partition=partition, timestamp_ms=1)
    producer.flush()
    assert [sorted(request) for request in broker.produced] == [[("views", 0, 1), ("views", 1, 1), ("views", 2, 1)]]
    producer.close()


def test_equal_keys_go_to_one_partition_and_no_keys_to_any(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, batch_bytes=200)
    for number in range(30):
        producer.send("views", b"k%d" % (number % 5), key=b"%d" % (number % 5), timestamp_ms=1)
    producer.flush()
    for number in range(5):
        assert broker.values("views", partition_for_key(b"%d" % number, 3)).count(b"k%d" % number) == 6
    for _ in range(200):
        producer.send("views", b"free", timestamp_ms=1)
    producer.close()
    assert all(b"free" in broker.values("views", partition) for partition in range(3))


def test_nothing_is_asked_of_the_cluster_before_the_first_record(broker: ScriptedBroker, cluster: Cluster) -> None:
    Producer(cluster).close()
    assert broker.requests == []


def test_a_lone_record_goes_out_by_itself_after_the_linger(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, linger_ms=5)
    producer.send("clicks", b"v", timestamp_ms=1)
    eventually(lambda: broker.values("clicks", 0) == [b"v"])
    producer.close()


def test_a_topic_is_made_by_its_first_record_where_the_broker_does_so(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.auto_create = True
    producer = Producer(cluster)
    _send(producer, [b"a", b"b"], "new")
    producer.close()
    assert sorted(value or b"" for value in broker.all_values("new")) == [b"a", b"b"]


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
    sent = _numbers(20)
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
    _send(producer, [b"a"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]
    assert [(one.error, one.base_offset) for one in told] == [(None, 0)]
    assert broker.count(PRODUCE) == 2


def test_when_the_broker_lost_what_it_acknowledged_the_producer_begins_again_and_goes_on(
    broker: ScriptedBroker, cluster: Cluster
) -> None:
    producer = Producer(cluster)
    _send(producer, [b"a"])
    producer.flush()
    _send(producer, [b"b"])
    producer.flush()
    held = broker.topics["clicks"][0]
    # As after a crash of the machine: the last batch, acknowledged, is not in the log, and so its sequence is not known.
    held.batches.pop()
    held.sequences[101, 0], held.last[101, 0], held.next_offset = 1, (0, 0), 1
    _send(producer, [b"c"])
    producer.flush()
    _send(producer, [b"d"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a", b"c", b"d"]
    assert producer.producer_ids == (101, 102)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_forgotten_producer_takes_a_new_id(broker: ScriptedBroker, cluster: Cluster, code: ErrorCode) -> None:
    broker.fail(PRODUCE, Fault(error_code=code))
    producer = Producer(cluster)
    _send(producer, [b"a", b"b"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a", b"b"]
    assert producer.producer_ids == (101, 102)


def test_a_refused_batch_is_given_up_and_those_behind_it_are_not(broker: ScriptedBroker, cluster: Cluster) -> None:
    told: list[Delivery] = []
    broker.fail(PRODUCE, Fault(), Fault(error_code=ErrorCode.POLICY_VIOLATION))
    producer = Producer(cluster, batch_bytes=100, on_delivery=told.append)
    _send(producer, [b"a" * 50, b"b" * 50, b"c" * 50])
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
    _send(producer, [b"a", b"b"])
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
    _send(producer, [b"a", b"b"])
    with pytest.raises(DeliveryFailed, match="2 records"):
        producer.flush()
    assert isinstance(told[0].error, DeliveryTimedOut)
    assert "NOT_ENOUGH_REPLICAS" in str(told[0].error)
    broker.faults[PRODUCE].clear()
    _send(producer, [b"c"])
    producer.close()
    assert broker.values("clicks", 0) == [b"c"]


def test_records_of_an_unknown_topic_are_given_up_in_the_end_and_without_a_partition(cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, delivery_timeout_ms=200, on_delivery=told.append)
    _send(producer, [b"a", b"b"], "nothing")
    with pytest.raises(DeliveryFailed, match="topic 'nothing'"):
        producer.flush()
    assert [(one.partition, one.record_count) for one in told] == [(-1, 2)]
    producer.close()


def test_a_topic_that_is_refused_for_good_fails_at_once(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(METADATA, Fault(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION))
    producer = Producer(cluster)
    _send(producer, [b"a"], "in valid")
    with pytest.raises(DeliveryFailed, match="INVALID_TOPIC_EXCEPTION"):
        producer.flush()
    producer.close()


def test_after_an_unknown_fate_a_late_copy_cannot_take_the_next_batchs_place(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.REQUEST_TIMED_OUT)] * 100)
    producer = Producer(cluster, delivery_timeout_ms=200)
    _send(producer, [b"a"])
    with pytest.raises(DeliveryFailed):
        producer.flush()
    broker.faults[PRODUCE].clear()
    _send(producer, [b"b"])
    producer.close()
    assert producer.producer_ids == (101, 102)
    assert read_header(bytes(broker.topics["clicks"][0].batches[0][1])).producer_id == 102


def test_a_full_buffer_blocks_for_so_long_and_then_refuses(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1_000)
    producer = Producer(cluster, buffer_bytes=2_000, max_block_ms=50)
    taken = 2_000 // 124
    _send(producer, [b"x" * 100] * taken)
    with pytest.raises(BufferFull, match=r"buffer \(2000 bytes\) stayed full for 50 ms"):
        producer.send("clicks", b"x" * 100, timestamp_ms=1)
    with pytest.raises(BufferFull, match="full for 0 ms"):
        producer.send("clicks", b"x" * 100, timestamp_ms=1, max_block_ms=0)
    broker.faults[PRODUCE].clear()
    producer.flush()
    producer.send("clicks", b"last", timestamp_ms=1)
    producer.close()
    assert len(broker.values("clicks", 0)) == taken + 1


def test_a_sender_that_blocks_goes_on_when_there_is_room_again(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, buffer_bytes=1_000, linger_ms=1, max_block_ms=10_000)
    threads = [threading.Thread(target=_send, args=(producer, [b"x" * 100] * 100)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.close()
    assert len(broker.values("clicks", 0)) == 400


def test_a_record_that_can_never_fit_is_refused(cluster: Cluster, made: list[Producer]) -> None:
    made.append(Producer(cluster, buffer_bytes=1_000))
    with pytest.raises(RecordTooLarge, match="above buffer_bytes=1000"):
        made[0].send("clicks", b"x" * 1_001, timestamp_ms=1)


def test_flush_waits_for_what_was_sent_before_it_and_for_nothing_later(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, linger_ms=60_000)
    _send(producer, [b"a"])
    producer.flush()
    stop = threading.Event()

    def keep_sending() -> None:
        while not stop.is_set():
            producer.send("clicks", b"more", timestamp_ms=1)
            time.sleep(0.001)

    other = threading.Thread(target=keep_sending)
    other.start()
    producer.flush(timeout_ms=5_000)
    stop.set()
    other.join()
    producer.close()
    assert broker.values("clicks", 0)[0] == b"a"


def test_flush_of_nothing_returns_at_once(cluster: Cluster, made: list[Producer]) -> None:
    made.append(Producer(cluster))
    made[0].flush(timeout_ms=0)


def test_close_gives_up_what_is_not_acknowledged_in_time_and_says_so() -> None:
    told: list[Delivery] = []
    producer = Producer(Cluster(f"127.0.0.1:{free_port()}"), on_delivery=told.append)
    _send(producer, [b"a", b"b", b"c"])
    with pytest.raises(FlushTimedOut):
        producer.close(timeout_ms=100)
    assert sum(one.record_count for one in told if isinstance(one.error, ProducerClosed)) == 3
    with pytest.raises(ProducerClosed):
        _send(producer, [b"d"])
    producer.close()
    assert producer.held_records == 0


def test_close_ends_a_sender_that_waits_for_a_silent_broker(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(PRODUCE, Fault(delay_ms=10_000))
    producer = Producer(cluster)
    _send(producer, [b"a"])
    eventually(lambda: broker.count(PRODUCE) == 1)
    with pytest.raises(FlushTimedOut):
        producer.close(timeout_ms=50)
    assert not any("sender" in thread.name and thread.is_alive() for thread in [producer._thread] if thread)


def test_a_broker_that_never_answers_is_asked_again_after_the_request_timeout(broker: ScriptedBroker) -> None:
    cluster = Cluster(broker.address, request_timeout_ms=150)
    broker.fail(PRODUCE, Fault(delay_ms=600))
    producer = Producer(cluster)
    _send(producer, [b"a"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]
    assert broker.count(PRODUCE) >= 2
    cluster.close()


def test_without_idempotence_no_producer_id_is_asked_for(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, idempotent=False)
    _send(producer, [b"a"])
    producer.close()
    assert broker.count(INIT_PRODUCER_ID) == 0
    assert producer.producer_id == -1
    header = read_header(bytes(broker.topics["clicks"][0].batches[0][1]))
    assert (header.producer_id, header.base_sequence) == (-1, -1)


def test_a_broker_without_producer_ids_is_a_clear_failure(broker: ScriptedBroker, cluster: Cluster) -> None:
    del broker.served[INIT_PRODUCER_ID]
    producer = Producer(cluster)
    with pytest.raises(UnsupportedApi, match="InitProducerId"):
        producer.identify(timeout_ms=1_000)
    _send(producer, [b"a"])
    with pytest.raises(DeliveryFailed, match=r"InitProducerId .* does not serve it"):
        producer.flush()
    producer.close()


def test_identify_gives_the_id_that_the_first_batch_carries(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(INIT_PRODUCER_ID, Fault(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE), Fault(close_before=True))
    producer = Producer(cluster)
    assert producer.producer_id == -1
    assert producer.identify() == 101 == producer.identify()
    _send(producer, [b"a"])
    producer.close()
    assert read_header(bytes(broker.topics["clicks"][0].batches[0][1])).producer_id == 101


def test_identify_gives_up_in_the_end(broker: ScriptedBroker, cluster: Cluster, made: list[Producer]) -> None:
    broker.fail(INIT_PRODUCER_ID, *[Fault(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 100)
    made.append(Producer(cluster))
    with pytest.raises(BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
        made[0].identify(timeout_ms=100)


def test_a_held_producer_sends_nothing_until_it_is_released(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, is_held=True, linger_ms=0)
    _send(producer, [b"a"])
    with pytest.raises(FlushTimedOut):
        producer.flush(timeout_ms=100)
    assert broker.count(PRODUCE) == 0
    producer.release()
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]


def test_a_producer_is_of_no_use_after_a_fork(cluster: Cluster, made: list[Producer]) -> None:
    made.append(Producer(cluster))
    _send(made[0], [b"a"])
    made[0].flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            made[0].send("clicks", b"b", timestamp_ms=1)
        except ProducerForked as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"make a new one after the fork" in os.read(reading, 1_000)


def test_a_fault_of_our_own_is_not_the_end_of_the_thread(
    broker: ScriptedBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer(cluster)
    real, failed = cluster.partitions, []

    def once(*args: object, **named: object) -> list[int]:
        if not failed:
            failed.append(1)
            raise RuntimeError("a fault of ours")
        return real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster, "partitions", once)
    _send(producer, [b"a"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]
    assert broker.count(API_VERSIONS) >= 1


def test_a_flush_that_gives_up_waiting_names_what_the_latest_try_met(made: list[Producer]) -> None:
    address = f"127.0.0.1:{free_port()}"
    producer = Producer(Cluster(address))
    made.append(producer)
    _send(producer, [b"v"])
    eventually(lambda: producer._sender.last_error is not None, what="a try that failed")
    with pytest.raises(FlushTimedOut, match=f"the latest try: connect to broker {address} failed: Connection refused"):
        producer.flush(timeout_ms=10)


def test_many_batches_given_up_for_one_reason_are_one_line_and_every_one_of_them_is_handed_back(
    broker: ScriptedBroker, cluster: Cluster, made: list[Producer], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, window_ms=10, linger_ms=0, on_delivery=told.append)
    made.append(producer)
    broker.fail(METADATA, *[Fault(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)] * 100)
    for at in range(0, 1_000, 10):
        producer.send("no topic!", b"v", timestamp_ms=at)
    with pytest.raises(DeliveryFailed, match="INVALID_TOPIC_EXCEPTION"):
        producer.flush()
    assert sum(delivery.record_count for delivery in told) == 100
    given_up = [record for record in caplog.records if record.getMessage().startswith("batch_given_up")]
    assert len(given_up) == 1
