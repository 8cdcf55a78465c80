"""How the name in a client's certificate becomes the name of a principal: Kafka's `ssl.principal.mapping.rules` (KIP-371). Pure.

A list of rules with commas between them. The first that matches the whole name counts: `RULE:pattern/replacement/`, with `L` or
`U` behind it for lower or upper case, or `DEFAULT`, which takes the name as it is. In the replacement `$1` is the first group of
the pattern. A `/` in either is written `\\/`. Trap: Kafka's patterns are Java's. These are Python's, which differ in rare
constructs only (possessive quantifiers, `\\p{…}`)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:[^/\\]|\\.)*)/((?:[^/\\]|\\.)*)/([LU]?))\s*")
"""Kafka's grammar. Its pattern and replacement are what stands between slashes that have no backslash before them."""
_GROUP = re.compile(r"\$(\d)|\\(.)")
LONGEST_RULES = 10_000


class BadRules(ValueError):
    """The rules cannot be read."""


class NoRuleMatches(ValueError):
    """No rule matches a name: its owner is refused."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None

        def put(mark: re.Match[str]) -> str:
            return (found[int(mark[1])] or "") if mark[1] else mark[2]

        made = _GROUP.sub(put, self.replacement)
        return made.lower() if self.case == "L" else made.upper() if self.case == "U" else made


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """Rules in their order."""

    rules: Sequence[_Rule]

    @staticmethod
    def parse(text: str) -> "PrincipalRules":
        """Return the rules. Raises: BadRules."""
        if len(text) > LONGEST_RULES:
            raise BadRules(f"it has more than {LONGEST_RULES} characters")
        rules: list[_Rule] = []
        at = 0
        while True:
            found = _RULE.match(text, at)
            if found is None:
                raise BadRules(f"{text[at : at + 60]!r} is neither RULE:pattern/replacement/[LU] nor DEFAULT")
            rules.append(_rule(found))
            at = found.end()
            if at == len(text):
                return PrincipalRules(tuple(rules))
            if text[at] != ",":
                raise BadRules(f"a comma is missing before {text[at : at + 60]!r}")
            at += 1

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises: NoRuleMatches."""
        for rule in self.rules:
            if (name := rule.apply(distinguished_name)) is not None:
                return name
        raise NoRuleMatches(f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}")


def _rule(found: re.Match[str]) -> _Rule:
    if found[1]:
        return _Rule(None, "", "")
    try:
        pattern = re.compile(found[2].replace("\\/", "/"))
    except re.error as error:
        raise BadRules(f"{found[2]!r} is not a pattern: {error}") from None
    replacement = found[3].replace("\\/", "/")
    if strange := [one[1] for one in _GROUP.finditer(replacement) if one[1] and int(one[1]) > pattern.groups]:
        raise BadRules(f"{found[2]!r} has no group {strange[0]}")
    return _Rule(pattern, replacement, found[4])


def fault_of(text: str) -> str | None:
    """Return the fault of the rules, or None."""
    try:
        PrincipalRules.parse(text)
    except BadRules as error:
        return str(error)
    return None


DEFAULT_RULES = PrincipalRules((_Rule(None, "", ""),))
