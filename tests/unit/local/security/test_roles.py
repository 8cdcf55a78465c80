"""The table of roles, and the access rules that it becomes."""

import json
from pathlib import Path

import pytest

from headrace.broker.rights.authorizer import Authorizer
from headrace.broker.rights.rule import Operation, Pattern, Permission, Resource
from headrace.cli.main import main
from headrace.local.security.roles import LIVE, OFFLINE, ROLES, principal, role_of, rules_of, super_users, table


def authorizer(cluster: str, topics: tuple[str, ...]) -> Authorizer:
    rules = [rule for role in ROLES for rule in rules_of(role, cluster, topics)]
    return Authorizer(rules, tuple(super_users().split(";")), allow_if_no_rule=False)


@pytest.mark.parametrize("topics", [("*",), ("clicks",), ("cl*", "orders")])
def test_an_application_logs_its_events_and_reads_nothing(topics: tuple[str, ...]) -> None:
    decides = authorizer(LIVE, topics)
    who = principal(role_of("application"))

    def may(operation: Operation, name: str) -> bool:
        return decides.allows(who, "10.0.0.1", operation, Resource.TOPIC, name)

    assert may(Operation.WRITE, "clicks")
    assert may(Operation.WRITE, "_headrace.audit")
    assert not may(Operation.READ, "clicks")
    for name in ("_headrace.schemas", "_headrace.access", "_headrace.audit.checkpoint"):
        assert not may(Operation.WRITE, name), name
    assert may(Operation.WRITE, "other") is (topics == ("*",))


@pytest.mark.parametrize("topics", [("*",), ("clicks",)])
def test_only_the_registry_writes_schemas_and_nobody_reads_the_trail(topics: tuple[str, ...]) -> None:
    live, offline = authorizer(LIVE, topics), authorizer(OFFLINE, topics)
    plain = [role for role in ROLES if role.has_user and not role.is_super_user]

    def who_may(decides: Authorizer, operation: Operation, name: str) -> set[str]:
        return {role.name for role in plain if decides.allows(principal(role), "*", operation, Resource.TOPIC, name)}

    assert who_may(live, Operation.WRITE, "_headrace.schemas") == {"registry"}
    assert who_may(offline, Operation.WRITE, "_headrace.schemas") == {"mirror"}
    assert who_may(live, Operation.WRITE, "_headrace.audit.checkpoint") == {"audit"}
    assert who_may(live, Operation.READ, "_headrace.access") == set()


def test_no_right_is_named_twice_and_each_names_what_it_breaks() -> None:
    for role in ROLES:
        keys = [(right.cluster, right.operation, right.resource, right.name) for right in role.rights]
        assert len(set(keys)) == len(keys), role.name
        assert all(right.breaks for right in role.rights)


def test_prefixes_and_names_become_patterns() -> None:
    rules = rules_of(role_of("reader"), LIVE, ("shop.*", "clicks"), ("g-*",))
    named = {(rule.name, rule.pattern) for rule in rules if rule.operation is Operation.READ}
    own = ("headrace.reported.", Pattern.PREFIXED)
    assert named == {("shop.", Pattern.PREFIXED), ("clicks", Pattern.LITERAL), ("g-", Pattern.PREFIXED), own}
    assert {rule.name for rule in rules if rule.operation is Operation.CREATE} == {"shop.", "clicks.quarantine"}
    assert {rule.permission for rule in rules} == {Permission.ALLOW}


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["security", "rights", "--role", "registry", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert ["TOPIC", "LITERAL", "_headrace.schemas", "User:registry", "WRITE"] in printed
    assert main(["security", "rights", "--role", "registry"]) == 0
    assert "User:registry from * may WRITE TOPIC LITERAL:_headrace.schemas" in capsys.readouterr().out


def test_the_manual_has_the_table() -> None:
    """To renew it: print `headrace.local.security.roles.table()`."""
    text = (Path(__file__).parents[4] / "docs" / "RIGHTS.md").read_text()
    assert f"<!-- roles -->\n{table()}\n<!-- end -->" in text
