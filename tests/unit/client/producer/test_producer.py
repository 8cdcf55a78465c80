import os
import threading
import time

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import (
    BrokerError,
    BufferFull,
    DeliveryFailed,
    FlushTimedOut,
    ProducerClosed,
    ProducerForked,
    RecordTooLarge,
    UnsupportedApi,
)
from headrace.client.producer.delivery import Delivery
from headrace.client.producer.partitioner import partition_for_key
from headrace.client.producer.producer import Producer
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_records, read_header
from headrace.wire.errors import ErrorCode
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE, Fault, ScriptedBroker
from tests.unit.client.sending import send


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
    send(producer, [b"x" * 500] * 20)
    producer.close()
    assert broker.values("clicks", 0) == [b"x" * 500] * 20
    assert read_header(bytes(broker.topics["clicks"][0].batches[0][1])).codec is codec


def test_on_delivery_is_called_once_a_batch_with_where_it_is(cluster: Cluster) -> None:
    told: list[Delivery] = []
    producer = Producer(cluster, on_delivery=told.append, window_ms=100)
    for at in (10, 20, 99, 100, 101):
        producer.send("clicks", b"v", timestamp_ms=at)
    producer.flush()
    assert [(one.topic, one.partition, one.base_offset, one.record_count, one.error) for one in told] == [
        ("clicks", 0, 0, 3, None),
        ("clicks", 0, 3, 2, None),
    ]
    assert [(one.first_timestamp_ms, one.max_timestamp_ms) for one in told] == [(10, 99), (100, 101)]
    producer.close()


def test_an_on_delivery_that_raises_does_not_stop_the_sending(broker: ScriptedBroker, cluster: Cluster) -> None:
    def fail(_: Delivery) -> None:
        raise RuntimeError("not mine")

    producer = Producer(cluster, on_delivery=fail, window_ms=100)
    send(producer, [b"a"], at=1)
    send(producer, [b"b"], at=200)
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
    send(producer, [b"a", b"b"], "new")
    producer.close()
    assert sorted(value or b"" for value in broker.all_values("new")) == [b"a", b"b"]


def test_a_full_buffer_blocks_for_so_long_and_then_refuses(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1_000)
    producer = Producer(cluster, buffer_bytes=2_000, max_block_ms=50)
    taken = 2_000 // 124
    send(producer, [b"x" * 100] * taken)
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
    threads = [threading.Thread(target=send, args=(producer, [b"x" * 100] * 100)) for _ in range(4)]
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
    send(producer, [b"a"])
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
    send(producer, [b"a", b"b", b"c"])
    with pytest.raises(FlushTimedOut):
        producer.close(timeout_ms=100)
    assert sum(one.record_count for one in told if isinstance(one.error, ProducerClosed)) == 3
    with pytest.raises(ProducerClosed):
        send(producer, [b"d"])
    producer.close()
    assert producer.held_records == 0


def test_close_ends_a_sender_that_waits_for_a_silent_broker(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(PRODUCE, Fault(delay_ms=10_000))
    producer = Producer(cluster)
    send(producer, [b"a"])
    eventually(lambda: broker.count(PRODUCE) == 1)
    with pytest.raises(FlushTimedOut):
        producer.close(timeout_ms=50)
    assert not any("sender" in thread.name and thread.is_alive() for thread in [producer._thread] if thread)


def test_a_broker_that_never_answers_is_asked_again_after_the_request_timeout(broker: ScriptedBroker) -> None:
    cluster = Cluster(broker.address, request_timeout_ms=150)
    broker.fail(PRODUCE, Fault(delay_ms=600))
    producer = Producer(cluster)
    send(producer, [b"a"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]
    assert broker.count(PRODUCE) >= 2
    cluster.close()


def test_without_idempotence_no_producer_id_is_asked_for(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, idempotent=False)
    send(producer, [b"a"])
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
    send(producer, [b"a"])
    with pytest.raises(DeliveryFailed, match=r"InitProducerId .* does not serve it"):
        producer.flush()
    producer.close()


def test_identify_gives_the_id_that_the_first_batch_carries(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(INIT_PRODUCER_ID, Fault(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE), Fault(close_before=True))
    producer = Producer(cluster)
    assert producer.producer_id == -1
    assert producer.identify() == 101 == producer.identify()
    send(producer, [b"a"])
    producer.close()
    assert read_header(bytes(broker.topics["clicks"][0].batches[0][1])).producer_id == 101


def test_identify_gives_up_in_the_end(broker: ScriptedBroker, cluster: Cluster, made: list[Producer]) -> None:
    broker.fail(INIT_PRODUCER_ID, *[Fault(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 100)
    made.append(Producer(cluster))
    with pytest.raises(BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
        made[0].identify(timeout_ms=100)


def test_a_held_producer_sends_nothing_until_it_is_released(broker: ScriptedBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, is_held=True, linger_ms=0)
    send(producer, [b"a"])
    with pytest.raises(FlushTimedOut):
        producer.flush(timeout_ms=100)
    assert broker.count(PRODUCE) == 0
    producer.release()
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]


def test_a_producer_is_of_no_use_after_a_fork(cluster: Cluster, made: list[Producer]) -> None:
    made.append(Producer(cluster))
    send(made[0], [b"a"])
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
    send(producer, [b"a"])
    producer.close()
    assert broker.values("clicks", 0) == [b"a"]
    assert broker.count(API_VERSIONS) >= 1


def test_a_flush_that_gives_up_waiting_names_what_the_latest_try_met(made: list[Producer]) -> None:
    address = f"127.0.0.1:{free_port()}"
    producer = Producer(Cluster(address))
    made.append(producer)
    send(producer, [b"v"])
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
