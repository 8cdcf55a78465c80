"""Decisions about rights. `kafkas_answers.txt` has what Kafka's own authorizer decided (`python -m tests.rights --freeze 50`)."""

from pathlib import Path

import pytest

from headrace.broker.rights import authorizer
from headrace.broker.rights.authorizer import Authorizer
from headrace.broker.rights.rule import CLUSTER_NAME, Operation, Pattern, Permission, Resource, Rule
from tests.support.access_worlds import world

FROZEN = (Path(__file__).parent / "kafkas_answers.txt").read_text().splitlines()
HOST = "10.0.0.1"


def rule(
    name: str = "clicks",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    principal: str = "User:a",
    pattern: Pattern = Pattern.LITERAL,
    host: str = "*",
    resource: Resource = Resource.TOPIC,
) -> Rule:
    return Rule(resource, name, pattern, principal, host, operation, permission)


def may(rights: Authorizer, operation: Operation = Operation.READ, name: str = "clicks", principal: str = "User:a") -> bool:
    return rights.allows(principal, HOST, operation, Resource.TOPIC, name)


@pytest.mark.parametrize("line", FROZEN, ids=lambda line: line.split()[0])
def test_the_decision_is_kafkas(line: str) -> None:
    seed, _, answers = line.partition(" ")
    assert world(int(seed)).answers() == answers


def test_without_rules_everything_is_denied() -> None:
    assert not may(Authorizer([]))


def test_a_super_user_may_do_what_a_rule_denies() -> None:
    denied = rule(permission=Permission.DENY, operation=Operation.ALL)
    assert may(Authorizer([denied], ["User:a"]))


def test_deny_wins_over_every_allow() -> None:
    rules = [rule(), rule("cl", pattern=Pattern.PREFIXED), rule("*", permission=Permission.DENY, principal="User:*")]
    assert not may(Authorizer(rules))


def test_a_right_to_write_implies_describe_and_a_denied_write_does_not_deny_it() -> None:
    assert may(Authorizer([rule(operation=Operation.WRITE)]), Operation.DESCRIBE)
    both = [rule(operation=Operation.DESCRIBE), rule(operation=Operation.WRITE, permission=Permission.DENY)]
    assert may(Authorizer(both), Operation.DESCRIBE)


def test_everyone_is_allowed_only_where_no_rule_is_about_the_resource() -> None:
    """Fault of other authorizers: KAFKA-14435."""
    rights = Authorizer([rule(principal="User:b")], allow_if_no_rule=True)
    assert may(rights, name="orders")
    assert not may(rights)
    assert not may(Authorizer([rule("cli", pattern=Pattern.PREFIXED, principal="User:b")], allow_if_no_rule=True))


def test_a_rule_for_one_host_is_for_that_host() -> None:
    assert may(Authorizer([rule(host=HOST)]))
    assert not may(Authorizer([rule(host="10.0.0.2")]))


def test_a_rule_for_all_names_is_for_a_name_that_begins_with_a_star_too() -> None:
    """Kafka 4.1 forgets its rules for `*` there, so that a DENY does not deny."""
    rights = Authorizer([rule("*", resource=Resource.GROUP, permission=Permission.DENY), rule("*a", resource=Resource.GROUP)])
    assert not rights.allows("User:a", HOST, Operation.READ, Resource.GROUP, "*a")


def test_the_reason_names_the_rule() -> None:
    rights = Authorizer([rule(permission=Permission.DENY, principal="User:*")])
    why = rights.reason("User:a", HOST, Operation.READ, Resource.TOPIC, "clicks")
    assert why == "User:* from * may not READ TOPIC LITERAL:clicks"
    assert rights.reason("User:a", HOST, Operation.READ, Resource.TOPIC, "other") == "no rule is about the resource"


def test_operations_are_bits() -> None:
    rights = Authorizer([rule(operation=Operation.READ)])
    of = [Operation.READ, Operation.WRITE, Operation.DESCRIBE]
    assert rights.operations("User:a", HOST, Resource.TOPIC, "clicks", of) == 1 << 3 | 1 << 8
    assert rights.operations("User:a", HOST, Resource.CLUSTER, CLUSTER_NAME, of) == 0


def test_remembered_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "MOST_REMEMBERED", 100)
    rights = Authorizer([rule("t", pattern=Pattern.PREFIXED)])
    assert all(may(rights, name=f"t{number}") for number in range(1_000))
    assert len(rights._remembered) <= 100


def test_a_change_of_the_rules_forgets_no_super_user_and_no_setting() -> None:
    rights = Authorizer([rule()], ["User:root"], allow_if_no_rule=True).with_rules([])
    assert may(rights, name="any")
    assert rights.is_super("User:root")


def test_a_check_does_not_look_at_rules_about_others() -> None:
    """Bound: of ten thousand rules only those about the resource are looked at."""
    others = [rule(f"topic-{number}") for number in range(10_000)]
    rights = Authorizer([*others, rule()])
    assert len(list(rights.index.about(Resource.TOPIC, "clicks"))) == 1
