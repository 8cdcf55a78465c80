"""A leader that was frozen while another one took over never tells a reader that what was committed is out of range."""

import os
import signal
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.wire.errors import ErrorCode
from headrace.wire.messages import fetch
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, fetch_body, fetched

FAR = 1 << 40


@pytest.fixture
def frozen(whole: BrokerCluster) -> Iterator[list[int]]:
    """Process ids that SIGSTOP holds. They are let go when the test has ended."""
    held: list[int] = []
    yield held
    for pid in held:
        os.kill(pid, signal.SIGCONT)


def sent(address: str, topic: str, count: int) -> int:
    """Send so many values; return the offset behind the last one."""
    ends: list[int] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda _, message: ends.append(message.offset() + 1))
    assert producer.flush(60) == 0
    return max(ends)


def test_a_leader_that_wakes_up_does_not_call_committed_records_out_of_range(whole: BrokerCluster, frozen: list[int]) -> None:
    """It did: readers that send no leader epoch (kafka-python, Sarama) then began at the log's start or end. The request waits in
    its socket, so it is answered before ZooKeeper's news is read.
    """
    topic = f"t_{uuid.uuid4().hex[:8]}"
    whole.create(topic)
    end = sent(whole.address, topic, 20)
    old = whole.leader(topic)
    with RawClient(whole.brokers[old].port, timeout_ms=60_000) as reader:
        assert reader.fetch(topic, end).error_code == 0
        beyond = fetched(12, reader.request(fetch.API_KEY, 12, fetch_body([(topic, 0, FAR)])))
        assert beyond[topic, 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "a leader that is sure of it says so"
        pid = whole.brokers[old].pid
        os.kill(pid, signal.SIGSTOP)
        frozen.append(pid)
        others = ",".join(broker.address for one, broker in whole.brokers.items() if one != old)
        eventually(lambda: whole.leader(topic) not in (-1, old), within_ms=60_000, what="another leader")
        committed = sent(others, topic, 20)
        assert committed > end
        for session_epoch in (-1, 0):
            wanted = fetch.FetchTopic(topic, [fetch.FetchPartition(0, committed, 1 << 20)])
            request = fetch.FetchRequest(0, 1, 1 << 20, [wanted], session_epoch=session_epoch)
            reader.send(fetch.API_KEY, 12, fetch.encode_request(12, request))
        frozen.remove(pid)
        os.kill(pid, signal.SIGCONT)
        for _ in range(2):
            _, body = reader.receive(fetch.API_KEY, 12)
            (answer,) = fetch.decode_response(12, body).topics[0].partitions
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode(answer.error_code).name
    whole.await_in_sync(topic, 3, within_ms=60_000)
