"""Answers that were wrong where Apache Kafka 4.3.1 was right. Found by tests/clients/test_same_answers.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from headrace.broker.handlers import replica_assignment
from headrace.broker.handlers.config_changes import Operation
from headrace.broker.settings.broker_settings import topic_settings
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker

TOPIC = 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2, "views": 1}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def changed(client: RawClient, *steps: tuple[str, int, str | None], topic: str = "clicks") -> Any:
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in steps]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": configs}
    (answer,) = client.ask(44, 1, {"resources": [resource], "validate_only": False}).responses
    return answer


def described(client: RawClient, *wanted: tuple[str, list[str] | None]) -> Any:
    resources = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys} for name, keys in wanted]
    return client.ask(32, 4, {"resources": resources, "include_synonyms": False, "include_documentation": False}).results


# -- topics ----------------------------------------


def test_a_topic_named_twice_for_deletion_is_refused_and_stays(broker: ServingBroker, client: RawClient) -> None:
    answer = client.ask(20, 5, {"topic_names": ["clicks", "views", "clicks"], "timeout_ms": 1_000})
    assert {str(one.name): int(one.error_code) for one in answer.responses} == {"clicks": ErrorCode.INVALID_REQUEST, "views": 0}
    assert set(broker.topics.catalog.topics) == {"clicks"}


def test_a_topic_is_deleted_by_its_name_or_its_id_but_not_by_both_and_not_twice(broker: ServingBroker, client: RawClient) -> None:
    some_id, views_id = uuid4(), broker.topics.catalog.topics["views"].topic_id
    clicks_id = broker.topics.catalog.topics["clicks"].topic_id

    def deleted(*wanted: tuple[str | None, UUID | None]) -> dict[tuple[str | None, UUID | None], int]:
        topics = [{"name": name, "topic_id": topic_id} for name, topic_id in wanted]
        answer = client.ask(20, 6, {"topics": topics, "timeout_ms": 1_000})
        return {(one.name, one.topic_id): int(one.error_code) for one in answer.responses}

    invalid = ErrorCode.INVALID_REQUEST
    refused: dict[tuple[str | None, UUID | None], int]
    refused = {(None, some_id): ErrorCode.UNKNOWN_TOPIC_ID, ("clicks", some_id): invalid, (None, None): invalid}
    assert deleted(*refused) == refused
    assert deleted(("clicks", None), (None, clicks_id)) == {("clicks", None): invalid}
    assert deleted((None, views_id)) == {("views", views_id): 0}
    assert deleted((None, views_id)) == {(None, views_id): ErrorCode.UNKNOWN_TOPIC_ID}
    assert set(broker.topics.catalog.topics) == {"clicks"}


def test_a_wrong_setting_is_told_before_a_wrong_number(client: RawClient) -> None:
    wanted = {"name": "new", "num_partitions": 0, "replication_factor": 9, "assignments": []}
    wanted["configs"] = [{"name": "no.such", "value": "1"}]
    (answer,) = client.ask(19, 5, {"topics": [wanted], "timeout_ms": 1_000, "validate_only": True}).topics
    assert answer.error_code == ErrorCode.INVALID_CONFIG


def test_a_stranger_among_two_brokers_is_a_wrong_assignment_and_two_known_ones_are_two_replicas() -> None:
    def code(*brokers: int) -> ErrorCode | None:
        fault = replica_assignment.fault_of([list(brokers)], {1, 2})
        return None if fault is None else fault[0]

    assert code(1, 77) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code(1, 2) is None
    assert code(2) is None


# -- settings ----------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("retention.ms", " 1000 ", "1000"),
        ("retention.ms", "+1000", "1000"),
        ("retention.ms", " -1", "-1"),
        ("headrace.mirror", " True", "true"),
        ("cleanup.policy", "delete, delete", "delete"),
    ],
)
def test_blanks_signs_capitals_and_doubles_are_overlooked_and_not_kept(
    broker: ServingBroker, client: RawClient, name: str, value: str, kept: str
) -> None:
    assert changed(client, (name, Operation.SET, value)).error_code == 0
    assert broker.topics.catalog.topics["clicks"].config == {name: kept}
    wanted = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": []}
    wanted["configs"] = [{"name": name, "value": value}]
    (answer,) = client.ask(19, 5, {"topics": [wanted], "timeout_ms": 1_000, "validate_only": False}).topics
    assert answer.error_code == 0
    assert broker.topics.catalog.topics["new"].config == {name: kept}
    resource = {"resource_type": TOPIC, "resource_name": "views", "configs": wanted["configs"]}
    (altered,) = client.ask(33, 2, {"resources": [resource], "validate_only": False}).responses
    assert altered.error_code == 0
    assert broker.topics.catalog.topics["views"].config == {name: kept}


@pytest.mark.parametrize("value", ["CREATETIME", " CreateTime"])
def test_words_are_taken_as_they_are_written(value: str) -> None:
    assert topic_settings.faults_of({"message.timestamp.type": value})


def test_settings_that_cannot_stand_together_are_found_however_they_are_written() -> None:
    assert topic_settings.faults_of({"headrace.mirror": " TRUE", "message.timestamp.type": "LogAppendTime"})


def test_blanks_around_what_is_appended_to_a_list_or_taken_out_are_overlooked(client: RawClient) -> None:
    assert changed(client, ("cleanup.policy", Operation.APPEND, " delete ")).error_code == 0
    assert changed(client, ("cleanup.policy", Operation.SUBTRACT, " compact ")).error_code == 0


def test_deleting_a_setting_that_there_is_not_changes_nothing_and_is_no_error(broker: ServingBroker, client: RawClient) -> None:
    for name in ("no.such", "leader.replication.throttled.replicas"):
        assert changed(client, (name, Operation.DELETE, None)).error_code == 0
    assert broker.topics.catalog.topics["clicks"].config == {}


def test_a_change_to_no_value_is_a_faulty_request(broker: ServingBroker, client: RawClient) -> None:
    answer = changed(client, ("retention.ms", Operation.SET, None))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "retention.ms: has no value" in answer.error_message
    resource = {"resource_type": TOPIC, "resource_name": "clicks", "configs": [{"name": "retention.ms", "value": None}]}
    (altered,) = client.ask(33, 2, {"resources": [resource], "validate_only": False}).responses
    assert altered.error_code == ErrorCode.INVALID_REQUEST
    assert broker.topics.catalog.topics["clicks"].config == {}


def test_what_can_be_no_topics_name_is_told_so_where_settings_are_asked_for_or_changed(client: RawClient) -> None:
    assert [one.error_code for one in described(client, ("a b", None))] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert changed(client, topic="a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_no_names_of_settings_stand_for_all_of_them(client: RawClient) -> None:
    (one,) = described(client, ("clicks", []))
    assert {config.name for config in one.configs} == set(topic_settings.TABLE)


def test_a_resource_named_twice_is_described_once_with_all_that_was_asked_of_it(client: RawClient) -> None:
    (one,) = described(client, ("clicks", ["retention.ms"]), ("clicks", ["segment.ms"]))
    assert {config.name for config in one.configs} == {"retention.ms", "segment.ms"}
    for others in (None, list[str]()):
        (one,) = described(client, ("clicks", ["retention.ms"]), ("clicks", others), ("clicks", ["segment.ms"]))
        assert len(one.configs) == len(topic_settings.TABLE)


# -- records, producers ----------------------------------------


@pytest.mark.parametrize("time", [-4, -5, -6, -100])
def test_a_time_that_only_later_versions_know_is_answered_as_such(client: RawClient, time: int) -> None:
    wanted = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": time}]
    message = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "clicks", "partitions": wanted}]}
    (topic,) = client.ask(2, 7, message).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.UNSUPPORTED_VERSION]


@pytest.mark.parametrize(("producer_id", "epoch"), [(777, -1), (-1, 3)])
def test_an_old_producer_id_without_its_epoch_is_refused_and_so_is_the_epoch_alone(
    client: RawClient, producer_id: int, epoch: int
) -> None:
    message = {"transactional_id": None, "transaction_timeout_ms": 1_000, "producer_id": producer_id, "producer_epoch": epoch}
    assert client.ask(22, 4, message).error_code == ErrorCode.INVALID_REQUEST


def test_a_transactional_id_without_a_letter_is_a_faulty_request(client: RawClient) -> None:
    answer = client.ask(22, 4, {"transactional_id": "", "transaction_timeout_ms": 1_000})
    assert answer.error_code == ErrorCode.INVALID_REQUEST
