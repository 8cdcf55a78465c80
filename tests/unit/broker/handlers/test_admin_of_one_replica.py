"""What administrators ask about replicas, users and transactions, of which there are none. Real sockets; ZooKeeper is
simulated.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.handlers import elect_leaders, reassignments
from headrace.broker.handlers.batch_rules import NO_TRANSACTIONS
from headrace.broker.partitions.placement import Placement
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with ServingBroker(tmp_path, topics={"clicks": 2}) as broker, broker.client() as raw:
        yield raw


def test_no_partition_is_being_moved(client: RawClient) -> None:
    answer = client.ask(46, 0, {"timeout_ms": 1_000, "topics": None})
    assert (answer.error_code, answer.topics) == (ErrorCode.NONE, ())


def test_a_partition_may_be_put_where_it_is_and_not_where_no_broker_is(client: RawClient) -> None:
    wanted: dict[int, list[int] | None] = {0: [1], 1: [2], 7: [1]}
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in wanted.items()]
    answer = client.ask(45, 1, {"timeout_ms": 1_000, "topics": [{"name": "clicks", "partitions": partitions}]})
    (topic,) = answer.responses
    assert [(one.partition_index, ErrorCode(int(one.error_code))) for one in topic.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert "brokers [2] are not there" in topic.partitions[1].error_message


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((1, 2), None),
        ((2, 1), None),
        ((3,), None),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 5), None),
    ],
)
def test_a_move_is_refused_as_apache_kafka_refuses_it(wanted: tuple[int, ...] | None, expected: ErrorCode | None) -> None:
    """Broker 5 keeps a replica and is away: it may stay in the list."""
    placed = Placement(1, 4, (1, 5), (1,), (5,))
    fault = reassignments.refusal(placed, wanted, {1, 2, 3})
    assert (None if fault is None else fault[0]) == expected


def test_a_move_may_be_ended_and_may_have_to_keep_the_number_of_replicas() -> None:
    moving = Placement(1, 4, (1, 2), (1, 2), (), (2, 3))
    assert reassignments.refusal(moving, None, {1, 2, 3}) is None
    fault = reassignments.refusal(moving, (3,), {1, 2, 3}, may_change_count=False)
    assert fault is not None
    assert fault[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassignments.refusal(None, (1,), {1}) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")


def test_a_partition_named_twice_is_refused(client: RawClient) -> None:
    partitions = [{"partition_index": 0, "replicas": [1]}, {"partition_index": 0, "replicas": None}]
    (topic,) = client.ask(45, 1, {"timeout_ms": 1_000, "topics": [{"name": "clicks", "partitions": partitions}]}).responses
    assert [int(one.error_code) for one in topic.partitions] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_only_replica_leads_so_no_election_is_needed(client: RawClient, version: int) -> None:
    asked = {"election_type": 0, "topic_partitions": [{"topic": "clicks", "partitions": [0, 9]}], "timeout_ms": 1_000}
    (topic,) = client.ask(43, version, asked).replica_election_results
    assert [int(one.error_code) for one in topic.partition_result] == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert client.ask(43, version, {**asked, "topic_partitions": None}).replica_election_results == ()


def test_a_leader_that_is_away_is_not_said_to_lead() -> None:
    error, why = elect_leaders.outcome(Placement(-1, -1, (2,), (), (2,)), elect_leaders.Election.PREFERRED)
    assert error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert "broker 2 has its only replica" in why


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_stays_in_the_only_folder(client: RawClient, tmp_path: Path, version: int) -> None:
    (folder,) = client.ask(35, 4, {"topics": None}).results
    for path, expected in ((folder.log_dir, ErrorCode.NONE), ("/elsewhere", ErrorCode.LOG_DIR_NOT_FOUND)):
        asked = {"dirs": [{"path": path, "topics": [{"name": "clicks", "partitions": [0, 9]}]}]}
        (topic,) = client.ask(34, version, asked).results
        assert [int(one.error_code) for one in topic.partitions] == [expected, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_producers_of_a_partition_are_described(client: RawClient) -> None:
    client.produce("clicks", batch(b"one", b"two", producer_id=4_000, epoch=3, sequence=0))
    client.produce("clicks", batch(b"three", producer_id=4_000, epoch=3, sequence=2))
    (topic,) = client.ask(61, 0, {"topics": [{"name": "clicks", "partition_indexes": [0, 1, 9]}]}).topics
    written, empty, unknown = topic.partitions
    assert [(one.producer_id, one.producer_epoch, one.last_sequence) for one in written.active_producers] == [(4_000, 3, 2)]
    assert (empty.error_code, empty.active_producers) == (ErrorCode.NONE, ())
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_who_asks_for_transactions_reads_that_they_are_not_supported_and_the_log_names_the_client(
    client: RawClient, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {"coordinator_keys": ["tx"]} if version >= 4 else {"key": "tx"}
    with caplog.at_level(logging.WARNING):
        answer = client.ask(10, version, {"key_type": 1, **keys})
        client.ask(10, version, {"key_type": 1, **keys})
    one = answer.coordinators[0] if version >= 4 else answer
    # librdkafka, which asks with 1 and 2, tries again after any other error.
    expected = ErrorCode.UNSUPPORTED_VERSION if version >= 3 else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (int(one.error_code), one.error_message) == (expected, NO_TRANSACTIONS)
    (line,) = [record for record in caplog.records if record.getMessage() == "transactions_not_supported"]
    assert NO_TRANSACTIONS in str(line.__dict__)
