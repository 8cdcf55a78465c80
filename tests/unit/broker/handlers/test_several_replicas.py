"""Topics with several replicas, as a broker of three creates, shows and refuses them. Real sockets; ZooKeeper is simulated."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.partitions.catalog import BrokerAddress, ReplicaView
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    """One of three brokers; the other two are registered."""
    with ServingBroker(tmp_path) as serving:
        with_brokers(serving, 2, 3)
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def with_brokers(serving: ServingBroker, *ids: int) -> None:
    brokers = {
        one: BrokerAddress(broker_id=one, host="other", port=9_000 + one, endpoints={"PLAINTEXT": ("other", 9_000 + one)})
        for one in ids
    }
    serving.topics.catalog = replace(serving.topics.catalog, brokers=brokers)


def with_state(
    serving: ServingBroker, topic: str, partition: int, leader: int, epoch: int, *in_sync: int, targets: tuple[int, ...] = ()
) -> None:
    """Put a state, as it is read from ZooKeeper."""
    entry = serving.topics.catalog.topics[topic]
    replicas = entry.partitions[partition]
    view = ReplicaView(leader=leader, leader_epoch=epoch, in_sync=in_sync, replicas=replicas, targets=targets, version=1)
    changed = replace(entry, states={**entry.states, partition: view})
    serving.topics.catalog = replace(serving.topics.catalog, topics={**serving.topics.catalog.topics, topic: changed})


def created(client: RawClient, name: str = "made", version: int = 7, **more: Any) -> Any:
    topic = {"name": name, "num_partitions": 3, "replication_factor": 3, "assignments": [], "configs": [], **more}
    (answer,) = client.ask(19, version, {"topics": [topic], "timeout_ms": 1_000, "validate_only": False}).topics
    return answer


def described(client: RawClient, name: str, version: int) -> Any:
    asked: Mapping[str, Any] = {
        "topics": [{"name": name, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    (topic,) = client.ask(3, version, asked).topics
    return sorted(topic.partitions, key=lambda one: int(one.partition_index))


def test_the_replicas_of_a_new_topic_are_spread_over_the_brokers_and_two_must_have_a_message(
    broker: ServingBroker, client: RawClient
) -> None:
    answer = created(client)
    assert (answer.error_code, answer.replication_factor) == (0, 3)
    assert {one.name: one.value for one in answer.configs}["min.insync.replicas"] == "2"
    assert broker.topics.catalog.topics["made"].partitions == {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}


def test_more_replicas_than_brokers_are_refused_with_the_brokers_that_are_there(client: RawClient) -> None:
    answer = created(client, replication_factor=4)
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "3 live brokers ([1, 2, 3])" in answer.error_message
    assert created(client, replication_factor=0).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_replicas_go_where_the_request_says_and_each_partition_has_as_many(broker: ServingBroker, client: RawClient) -> None:
    def placed(*replicas: list[int]) -> Any:
        assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in enumerate(replicas)]
        return created(client, num_partitions=-1, replication_factor=-1, assignments=assignments)

    assert placed([3, 1], [2]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    answer = placed([3, 1], [2, 3])
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 2, 2)
    assert broker.topics.catalog.topics["made"].partitions == {0: (3, 1), 1: (2, 3)}


def test_without_a_number_a_topic_has_the_brokers_default_and_one_of_the_platforms_own_three(
    broker: ServingBroker, client: RawClient
) -> None:
    assert created(client, "plain", replication_factor=-1).replication_factor == 1
    assert created(client, "_headrace.schemas", num_partitions=1, replication_factor=-1).replication_factor == 3
    with_brokers(broker, 2)
    assert created(client, "clicks.quarantine", replication_factor=-1).replication_factor == 2


def test_the_brokers_default_counts_where_no_number_is_given(tmp_path: Path) -> None:
    with ServingBroker(tmp_path / "b", settings={"default.replication.factor": "2"}) as serving, serving.client() as client:
        alone = created(client, replication_factor=-1)
        assert alone.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        with_brokers(serving, 2)
        assert created(client, replication_factor=-1).replication_factor == 2


def test_new_partitions_have_as_many_replicas_as_the_others(broker: ServingBroker, client: RawClient) -> None:
    created(client, replication_factor=2)

    def extended(count: int, assignments: Any = None) -> Any:
        wanted = {"name": "made", "count": count, "assignments": assignments}
        (answer,) = client.ask(37, 3, {"topics": [wanted], "timeout_ms": 1_000, "validate_only": False}).results
        return answer

    assert extended(4).error_code == 0
    assert len(broker.topics.catalog.topics["made"].partitions[3]) == 2
    assert extended(5, [{"broker_ids": [1]}]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert extended(5, [{"broker_ids": [1, 3]}]).error_code == 0
    with_brokers(broker)
    refused = extended(6)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "1 live brokers" in refused.error_message


@pytest.mark.parametrize("version", range(13))
def test_metadata_has_leader_epoch_and_set_of_a_replicated_partition_in_each_version(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    created(client)
    with_state(broker, "made", 0, 2, 5, 1, 2)
    with_state(broker, "made", 1, 3, 9, 2, 3, 1)
    first, second, third = described(client, "made", version)
    assert (first.error_code, first.leader_id) == (0, 2)
    assert (tuple(first.replica_nodes), tuple(first.isr_nodes)) == ((1, 2, 3), (1, 2))
    assert (second.leader_id, tuple(second.isr_nodes)) == (3, (2, 3, 1))
    assert (third.error_code, third.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    if version >= 7:
        assert [one.leader_epoch for one in (first, second, third)] == [5, 9, -1]
    with_brokers(broker, 3)
    first, second, _ = described(client, "made", version)
    assert (first.error_code, first.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert second.leader_id == 3
    if version >= 5:
        assert tuple(first.offline_replicas) == (2,)


def test_a_topic_with_one_replica_is_shown_as_ever(broker: ServingBroker, client: RawClient) -> None:
    created(client, num_partitions=1, replication_factor=1)
    (only,) = described(client, "made", 9)
    assert (only.leader_id, only.leader_epoch, tuple(only.replica_nodes), tuple(only.isr_nodes)) == (1, -1, (1,), (1,))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_asks_for_an_election_reads_why_there_is_none(broker: ServingBroker, client: RawClient, version: int) -> None:
    created(client, num_partitions=4)
    with_state(broker, "made", 0, 1, 5, 1, 2, 3)
    with_state(broker, "made", 1, 1, 5, 1, 3)
    with_state(broker, "made", 2, 1, 5, 1, 3)
    with_state(broker, "made", 3, 2, 5, 2)
    with_brokers(broker, 2, 3)

    def asked(kind: int, topics: Any) -> dict[int, ErrorCode]:
        answer = client.ask(43, version, {"election_type": kind, "topic_partitions": topics, "timeout_ms": 1_000})
        results = answer.replica_election_results
        return {int(one.partition_id): ErrorCode(int(one.error_code)) for topic in results for one in topic.partition_result}

    away = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert asked(0, [{"topic": "made", "partitions": [0, 1, 3]}]) == {0: ErrorCode.ELECTION_NOT_NEEDED, 1: away, 3: away}
    assert asked(0, None) == {1: away, 2: away, 3: away}
    if version >= 1:
        with_brokers(broker, 3)
        wanted = [{"topic": "made", "partitions": [0, 3]}]
        none = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert asked(1, wanted) == {0: ErrorCode.ELECTION_NOT_NEEDED, 3: none}


def test_a_partition_that_gets_other_replicas_is_listed(broker: ServingBroker, client: RawClient) -> None:
    created(client, replication_factor=2, num_partitions=2)
    with_state(broker, "made", 0, 1, 5, 1, 2, targets=(2, 3))
    with_state(broker, "made", 1, 2, 5, 2, 3)
    for topics in (None, [{"name": "made", "partition_indexes": [0, 1]}]):
        (topic,) = client.ask(46, 0, {"timeout_ms": 1_000, "topics": topics}).topics
        (moving,) = topic.partitions
        assert (moving.partition_index, tuple(moving.replicas)) == (0, (1, 2, 3))
        assert (tuple(moving.adding_replicas), tuple(moving.removing_replicas)) == ((3,), (1,))
    assert client.ask(46, 0, {"timeout_ms": 1_000, "topics": [{"name": "made", "partition_indexes": [1]}]}).topics == ()
