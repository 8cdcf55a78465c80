"""Finds the rules about one resource without looking at the others. Pure.

Literal rules are found by their name, prefixed ones by each length that a prefix of that resource type has.
"""

from collections.abc import Iterable, Iterator

from .rule import ANY_NAME, Pattern, Resource, Rule


class RuleIndex:
    """A set of rules that does not change."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = frozenset(rules)
        self._literal: dict[tuple[Resource, str], list[Rule]] = {}
        self._prefixed: dict[tuple[Resource, str], list[Rule]] = {}
        lengths: dict[Resource, set[int]] = {}
        self._by_type: dict[Resource, list[Rule]] = {}
        for rule in sorted(self.rules):
            self._by_type.setdefault(rule.resource, []).append(rule)
            if rule.pattern is Pattern.LITERAL:
                self._literal.setdefault((rule.resource, rule.name), []).append(rule)
            else:
                self._prefixed.setdefault((rule.resource, rule.name), []).append(rule)
                lengths.setdefault(rule.resource, set()).add(len(rule.name))
        self._lengths = {resource: sorted(of_type) for resource, of_type in lengths.items()}

    def about(self, resource: Resource, name: str) -> Iterator[Rule]:
        """Return the rules about this resource, each once."""
        yield from self._literal.get((resource, name), ())
        if name != ANY_NAME:
            yield from self._literal.get((resource, ANY_NAME), ())
        for length in self._lengths.get(resource, ()):
            if length > len(name):
                return
            yield from self._prefixed.get((resource, name[:length]), ())

    def of_type(self, resource: Resource) -> list[Rule]:
        """Return the rules about resources of this type."""
        return self._by_type.get(resource, [])
