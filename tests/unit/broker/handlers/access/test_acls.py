"""CreateAcls, DescribeAcls and DeleteAcls over real sockets; ZooKeeper is simulated."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.broker.rights.rule import Operation, Pattern, Permission, Resource, Rule
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker

from .requests import TOPIC

FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
RULE = {
    "resource_type": 2,
    "resource_name": "clicks",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
CREATED = Rule(Resource.TOPIC, "clicks", Pattern.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
SETTINGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
DESCRIBE, CREATE, DELETE = 29, 30, 31
VERSIONS = [1, 2, 3]


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1}, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def described(client: RawClient, version: int = 3, **wanted: Any) -> set[tuple[Any, ...]]:
    answer = client.ask(DESCRIBE, version, FILTER | wanted)
    assert answer.error_code == 0, answer.error_message
    return {
        (one.resource_type, one.resource_name, one.pattern_type, rule.principal, rule.host, rule.operation, rule.permission_type)
        for one in answer.resources
        for rule in one.acls
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_made_shown_and_deleted(client: RawClient, version: int) -> None:
    prefixed = {**RULE, "resource_name": "cl", "resource_pattern_type": 4, "operation": 4}
    made = client.ask(CREATE, version, {"creations": [RULE, prefixed, RULE]})
    assert [int(one.error_code) for one in made.results] == [0, 0, 0]
    assert len(described(client, version)) == 2
    assert described(client, version, pattern_type_filter=3) == {tuple(CREATED)}
    assert len(described(client, version, resource_name_filter="clicks", pattern_type_filter=2)) == 2
    only_write = {**FILTER, "operation": 4}
    gone, none = client.ask(DELETE, version, {"filters": [only_write, {**FILTER, "principal_filter": "User:b"}]}).filter_results
    assert [(one.resource_name, one.operation, one.permission_type) for one in gone.matching_acls] == [("cl", 4, 3)]
    assert (int(none.error_code), none.matching_acls) == (0, ())
    assert described(client, version) == {tuple(CREATED)}


def test_a_rule_that_cannot_be_kept_is_refused_and_the_others_are_made(client: RawClient) -> None:
    wrong = {**RULE, "principal": "a"}
    fine, refused = client.ask(CREATE, 3, {"creations": [RULE, wrong]}).results
    assert fine.error_code == 0
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "TYPE:NAME" in refused.error_message
    assert described(client) == {tuple(CREATED)}


def test_a_filter_with_a_number_of_tomorrow_finds_nothing(client: RawClient) -> None:
    """It must not delete every rule."""
    client.ask(CREATE, 3, {"creations": [RULE]})
    (answer,) = client.ask(DELETE, 3, {"filters": [{**FILTER, "operation": 99}]}).filter_results
    assert (answer.error_code, answer.matching_acls) == (ErrorCode.INVALID_REQUEST, ())
    assert client.ask(DESCRIBE, 3, {**FILTER, "permission_type": 9}).error_code == ErrorCode.INVALID_REQUEST
    assert described(client) == {tuple(CREATED)}


def test_while_zookeeper_is_away_rules_stay_as_they_are(broker: ServingBroker, client: RawClient) -> None:
    client.ask(CREATE, 3, {"creations": [RULE]})
    broker.rules.is_away = True
    (made,) = client.ask(CREATE, 3, {"creations": [{**RULE, "operation": 4}]}).results
    assert made.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "could not be changed now" in made.error_message
    (deleted,) = client.ask(DELETE, 3, {"filters": [FILTER]}).filter_results
    assert deleted.error_code == ErrorCode.REQUEST_TIMED_OUT
    access = broker.context.access
    assert access is not None
    broker.on_loop(access.refresh)
    assert described(client) == {tuple(CREATED)}


def test_a_rule_of_another_broker_comes_into_force(broker: ServingBroker, client: RawClient) -> None:
    from headrace.broker.rights.rule import written
    from tests.support.processes import eventually

    broker.rules.rows = written([CREATED])
    access = broker.context.access
    assert access is not None
    broker.on_loop(access.refresh)
    eventually(lambda: described(client) == {tuple(CREATED)}, what="the rule is in force")


def test_rules_that_cannot_be_read_change_nothing(broker: ServingBroker, client: RawClient) -> None:
    client.ask(CREATE, 3, {"creations": [RULE]})
    broker.rules.rows = [*broker.rules.rows, ["strange"]]
    access = broker.context.access
    assert access is not None
    broker.on_loop(access.refresh)
    (made,) = client.ask(CREATE, 3, {"creations": [{**RULE, "operation": 4}]}).results
    assert made.error_code != 0
    assert described(client) == {tuple(CREATED)}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_an_authorizer_the_response_says_so(tmp_path_factory: pytest.TempPathFactory, version: int) -> None:
    def told(one: Any) -> tuple[int, bool]:
        return int(one.error_code), "no authorizer" in one.error_message

    refused = (int(ErrorCode.SECURITY_DISABLED), True)
    with ServingBroker(tmp_path_factory.mktemp("broker")) as broker, broker.client() as client:
        answer = client.ask(DESCRIBE, version, FILTER)
        assert (told(answer), answer.resources) == (refused, ())
        assert [told(one) for one in client.ask(CREATE, version, {"creations": [RULE, RULE]}).results] == [refused] * 2
        deleted = client.ask(DELETE, version, {"filters": [FILTER, FILTER, FILTER]}).filter_results
        assert [(told(one), one.matching_acls) for one in deleted] == [(refused, ())] * 3
