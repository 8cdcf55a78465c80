"""Metadata, creation, deletion, settings of topics; producer ids; coordinators. Real sockets and logs, ZooKeeper played."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.broker.partitions.catalog import assignment
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2}, settings={"topic.creation.wait.ms": 200}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def metadata(client: RawClient, *names: str, version: int = 9, may_create: bool = True) -> Any:
    topics = [{"name": name, "topic_id": None} for name in names] if names else None
    message = {
        "topics": topics,
        "allow_auto_topic_creation": may_create,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return client.ask(3, version, message)


def created(client: RawClient, name: str, version: int = 7, **more: Any) -> Any:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    topic.update(more)
    message = {"topics": [topic], "timeout_ms": 1_000, "validate_only": more.pop("validate_only", False)}
    topic.pop("validate_only", None)
    (answer,) = client.ask(19, version, message).topics
    return answer


# -- metadata ----------------------------------------


@pytest.mark.parametrize("version", range(1, 13))
def test_metadata_names_this_broker_and_every_topic_in_each_version(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    answer = metadata(client, version=version)
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", broker.port)]
    (topic,) = answer.topics
    assert [(one.partition_index, one.leader_id, one.isr_nodes) for one in topic.partitions] == [(0, 1, (1,)), (1, 1, (1,))]


def test_a_topic_asked_for_by_name_is_made_and_the_answer_has_it(client: RawClient) -> None:
    (topic,) = metadata(client, "fresh").topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    assert client.produce("fresh", batch(b"one"), partition=2).error_code == 0


def test_a_topic_of_the_platform_is_made_with_one_partition_that_never_expires(broker: ServingBroker, client: RawClient) -> None:
    (topic,) = metadata(client, "_headrace.audit").topics
    assert (len(topic.partitions), topic.is_internal) == (1, True)
    assert broker.partition("_headrace.audit").settings.retention_ms == -1


def test_a_topic_is_not_made_when_request_or_settings_forbid_it(client: RawClient, tmp_path: Path) -> None:
    (topic,) = metadata(client, "fresh", may_create=False).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with ServingBroker(tmp_path / "b", settings={"auto.create.topics.enable": "false"}) as other, other.client() as asking:
        (topic,) = metadata(asking, "fresh").topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_name_that_is_no_topics_is_refused_and_not_made(broker: ServingBroker, client: RawClient) -> None:
    answer = metadata(client, "no/topic", "clicks")
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    assert set(broker.topics.catalog.topics) == {"clicks"}


def test_while_zookeeper_does_not_answer_metadata_waits_a_bounded_time_and_says_so(broker: ServingBroker) -> None:
    broker.topics.never_answers = True
    with RawClient(broker.port, timeout_ms=5_000) as client:
        answer = metadata(client, "fresh", "clicks")
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]


def test_when_zookeeper_is_away_known_topics_are_answered_all_the_same(broker: ServingBroker, client: RawClient) -> None:
    broker.topics.is_down = True
    answer = metadata(client, "fresh", "clicks")
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]
    assert client.produce("clicks", batch(b"one")).error_code == 0


def test_new_partitions_go_round_the_brokers() -> None:
    assert assignment(4, [3, 1, 2]) == {0: (1,), 1: (2,), 2: (3,), 3: (1,)}
    assert assignment(2, [1, 2], first=1) == {0: (2,), 1: (1,)}


# -- creation and deletion ----------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_with_its_settings_in_each_version(broker: ServingBroker, client: RawClient, version: int) -> None:
    configs = [{"name": "retention.ms", "value": "1000"}]
    answer = created(client, "made", version, num_partitions=2, configs=configs)
    assert answer.error_code == 0
    assert broker.partition("made", 1).settings.retention_ms == 1_000
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (2, 1)
        assert {one.name: one.value for one in answer.configs}["retention.ms"] == "1000"
    assert created(client, "made", version).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"name": "no topic"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": 1_000_000}, ErrorCode.POLICY_VIOLATION),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, ErrorCode.INVALID_REQUEST),
        ({"configs": [{"name": "cleanup.policy", "value": "compact"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "no.such", "value": "1"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": None}]}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_created_is_refused_with_a_reason(client: RawClient, more: dict[str, Any], code: ErrorCode) -> None:
    answer = created(client, more.pop("name", "made"), **more)
    assert answer.error_code == code
    assert answer.error_message
    (topic,) = metadata(client).topics
    assert topic.name == "clicks"


def test_defaults_are_taken_for_partitions_and_replicas_that_are_not_given(broker: ServingBroker, client: RawClient) -> None:
    assert created(client, "made", num_partitions=-1, replication_factor=-1).error_code == 0
    assert len(broker.table.of_topic("made")) == 3


def test_validate_only_validates_and_makes_nothing(broker: ServingBroker, client: RawClient) -> None:
    topic = {"name": "made", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    (answer,) = client.ask(19, 7, {"topics": [topic], "timeout_ms": 1_000, "validate_only": True}).topics
    assert answer.error_code == 0
    assert "made" not in broker.topics.catalog.topics


def test_a_topic_named_twice_in_one_request_is_refused_twice_and_others_are_made(client: RawClient) -> None:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for name in ("twice", "once", "twice")
    ]
    answer = client.ask(19, 7, {"topics": topics, "timeout_ms": 1_000, "validate_only": False})
    codes = {str(topic.name): topic.error_code for topic in answer.topics}
    assert codes == {"twice": ErrorCode.INVALID_REQUEST, "once": 0}


def test_creation_without_zookeeper_is_a_retriable_error(broker: ServingBroker, client: RawClient) -> None:
    broker.topics.is_down = True
    assert ErrorCode(int(created(client, "made").error_code)).retriable


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_in_each_version(client: RawClient, version: int) -> None:
    names = ["clicks", "nowhere"]
    topics = [{"name": name, "topic_id": None} for name in names]
    answer = client.ask(20, version, {"topic_names": names, "topics": topics, "timeout_ms": 1_000})
    codes = {str(one.name): one.error_code for one in answer.responses}
    assert codes == {"clicks": 0, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert client.produce("clicks", batch(b"one")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_has_an_id_that_creation_metadata_and_deletion_agree_on(client: RawClient) -> None:
    made = created(client, "made")
    (seen,) = metadata(client, "made", version=12).topics
    (deleted,) = client.ask(20, 6, {"topics": [{"name": "made", "topic_id": None}], "timeout_ms": 1_000}).responses
    assert made.topic_id == seen.topic_id == deleted.topic_id
    assert made.topic_id is not None
    assert created(client, "made").topic_id != made.topic_id, "a topic made anew is another one"


def test_a_topic_is_asked_for_by_its_id_from_version_12_on(client: RawClient) -> None:
    known, nobodys = created(client, "made").topic_id, UUID(int=7)
    wanted = [(None, known), (None, nobodys), ("clicks", None)]
    message = {
        "topics": [{"topic_id": topic_id, "name": name} for name, topic_id in wanted],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }
    found, none, named = client.ask(3, 12, message).topics
    assert (found.name, found.topic_id, found.error_code, len(found.partitions)) == ("made", known, 0, 1)
    assert (none.name, none.topic_id, none.error_code) == (None, nobodys, ErrorCode.UNKNOWN_TOPIC_ID)
    assert (named.name, named.error_code) == ("clicks", 0)
    id_in_11 = b"\x02" + known.bytes + b"\x00\x00" + b"\x01\x00\x00"
    client.send(3, 11, id_in_11)
    assert client.is_closed_by_peer()


def test_offsets_of_all_topics_that_one_request_deletes_are_forgotten_together(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[frozenset[str]] = []
    monkeypatch.setattr(broker.context.offsets, "forget_topics", lambda topics: asked.append(frozenset(topics)))
    names = [f"t{number}" for number in range(50)]
    for name in names:
        created(client, name)
    topics = [{"name": name, "topic_id": None} for name in [*names, "nowhere"]]
    answer = client.ask(20, 6, {"topics": topics, "timeout_ms": 10_000})
    assert sum(one.error_code == 0 for one in answer.responses) == 50
    assert asked == [frozenset(names)]


# -- settings shown ----------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_are_shown_with_their_source(client: RawClient, version: int) -> None:
    created(client, "made", configs=[{"name": "retention.ms", "value": "1000"}])
    resource = {"resource_type": 2, "resource_name": "made", "configuration_keys": ["retention.ms", "segment.bytes"]}
    message = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    (result,) = client.ask(32, version, message).results
    shown = {one.name: one for one in result.configs}
    assert {name: (one.value, one.config_source) for name, one in shown.items()} == {
        "retention.ms": ("1000", 1),
        "segment.bytes": (str(1 << 30), 5),
    }
    if version >= 3:
        assert "last append at this broker" in shown["retention.ms"].documentation


def test_a_brokers_settings_are_shown_and_other_resources_refused(client: RawClient) -> None:
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in ((4, "1"), (4, "2"), (2, "nowhere"), (8, "x"))
    ]
    results = client.ask(32, 4, {"resources": resources, "include_synonyms": False, "include_documentation": False}).results
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_REQUEST, 3, ErrorCode.INVALID_REQUEST]
    assert {one.name: one.value for one in results[0].configs}["num.partitions"] == "3"


# -- producer ids, coordinators ----------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_each_producer_gets_an_id_of_its_own_in_each_version(client: RawClient, version: int) -> None:
    message = {"transactional_id": None, "transaction_timeout_ms": 1_000, "producer_id": 5, "producer_epoch": 3}
    answers = [client.ask(22, version, message) for _ in range(25)]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert len({answer.producer_id for answer in answers}) == 25


def test_a_transactional_producer_is_refused_clearly(client: RawClient) -> None:
    answer = client.ask(22, 4, {"transactional_id": "tx", "transaction_timeout_ms": 1_000})
    assert (answer.error_code, answer.producer_id) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)


def test_without_zookeeper_a_producer_is_told_to_come_again(broker: ServingBroker, client: RawClient) -> None:
    broker.blocks.fails = True
    answer = client.ask(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1_000})
    assert ErrorCode(int(answer.error_code)).retriable


@pytest.mark.parametrize("version", range(5))
def test_this_broker_coordinates_every_group_in_each_version(broker: ServingBroker, client: RawClient, version: int) -> None:
    answer = client.ask(10, version, {"key": "g", "key_type": 0, "coordinator_keys": ["g", "h"]})
    found = list(answer.coordinators) if version >= 4 else [answer]
    assert {(one.error_code, one.node_id, one.host, one.port) for one in found} == {(0, 1, "127.0.0.1", broker.port)}


def test_transactions_have_no_coordinator_and_the_error_is_not_retriable(client: RawClient) -> None:
    answer = client.ask(10, 3, {"key": "tx", "key_type": 1})
    assert not ErrorCode(int(answer.error_code)).retriable
    assert "transactions" in answer.error_message
