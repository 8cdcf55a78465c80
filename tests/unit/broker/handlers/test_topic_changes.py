"""Partitions added, topics placed by hand, settings changed on open partitions. Real sockets and logs, ZooKeeper played."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.handlers import fan_in
from headrace.broker.handlers.incremental_alter_configs import Operation
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker

TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2}, settings={"log.retention.ms": 77_000}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def extended(client: RawClient, topic: str, count: int, version: int = 3, **more: Any) -> Any:
    wanted = {"name": topic, "count": count, "assignments": more.pop("assignments", None)}
    message = {"topics": [wanted], "timeout_ms": 1_000, "validate_only": False, **more}
    (answer,) = client.ask(37, version, message).results
    return answer


def altered(
    client: RawClient, topic: str, config: dict[str, str | None], version: int = 2, *, kind: int = TOPIC, only: bool = False
) -> Any:
    configs = [{"name": name, "value": value} for name, value in config.items()]
    resource = {"resource_type": kind, "resource_name": topic, "configs": configs}
    (answer,) = client.ask(33, version, {"resources": [resource], "validate_only": only}).responses
    return answer


def changed(
    client: RawClient, topic: str, *steps: tuple[str, int, str | None], version: int = 1, kind: int = TOPIC, only: bool = False
) -> Any:
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in steps]
    resource = {"resource_type": kind, "resource_name": topic, "configs": configs}
    (answer,) = client.ask(44, version, {"resources": [resource], "validate_only": only}).responses
    return answer


def created(client: RawClient, version: int = 7, **topic: Any) -> Any:
    wanted = {"name": "placed", "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": [], **topic}
    (answer,) = client.ask(19, version, {"topics": [wanted], "timeout_ms": 1_000, "validate_only": False}).topics
    return answer


# -- partitions ----------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_more_partitions_in_each_version_and_keeps_what_it_has(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    assert client.produce("clicks", batch(b"one"), partition=1).error_code == 0
    assert extended(client, "clicks", 5, version).error_code == 0
    assert client.produce("clicks", batch(b"two"), partition=4).error_code == 0
    assert set(broker.table.of_topic("clicks")) == set(range(5))
    assert broker.partition("clicks", 1).log.log_end_offset > 0


@pytest.mark.parametrize(
    ("topic", "count", "more", "code"),
    [
        ("nowhere", 3, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("clicks", 2, {}, ErrorCode.INVALID_PARTITIONS),
        ("clicks", 1, {}, ErrorCode.INVALID_PARTITIONS),
        ("clicks", -1, {}, ErrorCode.INVALID_PARTITIONS),
        ("clicks", 10_001, {}, ErrorCode.POLICY_VIOLATION),
        ("clicks", 4, {"assignments": [{"broker_ids": [1]}]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("clicks", 3, {"assignments": [{"broker_ids": [9]}]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("clicks", 3, {"assignments": [{"broker_ids": []}]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("clicks", 3, {"assignments": [{"broker_ids": [1, 2]}]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_added_is_refused_with_a_reason(
    broker: ServingBroker, client: RawClient, topic: str, count: int, more: dict[str, Any], code: ErrorCode
) -> None:
    answer = extended(client, topic, count, **more)
    assert answer.error_code == code
    assert answer.error_message
    assert len(broker.table.of_topic("clicks")) == 2


def test_partitions_are_placed_by_hand(broker: ServingBroker, client: RawClient) -> None:
    assert extended(client, "clicks", 3, assignments=[{"broker_ids": [1]}]).error_code == 0
    assert broker.topics.catalog.topics["clicks"].partitions[2] == (1,)


def test_validate_only_adds_no_partition(broker: ServingBroker, client: RawClient) -> None:
    assert extended(client, "clicks", 3, validate_only=True).error_code == 0
    assert extended(client, "clicks", 1, validate_only=True).error_code == ErrorCode.INVALID_PARTITIONS
    assert len(broker.table.of_topic("clicks")) == 2


def test_a_topic_named_twice_for_more_partitions_is_refused(client: RawClient) -> None:
    wanted = [{"name": "clicks", "count": count, "assignments": None} for count in (3, 4)]
    (answer,) = client.ask(37, 3, {"topics": wanted, "timeout_ms": 1_000, "validate_only": False}).results
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# -- placed by hand ----------------------------------------


def test_a_topic_is_created_where_it_is_said(broker: ServingBroker, client: RawClient) -> None:
    assignments = [{"partition_index": index, "broker_ids": [1]} for index in (1, 0)]
    answer = created(client, assignments=assignments)
    assert (answer.error_code, answer.num_partitions) == (0, 2)
    assert broker.topics.catalog.topics["placed"].partitions == {0: (1,), 1: (1,)}


@pytest.mark.parametrize(
    ("replicas", "more", "code"),
    [
        ({0: [1]}, {"num_partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({0: [1]}, {"replication_factor": 1}, ErrorCode.INVALID_REQUEST),
        ({1: [1]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [1], 2: [1]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [2]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [1, 1]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [1, 2]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_wrong_place_is_refused_with_a_reason(
    client: RawClient, replicas: dict[int, list[int]], more: dict[str, int], code: ErrorCode
) -> None:
    assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in replicas.items()]
    answer = created(client, assignments=assignments, **more)
    assert answer.error_code == code
    assert answer.error_message


# -- settings ----------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_a_topics_own_settings_and_its_open_partitions_go_by_them(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    assert altered(client, "clicks", {"segment.bytes": "4096", "max.message.bytes": "100"}, version).error_code == 0
    assert broker.partition("clicks", 1).log.config.segment_bytes == 4_096
    assert client.produce("clicks", batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert altered(client, "clicks", {"retention.ms": "5000"}, version).error_code == 0
    assert client.produce("clicks", batch(b"x" * 200)).error_code == 0
    log = broker.partition("clicks").log
    assert (log.config.segment_bytes, log.config.retention_ms) == (1 << 30, 5_000)


@pytest.mark.parametrize("version", range(2))
def test_single_settings_are_set_and_unset_and_others_stay(broker: ServingBroker, client: RawClient, version: int) -> None:
    changed(client, "clicks", ("retention.ms", Operation.SET, "5000"), ("segment.ms", Operation.SET, "6000"), version=version)
    answer = changed(
        client, "clicks", ("retention.ms", Operation.DELETE, None), ("flush.ms", Operation.SET, "10"), version=version
    )
    assert answer.error_code == 0
    settings = broker.partition("clicks", 1).settings
    assert (settings.retention_ms, settings.segment_ms, settings.flush_ms) == (77_000, 6_000, 10)
    assert broker.topics.catalog.topics["clicks"].config == {"segment.ms": "6000", "flush.ms": "10"}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (("cleanup.policy", Operation.SET, "compact"), "byte offsets"),
        (("cleanup.policy", Operation.APPEND, "compact"), "byte offsets"),
        (("cleanup.policy", Operation.SUBTRACT, "delete"), "cleanup.policy"),
        (("retention.ms", Operation.APPEND, "1"), "APPEND is for lists"),
        (("retention.ms", Operation.SUBTRACT, "1"), "SUBTRACT is for lists"),
        (("retention.ms", Operation.SET, "9" * 5_000), "retention.ms"),
        (("retention.ms", 7, "1"), "no operation 7"),
        (("no.such", Operation.SET, "1"), "no such topic setting"),
        (("message.timestamp.type", Operation.SET, "EventTime"), "LogAppendTime"),
        (("min.insync.replicas", Operation.SET, "0"), "from 1"),
        (("compression.type", Operation.SET, "zstd"), "never"),
    ],
)
def test_a_change_that_cannot_be_kept_is_refused_with_its_name_and_reason_and_nothing_changes(
    broker: ServingBroker, client: RawClient, step: tuple[str, int, str | None], why: str
) -> None:
    answer = changed(client, "clicks", ("segment.ms", Operation.SET, "6000"), step)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert step[0] in answer.error_message
    assert why in answer.error_message
    assert broker.topics.catalog.topics["clicks"].config == {}


def test_the_one_list_takes_what_it_has_already(broker: ServingBroker, client: RawClient) -> None:
    assert changed(client, "clicks", ("cleanup.policy", Operation.APPEND, "delete")).error_code == 0
    assert broker.topics.catalog.topics["clicks"].config == {"cleanup.policy": "delete"}


def test_a_setting_that_an_earlier_release_took_may_still_be_deleted(broker: ServingBroker, client: RawClient) -> None:
    broker.on_loop(lambda: broker.topics.configure("clicks", lambda _: {"from.long.ago": "1"}, lambda outcome: None))
    assert changed(client, "clicks", ("from.long.ago", Operation.DELETE, None)).error_code == 0
    assert broker.topics.catalog.topics["clicks"].config == {}


def test_validate_only_changes_no_setting(broker: ServingBroker, client: RawClient) -> None:
    assert altered(client, "clicks", {"retention.ms": "1"}, only=True).error_code == 0
    assert changed(client, "clicks", ("retention.ms", Operation.SET, "1"), only=True).error_code == 0
    assert altered(client, "clicks", {"retention.ms": "x"}, only=True).error_code == ErrorCode.INVALID_CONFIG
    assert changed(client, "clicks", ("retention.ms", Operation.SET, "x"), only=True).error_code == ErrorCode.INVALID_CONFIG
    assert broker.topics.catalog.topics["clicks"].config == {}


@pytest.mark.parametrize(
    ("kind", "name", "settings", "code"),
    [
        (TOPIC, "nowhere", ["retention.ms"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", ["num.partitions"], ErrorCode.INVALID_REQUEST),
        (BROKER, "", ["log.retention.ms"], ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ["no.such"], ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", ["no.such"], ErrorCode.INVALID_CONFIG),
        (16, "metrics", ["interval.ms"], ErrorCode.INVALID_REQUEST),
        (TOPIC, "clicks", ["retention.ms", "retention.ms"], ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("api_key", [33, 44])
def test_what_is_not_a_topics_own_is_refused_by_name(
    client: RawClient, api_key: int, kind: int, name: str, settings: list[str], code: ErrorCode
) -> None:
    configs = [{"name": one, "value": "1"} for one in settings]
    if api_key == 44:
        configs = [{**one, "config_operation": 0} for one in configs]  # type: ignore[dict-item]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    (answer,) = client.ask(api_key, 1, {"resources": [resource], "validate_only": False}).responses
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (code, kind, name)
    assert name in answer.error_message or settings[0] in answer.error_message or str(kind) in answer.error_message


def test_a_topic_named_twice_for_change_is_refused(client: RawClient) -> None:
    resource = {"resource_type": TOPIC, "resource_name": "clicks", "configs": [{"name": "segment.ms", "value": "5000"}]}
    (answer,) = client.ask(33, 0, {"resources": [resource, resource], "validate_only": False}).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_change_without_zookeeper_is_a_retriable_error(broker: ServingBroker, client: RawClient) -> None:
    broker.topics.is_down = True
    for answer in (
        altered(client, "clicks", {"retention.ms": "1"}),
        changed(client, "clicks", ("retention.ms", Operation.SET, "1")),
        extended(client, "clicks", 3),
    ):
        assert ErrorCode(int(answer.error_code)).retriable
        assert "ZooKeeper is away" in answer.error_message


@pytest.mark.parametrize("api_key", [19, 20, 33, 37])
def test_what_is_never_done_is_answered_in_the_time_that_the_client_gives(
    broker: ServingBroker, client: RawClient, api_key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_in, "LONGEST_WAIT_MS", 100)
    broker.topics.never_answers = True
    match api_key:
        case 19:
            answer = created(client, num_partitions=1)
        case 20:
            (answer,) = client.ask(20, 5, {"topic_names": ["clicks"], "timeout_ms": 50}).responses
        case 33:
            answer = altered(client, "clicks", {"retention.ms": "1"})
        case _:
            answer = extended(client, "clicks", 3)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "look again" in answer.error_message


# -- settings shown ----------------------------------------


def shown(client: RawClient, kind: int, name: str, version: int = 4) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    message = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    (result,) = client.ask(32, version, message).results
    assert result.error_code == 0
    return {one.name: one for one in result.configs}


def test_a_topics_setting_is_shown_with_every_value_that_it_hides(client: RawClient) -> None:
    changed(client, "clicks", ("retention.ms", Operation.SET, "5000"))
    one = shown(client, TOPIC, "clicks")["retention.ms"]
    assert (one.value, one.config_source, one.read_only) == ("5000", 1, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms] == [
        ("retention.ms", "5000", 1),
        ("log.retention.ms", "77000", 4),
        ("log.retention.ms", str(7 * 24 * 3_600_000), 5),
    ]


def test_a_brokers_settings_are_shown_read_only_with_source_type_and_doc(client: RawClient) -> None:
    configs = shown(client, BROKER, "1")
    assert {one.read_only for one in configs.values()} == {True}
    retention, partitions = configs["log.retention.ms"], configs["num.partitions"]
    assert (retention.value, retention.config_source, retention.config_type) == ("77000", 4, 5)
    assert (partitions.value, partitions.config_source) == ("3", 5)
    assert "Partitions of a topic" in partitions.documentation
    assert (configs["auto.create.topics.enable"].config_type, configs["listeners"].config_type) == (1, 2)
    assert all(one.documentation for one in configs.values())
    assert shown(client, BROKER, "") == {}


# -- bounds ----------------------------------------


def test_one_request_makes_a_bounded_number_of_partitions_and_says_what_it_left_out(
    broker: ServingBroker, client: RawClient
) -> None:
    topics = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for name, count in (("most", 9_999), ("one", 1), ("beyond", 1))
    ]
    answer = client.ask(19, 7, {"topics": topics, "timeout_ms": 1_000, "validate_only": True})
    codes = {str(one.name): one.error_code for one in answer.topics}
    assert codes == {"most": 0, "one": 0, "beyond": ErrorCode.POLICY_VIOLATION}
    created(client, name="views", num_partitions=1)
    wanted = [{"name": "clicks", "count": 10_000, "assignments": None}, {"name": "views", "count": 4, "assignments": None}]
    answer = client.ask(37, 3, {"topics": wanted, "timeout_ms": 1_000, "validate_only": True})
    codes = {str(one.name): one.error_code for one in answer.results}
    assert codes == {"clicks": 0, "views": ErrorCode.POLICY_VIOLATION}


def test_a_resource_named_a_thousand_times_is_described_once(client: RawClient) -> None:
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
    message = {"resources": [resource] * 1_000, "include_synonyms": False, "include_documentation": False}
    assert len(client.ask(32, 4, message).results) == 1


def test_of_a_thousand_topics_in_one_request_a_bounded_number_is_under_way_and_all_are_made(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: list[Callable[[], None]] = []
    most = 0

    def create(name: str, count: int, config: object, done: Callable[[bool], None], replicas: object, factor: int) -> None:
        nonlocal most
        under_way.append(lambda: done(True))
        most = max(most, len(under_way))
        broker.loop.post(lambda: under_way.pop(0)())

    monkeypatch.setattr(broker.topics, "create", create)
    topics = [
        {"name": f"t{number}", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for number in range(1_000)
    ]
    answer = client.ask(19, 7, {"topics": topics, "timeout_ms": 30_000, "validate_only": False})
    assert [one.name for one in answer.topics] == [topic["name"] for topic in topics]
    assert {one.error_code for one in answer.topics} == {0}
    assert most == fan_in.MOST_AT_ONCE


def test_results_that_are_there_at_once_need_no_depth(client: RawClient) -> None:
    answer = client.ask(20, 5, {"topic_names": [f"no-{number}" for number in range(5_000)], "timeout_ms": 30_000})
    assert len(answer.responses) == 5_000
