"""Access rules: what may be kept, how they are written and read."""

import pytest

from headrace.broker.rights.rule import (
    Operation,
    Pattern,
    Permission,
    Resource,
    Rule,
    RuleFilter,
    fault_of,
    known,
    read,
    written,
)

RULE = Rule(Resource.TOPIC, "clicks", Pattern.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


def test_rules_are_read_as_they_were_written() -> None:
    rules = frozenset({RULE, RULE._replace(name="é*", pattern=Pattern.PREFIXED, permission=Permission.DENY)})
    assert read(written(rules)) == rules


@pytest.mark.parametrize(
    "row", [[], ["TOPIC"], ["TOPIC", "LITERAL", 7, "User:a", "*", "READ", "ALLOW"], ["TOPIC", "MATCH", *RULE[1:]], "TOPIC"]
)
def test_what_is_no_rule_is_refused_whole(row: list[str]) -> None:
    """A rule that is left out may be a DENY."""
    with pytest.raises(ValueError, match="no access rule"):
        read([*written([RULE]), row])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"resource": Resource.ANY}, "one type"),
        ({"pattern": Pattern.MATCH}, "LITERAL or PREFIXED"),
        ({"operation": Operation.ANY}, "one operation"),
        ({"permission": Permission.UNKNOWN}, "ALLOW or DENY"),
        ({"name": ""}, "names a resource"),
        ({"resource": Resource.CLUSTER}, "kafka-cluster"),
        ({"principal": "a"}, "TYPE:NAME"),
        ({"principal": "User:"}, "TYPE:NAME"),
        ({"host": ""}, "names a host"),
        ({"name": "x" * 1_001}, "at most 1000"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_explained(change: dict[str, object], why: str) -> None:
    assert why in str(fault_of(RULE._replace(**change)))  # type: ignore[arg-type]


def test_a_rule_that_can_be_kept_has_no_fault() -> None:
    assert fault_of(RULE) is None


def test_match_finds_every_rule_about_a_resource() -> None:
    wanted = RuleFilter(name="clicks", pattern=Pattern.MATCH)
    assert wanted.matches(RULE)
    assert wanted.matches(RULE._replace(name="*"))
    assert wanted.matches(RULE._replace(name="cl", pattern=Pattern.PREFIXED))
    assert not wanted.matches(RULE._replace(name="cl"))
    assert not RuleFilter(name="clicks").matches(RULE._replace(name="*"))


def test_a_number_that_kafka_may_have_one_day_is_unknown() -> None:
    assert known(Operation, 99) is Operation.UNKNOWN
