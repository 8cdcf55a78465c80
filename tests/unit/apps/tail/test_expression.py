"""The language of `--where`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.apps.tail.expression import MOST_CHARACTERS, ExpressionRefused, compile_expression

EVENT = {
    "status": 503,
    "path": "/api/x",
    "user": {"name": "ana", "tags": ["a", "b"]},
    "ok": True,
    "ratio": 0.5,
    "none": None,
    "odd name": 1,
    "_partition": 3,
    "_timestamp": 1_000,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("status = 503", True),
        ("status == 503.0", True),
        ("status != 200", True),
        ("status >= 500 and status < 600", True),
        ("status > 503", False),
        ("path startswith \"/api\" and path endswith 'x'", True),
        ('user.name in ("ana", "bob")', True),
        ("status in (200, 204)", False),
        ('user.tags[1] = "b"', True),
        ("user.tags[7] = null", True),
        ('user.tags contains "a"', True),
        ('user contains "name"', True),
        ("ok = true", True),
        ("ok = 1", False),
        ("none = null and missing = null and missing.deeper = null", True),
        ('status < "9"', False),
        ('status != "503"', True),
        ("missing > 0 or missing < 0", False),
        ("not status = 200", True),
        ("not not status = 200", False),
        ("not (status = 503 or ok = false)", False),
        ("ok = false and ok = false or ok = true", True),
        ("ok = true or ok = false and ok = false", True),
        ("`odd name` = 1", True),
        ("_partition = 3 and _timestamp > -1", True),
        ("ratio = 5e-1", True),
        (r'path = "/api\x"', False),
        ("5 < status", True),
    ],
)
def test_what_matches(text: str, expected: bool) -> None:
    assert compile_expression(text)(EVENT) is expected


@pytest.mark.parametrize(
    "text",
    ["", "status", "status =", "= 5", "status = 5 5", "(status = 5", "status = 5)", "status in 5", "status in (a)", "a ~ 5",
     "a = 'x", "and = 5", "a = 5 and", "not", "__import__('os')", "a.b() = 1", "x = 5; y = 6", "a = 12abc",
     "(" * 60 + "a = 1" + ")" * 60],
)  # fmt: skip
def test_what_is_no_expression_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionRefused, match=r"--where: .* at character \d+"):
        compile_expression(text)


def test_a_long_one_is_refused() -> None:
    with pytest.raises(ExpressionRefused, match="characters"):
        compile_expression("a = 1 or " * MOST_CHARACTERS + "a = 1")


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "a", "ab", "b"]))
LITERALS = VALUES.map(lambda value: json.dumps(value))
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith"])


@given(st.dictionaries(st.sampled_from(["a", "b"]), VALUES), st.sampled_from(["a", "b", "c"]), OPERATORS, LITERALS)
def test_comparisons_agree_with_plain_python(event: dict[str, object], name: str, operator: str, literal: str) -> None:
    left, right = event.get(name), json.loads(literal)
    both_text = isinstance(left, str) and isinstance(right, str)
    both_numbers = type(left) is int and type(right) is int
    expected = {
        "=": lambda: type(left) is type(right) and left == right,
        "!=": lambda: not (type(left) is type(right) and left == right),
        "contains": lambda: both_text and right in left,
        "startswith": lambda: both_text and left[: len(right)] == right,
        "endswith": lambda: both_text and left.endswith(right),
    }.get(operator) or (lambda: (both_text or both_numbers) and eval(f"left {operator} right", {"left": left, "right": right}))
    assert compile_expression(f"{name} {operator} {literal}")(event) == expected()


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        matches = compile_expression(text)
    except ExpressionRefused:
        return
    assert matches(EVENT) in (True, False)
