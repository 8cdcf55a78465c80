"""Kafka's access rules (ACLs) and the filters that find them. Pure: no client, no store. Numbers and words are Kafka's.

Source: Kafka's `AclBinding`, `AclBindingFilter` and the messages CreateAcls, DescribeAcls, DeleteAcls.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple, TypeVar

ANY_NAME = "*"
"""As a literal name: every resource of its type. As a host: every host."""
ANY_USER = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The only resource of type Cluster."""
LONGEST_FIELD = 1_000
"""Characters of a name, a principal or a host in a rule."""


class Resource(IntEnum):
    """What a rule is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How a rule names its resources."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In a filter: every rule that is about the resource of this name."""
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is to be done with the resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether the rule grants or forbids."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Rule(NamedTuple):
    """One rule: this principal, from this host, may (or may not) do this with these resources."""

    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    """`User:alice`; `User:*` is everyone."""
    host: str
    """An address as text; `*` is every one."""
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        said = "may" if self.permission is Permission.ALLOW else "may not"
        return (
            f"{self.principal} from {self.host} {said} {self.operation.name} {self.resource.name} {self.pattern.name}:{self.name}"
        )


class RuleFilter(NamedTuple):
    """Finds rules. ANY and None match everything; MATCH finds each rule that is about a resource of this name."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, rule: Rule) -> bool:
        return (
            self.resource in (Resource.ANY, rule.resource)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: Rule) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, rule.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not Pattern.MATCH:
            return self.name == rule.name
        if rule.pattern is Pattern.LITERAL:
            return rule.name in (self.name, ANY_NAME)
        return self.name.startswith(rule.name)


def fault_of(rule: Rule) -> str | None:
    """Return why the rule cannot be kept, None when it can. As Kafka's `validateNewAcl`."""
    if rule.resource in (Resource.UNKNOWN, Resource.ANY):
        return f"a rule is about one type of resource, not {rule.resource.name}"
    if rule.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        return f"a rule's pattern is LITERAL or PREFIXED, not {rule.pattern.name}"
    if rule.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"a rule is about one operation or ALL, not {rule.operation.name}"
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        return f"a rule's permission is ALLOW or DENY, not {rule.permission.name}"
    if not rule.name:
        return "a rule names a resource; * is all of a type"
    if rule.resource is Resource.CLUSTER and rule.name != CLUSTER_NAME:
        return f"the only resource of type CLUSTER is {CLUSTER_NAME}"
    kind, separator, name = rule.principal.partition(":")
    if not (kind and separator and name):
        return f"the principal {rule.principal[:100]!r} is not TYPE:NAME, such as User:alice"
    if not rule.host:
        return "a rule names a host; * is every host"
    if max(map(len, (rule.name, rule.principal, rule.host))) > LONGEST_FIELD:
        return f"name, principal and host have at most {LONGEST_FIELD} characters each"
    return None


Kind = TypeVar("Kind", Resource, Pattern, Operation, Permission)


def known(kind: type[Kind], number: int) -> Kind:
    """Return the member with this number, UNKNOWN where Kafka has none here."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def written(rules: Iterable[Rule]) -> list[list[str]]:
    """Return the rules as lists of words, sorted: what the store keeps and what the command prints as JSON."""
    return sorted(
        [
            rule.resource.name,
            rule.pattern.name,
            rule.name,
            rule.principal,
            rule.host,
            rule.operation.name,
            rule.permission.name,
        ]
        for rule in rules
    )


def read(rows: Iterable[Iterable[str]]) -> frozenset[Rule]:
    """Return the rules of `written`. Raises ValueError for a row that is no rule: a rule left out may be a DENY."""
    rules = set()
    for row in rows:
        try:
            resource, pattern, name, principal, host, operation, permission = row
            rule = Rule(Resource[resource], name, Pattern[pattern], principal, host, Operation[operation], Permission[permission])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{row!r} is no access rule: {error!r}") from None
        if not all(isinstance(word, str) for word in (name, principal, host)) or (fault := fault_of(rule)) is not None:
            raise ValueError(f"{row!r} is no access rule: {fault or 'words are expected'}")
        rules.add(rule)
    return frozenset(rules)
