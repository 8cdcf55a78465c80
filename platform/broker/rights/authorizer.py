"""Decides whether a principal may do something, as Kafka's `StandardAuthorizer` does. Pure.

    a super user may do everything
    a DENY rule about the resource forbids, however many rules allow
    an ALLOW rule about it grants; READ, WRITE, DELETE and ALTER grant DESCRIBE too, and ALTER_CONFIGS grants DESCRIBE_CONFIGS
    otherwise it is forbidden; with `allow.everyone.if.no.acl.found` it is granted if no rule at all is about the resource

`make test-rights` compares the decisions with Kafka's own.
"""

from collections.abc import Collection, Iterable

from .rule import ANY_NAME, ANY_USER, Operation, Pattern, Permission, Resource, Rule
from .rule_index import RuleIndex

MOST_REMEMBERED = 20_000
"""Decisions, about 300 bytes each. With more, all are forgotten: a full cache costs one decision of 5 µs a check."""

_GRANTED_BY = {
    Operation.DESCRIBE: frozenset(
        {Operation.ALL, Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


class Authorizer:
    """The decisions that follow from one set of rules. A change of the rules makes a new one, so no decision outlives them."""

    def __init__(self, rules: Iterable[Rule], super_users: Collection[str] = (), *, allow_if_no_rule: bool = False) -> None:
        self.index = RuleIndex(rules)
        self._super_users = frozenset(super_users)
        self._allow_if_no_rule = allow_if_no_rule
        self._remembered: dict[tuple[str, str, Operation, Resource, str], bool] = {}

    @property
    def rules(self) -> frozenset[Rule]:
        return self.index.rules

    def with_rules(self, rules: Iterable[Rule]) -> "Authorizer":
        """Return an authorizer of other rules with the same settings."""
        return Authorizer(rules, self._super_users, allow_if_no_rule=self._allow_if_no_rule)

    def is_super(self, principal: str) -> bool:
        return principal in self._super_users

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether it may. Hot: once a topic of each request; 0.3 µs when the same was asked before."""
        key = (principal, host, operation, resource, name)
        decision = self._remembered.get(key)
        if decision is None:
            decision = self._decide(*key)[0]
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = decision
        return decision

    def reason(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> str:
        """Return what the decision follows from, for a person: a rule, or that there is none."""
        return self._decide(principal, host, operation, resource, name)[1]

    def allows_some(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Return whether it may do this with at least one resource of the type, which need not exist.

        As Kafka's `authorizeByResourceType`: no operation implies another here.
        """
        if self.allows(principal, host, operation, resource, "hardcode"):  # Kafka's probe for super users
            return True
        rules = [
            rule
            for rule in self.index.of_type(resource)
            if rule.principal in (principal, ANY_USER)
            and rule.host in (host, ANY_NAME)
            and rule.operation in (operation, Operation.ALL)
        ]
        denied = {(rule.pattern, rule.name) for rule in rules if rule.permission is Permission.DENY}
        allowed = {(rule.pattern, rule.name) for rule in rules if rule.permission is Permission.ALLOW}
        everything = (Pattern.LITERAL, ANY_NAME)
        if everything in denied:
            return False
        if everything in allowed:
            return True
        return any(
            (pattern is Pattern.PREFIXED or (pattern, name) not in denied)
            and not any((Pattern.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
            for pattern, name in allowed
        )

    def operations(self, principal: str, host: str, resource: Resource, name: str, of: Iterable[Operation]) -> int:
        """Return which of the operations it may do, as a bit field: bit n for the operation with the number n."""
        bits = 0
        for operation in of:
            if self.allows(principal, host, operation, resource, name):
                bits |= 1 << operation
        return bits

    def _decide(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> tuple[bool, str]:
        if principal in self._super_users:
            return True, "super user"
        granting = _GRANTED_BY.get(operation) or (operation, Operation.ALL)
        granted_by: Rule | None = None
        is_named = False
        for rule in self.index.about(resource, name):
            is_named = True
            if rule.principal not in (principal, ANY_USER) or rule.host not in (host, ANY_NAME):
                continue
            if rule.permission is Permission.DENY:
                if rule.operation in (operation, Operation.ALL):
                    return False, str(rule)
            elif granted_by is None and rule.operation in granting:
                granted_by = rule
        if granted_by is not None:
            return True, str(granted_by)
        if is_named:
            return False, "no rule about the resource allows it"
        return self._allow_if_no_rule, "no rule is about the resource"
