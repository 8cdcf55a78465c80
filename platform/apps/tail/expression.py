"""The language of `--where`: comparisons of fields, `and`, `or`, `not`, parentheses. Pure; nothing of it is ever run as code.

    status >= 500 and not (path startswith "/health" or user.name in ("a", "b")) and _partition = 3

A path is names with dots and `[n]`: `a.b[0].c`; a name with other letters is in backticks. `_key`, `_partition`, `_offset`,
`_timestamp` (ms) and `_topic` are the record's own. Literals: numbers, texts in quotes, true, false, null. `=` and `!=` compare
anything; `<`, `<=`, `>`, `>=` numbers or texts; `contains` texts, lists and maps; `startswith`, `endswith` texts; `in` a list of
literals. What is missing is null. A comparison of unlike kinds is false (but `!=`, which is true).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import HeadraceError

MOST_CHARACTERS = 4_096
MOST_DEPTH = 50
Predicate = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<operator><=|>=|!=|==|=|<|>|\(|\)|,)
    |(?P<path>(?:[^\W\d]\w*|`[^`]+`)(?:\.(?:[^\W\d]\w*|`[^`]+`)|\[\d{1,9}\])*))""",
    re.VERBOSE,
)
_STEP = re.compile(r"`([^`]+)`|\[(\d+)\]|([^\W\d]\w*)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NAMED = {"true": True, "false": False, "null": None}
_COMPARISONS = ("=", "==", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith", "in")


class ExpressionRefused(HeadraceError):
    """The text is not an expression."""

    def __init__(self, text: str, at: int, why: str) -> None:
        self.at = at
        super().__init__(f"--where: {why}, at character {at + 1} of {text!r}: …{text[at : at + 20]!r}")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any

    def of(self, words: Mapping[str, Any]) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class _Path:
    steps: tuple[str | int, ...]

    def of(self, words: Mapping[str, Any]) -> Any:
        found: Any = words
        for step in self.steps:
            if isinstance(step, int):
                found = found[step] if isinstance(found, list) and step < len(found) else None
            else:
                found = found.get(step) if isinstance(found, Mapping) else None
        return found


def compile_expression(text: str) -> Predicate:
    """Return what tells whether a record's words (event fields and `_…`) match. Raises ExpressionRefused. It never raises."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionRefused(text[:100], 0, f"it has more than {MOST_CHARACTERS} characters")
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._cut())
        self._next = 0
        self._depth = 0

    def whole(self) -> Predicate:
        found = self._either()
        if self._peek().kind != "end":
            raise self._fault("this is not understood: `and` or `or` joins comparisons")
        return found

    def _cut(self) -> list[_Token]:
        found = []
        at = 0
        while at < len(self._text.rstrip()):
            match = _TOKEN.match(self._text, at)
            if match is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                raise ExpressionRefused(self._text, at, "unknown word")
            kind = match.lastgroup or ""
            found.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        return [*found, _Token("end", "", len(self._text))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _is(self, *words: str) -> bool:
        token = self._peek()
        return token.kind in ("operator", "path") and token.text in words

    def _fault(self, why: str) -> ExpressionRefused:
        return ExpressionRefused(self._text, self._peek().at, why)

    def _either(self) -> Predicate:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._fault(f"it is nested deeper than {MOST_DEPTH}")
        parts = [self._both()]
        while self._is("or"):
            self._take()
            parts.append(self._both())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else lambda words: any(one(words) for one in parts)

    def _both(self) -> Predicate:
        parts = [self._unless()]
        while self._is("and"):
            self._take()
            parts.append(self._unless())
        return parts[0] if len(parts) == 1 else lambda words: all(one(words) for one in parts)

    def _unless(self) -> Predicate:
        is_negated = False
        while self._is("not"):
            self._take()
            is_negated = not is_negated
        found = self._one()
        return (lambda words: not found(words)) if is_negated else found

    def _one(self) -> Predicate:
        if self._is("("):
            self._take()
            found = self._either()
            if not self._is(")"):
                raise self._fault("a closing parenthesis is missing")
            self._take()
            return found
        left = self._operand()
        if not self._is(*_COMPARISONS):
            raise self._fault(f"a comparison is missing: {', '.join(_COMPARISONS)}")
        operator = self._take().text
        right = self._list() if operator == "in" else self._operand()
        compare = _COMPARE[operator]
        return lambda words: compare(left.of(words), right.of(words))

    def _operand(self) -> _Literal | _Path:
        token = self._peek()
        if token.kind == "number":
            self._take()
            return _Literal(float(token.text) if re.search("[.eE]", token.text) else int(token.text))
        if token.kind == "text":
            self._take()
            return _Literal(_ESCAPE.sub(r"\1", token.text[1:-1]))
        if token.kind == "path" and token.text not in ("and", "or", "not", *_COMPARISONS):
            self._take()
            if token.text in _NAMED:
                return _Literal(_NAMED[token.text])
            return _Path(tuple(_step(one) for one in _STEP.finditer(token.text)))
        raise self._fault("a field, a number or a text in quotes is missing")

    def _list(self) -> _Literal:
        if not self._is("("):
            raise self._fault("`in` wants a list in parentheses")
        values = []
        while self._is("(", ","):
            self._take()
            one = self._operand()
            if not isinstance(one, _Literal):
                raise self._fault("a list holds numbers and texts only")
            values.append(one.value)
        if not self._is(")"):
            raise self._fault("a closing parenthesis is missing")
        self._take()
        return _Literal(values)


def _step(match: re.Match[str]) -> str | int:
    quoted, index, name = match.groups()
    return int(index) if index is not None else str(quoted or name)


def _equals(left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def of(left: Any, right: Any) -> bool:
        both = (left, right)
        if all(isinstance(one, int | float) and not isinstance(one, bool) for one in both):
            return compare(left, right)
        return all(isinstance(one, str) for one in both) and compare(left, right)

    return of


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    if isinstance(left, list):
        return any(_equals(one, right) for one in left)
    return isinstance(left, Mapping) and isinstance(right, str) and right in left


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": _equals,
    "==": _equals,
    "!=": lambda left, right: not _equals(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "contains": _contains,
    "startswith": lambda left, right: isinstance(left, str) and isinstance(right, str) and left.startswith(right),
    "endswith": lambda left, right: isinstance(left, str) and isinstance(right, str) and left.endswith(right),
    "in": lambda left, right: any(_equals(left, one) for one in right),
}
