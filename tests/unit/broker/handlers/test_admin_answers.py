"""DescribeCluster, DescribeLogDirs, leader epochs, DeleteRecords; SASL is refused. Real sockets and logs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2, "held": (1, {"flush.ms": "600000"})}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def deleted(client: RawClient, topic: str, offset: int, version: int = 2, partition: int = 0) -> Any:
    wanted = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    (answer,) = client.ask(21, version, {"topics": [wanted], "timeout_ms": 5_000}).topics
    (one,) = answer.partitions
    return one.error_code, one.low_watermark


# -- the cluster ----------------------------------------


@pytest.mark.parametrize("version", range(2))
def test_the_cluster_is_described_in_each_version(broker: ServingBroker, client: RawClient, version: int) -> None:
    answer = client.ask(60, version, {"include_cluster_authorized_operations": False})
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "test", 1)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", broker.port)]


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_who_asks_for_controllers_is_told_that_this_is_a_broker(client: RawClient, endpoint: int, code: ErrorCode) -> None:
    answer = client.ask(60, 1, {"include_cluster_authorized_operations": False, "endpoint_type": endpoint})
    assert (answer.error_code, list(answer.brokers)) == (code, [])
    assert answer.error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_the_size_of_each_partition_and_the_room_on_the_disk_are_told_in_each_version(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    sent = batch(b"x" * 100)
    assert client.produce("clicks", sent, partition=1).error_code == 0
    (result,) = client.ask(35, version, {"topics": None}).results
    sizes = {(topic.name, one.partition_index): one.partition_size for topic in result.topics for one in topic.partitions}
    assert sizes == {("clicks", 0): 0, ("clicks", 1): len(sent), ("held", 0): 0}
    assert (result.error_code, result.log_dir) == (0, str(broker.settings.data))
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes


def test_only_the_partitions_asked_for_and_kept_here_are_told(client: RawClient) -> None:
    topics = [{"topic": "clicks", "partitions": [1, 1, 7]}, {"topic": "nowhere", "partitions": [0]}]
    (result,) = client.ask(35, 4, {"topics": topics}).results
    assert [(one.name, [part.partition_index for part in one.partitions]) for one in result.topics] == [("clicks", [1])]


# -- leader epochs ----------------------------------------


@pytest.mark.parametrize("version", range(2, 5))
def test_the_only_epoch_ends_at_the_log_end_in_each_version(broker: ServingBroker, client: RawClient, version: int) -> None:
    assert client.produce("clicks", batch(b"one")).error_code == 0
    asked = [("clicks", 0, -1, 0), ("clicks", 0, 0, 0), ("clicks", 0, -1, 1), ("clicks", 0, 5, 0), ("clicks", 9, -1, 0)]
    end = broker.partition("clicks").log.log_end_offset
    found = []
    for topic, partition, current, epoch in asked:
        wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        (answer,) = client.ask(23, version, {"replica_id": -1, "topics": [{"topic": topic, "partitions": [wanted]}]}).topics
        (one,) = answer.partitions
        found.append((ErrorCode(int(one.error_code)), one.leader_epoch, one.end_offset))
    assert found == [
        (ErrorCode.NONE, 0, end),
        (ErrorCode.NONE, 0, end),
        (ErrorCode.NONE, -1, -1),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]


# -- the head of a log ----------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_are_deleted_in_each_version(broker: ServingBroker, client: RawClient, version: int) -> None:
    offsets = [client.produce("clicks", batch(b"one", b"two")).base_offset for _ in range(3)]
    assert deleted(client, "clicks", offsets[1] + 1, version) == (0, offsets[1] + 1)
    assert deleted(client, "clicks", offsets[0], version) == (0, offsets[1] + 1)
    assert client.fetch("clicks", offsets[0]).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch("clicks", offsets[1] + 1).error_code == 0


def test_minus_one_deletes_up_to_the_high_watermark_and_appends_go_on_behind_it(broker: ServingBroker, client: RawClient) -> None:
    client.produce("clicks", batch(b"one"))
    end = broker.partition("clicks").high_watermark
    assert deleted(client, "clicks", -1) == (0, end)
    assert client.produce("clicks", batch(b"two")).base_offset == end + len(batch(b"two")) - 1
    assert client.fetch("clicks", end).records is not None


@pytest.mark.parametrize("offset", [-2, -(2**63), 1 << 40])
def test_an_offset_that_is_not_there_is_refused(client: RawClient, offset: int) -> None:
    client.produce("clicks", batch(b"one"))
    assert deleted(client, "clicks", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_what_consumers_may_not_see_yet_is_not_deleted(broker: ServingBroker, client: RawClient) -> None:
    client.produce("held", batch(b"one"))
    assert broker.partition("held").high_watermark == 0
    assert deleted(client, "held", 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(client, "held", -1) == (0, 0)


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("clicks", 2), ("clicks", -1)])
def test_records_of_a_partition_that_is_not_there_are_not_deleted(client: RawClient, topic: str, partition: int) -> None:
    assert deleted(client, topic, 0, partition=partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_a_disk_that_fails_leaves_the_head_where_it_is_and_says_so(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "the disk is broken")

    client.produce("clicks", batch(b"one"))
    monkeypatch.setattr("headrace.broker.log.start_note.write", broken)
    assert deleted(client, "clicks", -1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    monkeypatch.undo()
    assert broker.partition("clicks").log.log_start_offset == 0
    assert deleted(client, "clicks", -1)[0] == 0


# -- SASL ----------------------------------------


@pytest.mark.parametrize("version", range(2))
def test_a_sasl_handshake_is_refused_as_kafka_does_on_a_plaintext_listener(client: RawClient, version: int) -> None:
    answer = client.ask(17, version, {"mechanism": "PLAIN"})
    assert (answer.error_code, list(answer.mechanisms)) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.request(18, 0, b"")


@pytest.mark.parametrize("version", range(3))
def test_sasl_authentication_is_refused_with_what_to_do(client: RawClient, version: int) -> None:
    answer = client.ask(36, version, {"auth_bytes": b"\0user\0secret"})
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert "security.protocol=PLAINTEXT" in answer.error_message
