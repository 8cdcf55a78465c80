"""What a user reads is plain English (`CONTRIBUTING.md`): no message of the code and no manual uses an idiom of this list."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

IDIOMS = {
    "whoever, whatever": r"\b(whoever|whosoever)\b",
    "somebody": r"\b(somebody|nobody)\b",
    "told for reported": r"\btold\b(?!\.json)|\btells? (of|the audit)\b",
    "to hear of": r"\b(hears?|heard) of\b",
    "to let go": r"\b(lets?|letting) go\b",
    "to look at, in the passive": r"\b(is|are|was|were|be) looked at\b",
    "to know no": r"\bknows? (no|nothing)\b",
    "who without a noun": r"(^|[.;:] )[Ww]ho (is|has|reads|asks|wants|was|does|can|may)\b",
    "in vain, for ever": r"\bin vain\b|\bfor ever\b",
    "to be had": r"\b(be|is|are) had\b",
    "books for reports": r"\bbooks\b(?!\.sqlite)",
    "so many for this many": r"\b(after|than|of|every|for|the last|to) so (many|much|long)\b|\bso (many|much) of\b",
    "a word for a statement": r"\b(gave|gives|gave|said) (a|its|their|his) words?\b|\b(its|last) word\b",
    "anew": r"\banew\b",
    "for good": r"\bfor good\b",
    "once more": r"\bonce more\b",
    "all the same": r"\ball the same\b",
    "by itself": r"\bby itself\b",
    "in silence": r"\bin silence\b",
    "to stand for to be": r"\bstands? (there|here|where|still|at|in|on|twice|behind|before)\b",
    "to go on": r"\b(go|goes|went) on\b",
    "to pass over": r"\bpass(es|ed)? over\b",
    "is no": r"\b(it|this|that|\}|'|`|\)) (is|was) no (?!longer\b|more\b|one\b|other\b|such\b|need\b|way\b|harm\b)[a-z]",
    "are no": r"\b(they|these|those|that|which|and|but|\}|`) are no (?!longer\b|more\b)[a-z]",
}
MESSAGES = {
    ("platform/cli/audit_topic.py", "somebody"),  # the name of a user without one
    ("platform/local/supervisor/probes.py", "to stand for to be"),  # a state that `headrace status` shows
    ("platform/reader/reading_loop.py", "to go on"),  # an event of the log
}
"""File and idiom that may stay."""
MANUALS = {"docs/BENCHMARKS.md": 3}
"""Most lines with an idiom on a page."""


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each string of the packages that is not a docstring."""
    return tuple(_messages())


def _messages() -> Iterator[tuple[str, str]]:
    for room in ("platform", "spark", "dags"):
        for path in sorted((TOP / room).rglob("*.py")):
            name = path.relative_to(TOP).as_posix()
            tree = ast.parse(path.read_text())
            inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if id(node) in inner:
                    continue
                if isinstance(node, ast.JoinedStr):
                    yield name, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield name, node.value


@pytest.mark.parametrize("idiom", IDIOMS)
def test_no_message_of_the_code_has_the_idiom(idiom: str) -> None:
    found = [f"{name}: {text}" for name, text in messages() if re.search(IDIOMS[idiom], text) and (name, idiom) not in MESSAGES]
    assert found == [], f"{idiom}: use the field's word"


def manuals() -> dict[str, int]:
    """Return how many lines with an idiom each manual has; decisions and experiments are records of their time."""
    pages = [TOP / "README.md", TOP / "CONTRIBUTING.md", *(TOP / "docs").glob("*.md")]
    every = re.compile("|".join(IDIOMS.values()))
    return {
        page.relative_to(TOP).as_posix(): sum(bool(every.search(line)) for line in page.read_text().splitlines())
        for page in pages
    }


def test_no_manual_has_more_idioms_than_it_is_allowed() -> None:
    assert {page: count for page, count in manuals().items() if count > MANUALS.get(page, 0)} == {}


@pytest.mark.parametrize(
    "text",
    ["a file that nobody reads", "it goes on by itself", "it is no number", "the log stands at 7", "the audit is told of 7 rows"],
)
def test_an_idiom_is_found(text: str) -> None:
    assert any(re.search(pattern, text) for pattern in IDIOMS.values())
