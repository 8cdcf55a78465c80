"""Random sets of access rules, and questions about them: made from a seed, so that each can be played again.

Names are short and of few letters, so that literal rules, prefixes and resources meet. No name but `*` begins with `*`: Kafka
does not apply its rules for `*` to such a name, although its manual says 'any resource' (decision 72).
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from headrace.broker.rights.authorizer import Authorizer
from headrace.broker.rights.rule import CLUSTER_NAME, Operation, Pattern, Permission, Resource, Rule, RuleFilter

RESOURCES = [one for one in Resource if one > Resource.ANY]
OPERATIONS = [one for one in Operation if one > Operation.ALL]
CLIENTS = ("User:a", "User:b", "User:a:b", "Group:a", "User:CN=a,O=b")
"""Not `User:*`: Kafka answers a client of that name with an internal error."""
PRINCIPALS = (*CLIENTS, "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "127.0.0.1", "*")
QUESTIONS = 40
"""Of each set of rules."""


class May(NamedTuple):
    """May it do this with this resource?"""

    principal: str
    host: str
    operation: Operation
    resource: Resource
    name: str


class Some(NamedTuple):
    """May it do this with some resource of this type?"""

    principal: str
    host: str
    operation: Operation
    resource: Resource


class World(NamedTuple):
    """A set of rules with its settings, and what is asked."""

    seed: int
    rules: tuple[Rule, ...]
    super_users: tuple[str, ...]
    allow_if_no_rule: bool
    questions: tuple[May | Some | RuleFilter, ...]

    def answers(self) -> str:
        """Return our answers: one 0 or 1 a question, and for a filter one for each rule."""
        authorizer = Authorizer(self.rules, self.super_users, allow_if_no_rule=self.allow_if_no_rule)
        bits: list[bool] = []
        for asked in self.questions:
            match asked:
                case May():
                    bits.append(authorizer.allows(*asked))
                case Some():
                    bits.append(authorizer.allows_some(*asked))
                case RuleFilter():
                    bits += [asked.matches(rule) for rule in self.rules]
        return "".join("01"[bit] for bit in bits)

    def asked(self) -> Iterator[str]:
        """Return the lines that the oracle reads."""
        yield "\t".join(("world", ";".join(self.super_users), str(self.allow_if_no_rule).lower()))
        for rule in self.rules:
            yield "\t".join(("rule", *_words(rule)))
        yield "ready"
        for asked in self.questions:
            match asked:
                case May(principal, host, operation, resource, name):
                    yield "\t".join(("may", principal, host, operation.name, resource.name, name))
                case Some(principal, host, operation, resource):
                    yield "\t".join(("some", principal, host, operation.name, resource.name))
                case RuleFilter():
                    yield "\t".join(("find", *_words(asked)))
        yield "end"


def _words(one: Rule | RuleFilter) -> tuple[str, ...]:
    fields = (one.resource.name, one.pattern.name, one.name, one.principal, one.host, one.operation.name, one.permission.name)
    return tuple("-" if field is None else field for field in fields)


def world(seed: int) -> World:
    """Return the world of this seed."""
    chance = random.Random(seed)
    resources = chance.sample(RESOURCES, chance.choice((1, 2, len(RESOURCES))))
    operations = chance.sample(OPERATIONS, chance.choice((3, 5, len(OPERATIONS))))
    clients, hosts = chance.sample(CLIENTS, 2), chance.sample(HOSTS, 2)
    principals = [*clients, "User:*"]
    denials = chance.choice((0.1, 0.3, 0.5))

    def name(resource: Resource) -> str:
        if resource is Resource.CLUSTER:
            return CLUSTER_NAME
        if chance.random() < 0.15:
            return "*"
        return chance.choice("ab.é") + "".join(chance.choices("ab.*é", k=chance.choice((0, 0, 1, 1, 2, 3))))

    def rule() -> Rule:
        resource = chance.choice(resources)
        return Rule(
            resource,
            name(resource),
            chance.choice((Pattern.LITERAL, Pattern.PREFIXED)),
            chance.choice(principals),
            chance.choice(hosts),
            Operation.ALL if chance.random() < 0.15 else chance.choice(operations),
            Permission.DENY if chance.random() < denials else Permission.ALLOW,
        )

    def question() -> May | Some | RuleFilter:
        principal = chance.choice(CLIENTS if chance.random() < 0.1 else clients)
        host = chance.choice([one for one in HOSTS if one != "*"])
        operation, resource = chance.choice(operations), chance.choice(resources)
        kind = chance.random()
        if kind < 0.85:
            return May(principal, host, operation, resource, name(resource))
        if kind < 0.93:
            return Some(principal, host, operation, resource)
        return RuleFilter(
            chance.choice((Resource.ANY, resource)),
            chance.choice((None, name(resource), name(resource))),
            chance.choice((Pattern.ANY, Pattern.MATCH, Pattern.LITERAL, Pattern.PREFIXED)),
            chance.choice((None, principal)),
            chance.choice((None, host)),
            chance.choice((Operation.ANY, operation)),
            chance.choice((Permission.ANY, Permission.ALLOW, Permission.DENY)),
        )

    rules = tuple(dict.fromkeys(rule() for _ in range(chance.choice((0, 1, 3, 8, 20, 60)))))
    super_users = tuple(chance.sample(PRINCIPALS, 1)) if chance.random() < 0.1 else ()
    return World(seed, rules, super_users, chance.random() < 0.5, tuple(question() for _ in range(QUESTIONS)))
