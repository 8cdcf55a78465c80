"""What a user reads is plain English (`CONTRIBUTING.md`): no message of the code and no manual uses an idiom of this list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

IDIOMS = {
    "whoever, whatever": r"\b(whoever|whosoever)\b",
    "somebody": r"\b(somebody|nobody)\b",
    "told for reported": r"\b(is|are|was|were|be|been) told\b|\btells? (of|the audit)\b|\btold (of|by|as|with)\b",
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
}
CHANGED_ELSEWHERE = (
    "platform/audit/model/checks/producers.py",
    "spark/publish/",
    "spark/all_topics/",
)
"""Not looked at yet."""
MESSAGES = {
    ("platform/cli/audit_topic.py", "somebody"),  # the name of a user without one
    ("platform/local/supervisor/probes.py", "to stand for to be"),  # a state that `headrace status` shows
    ("platform/reader/reading_loop.py", "to go on"),  # an event of the log
}
"""File and idiom that may stay."""
MANUALS = {
    "CONTRIBUTING.md": 3, "docs/AGENT.md": 7, "docs/AUDIT.md": 1, "docs/AUDIT_RULES.md": 20, "docs/BENCHMARKS.md": 3,
    "docs/ENGINES.md": 1,
    "docs/FORMATS.md": 5, "docs/MIRROR.md": 3, "docs/OPERATIONS.md": 8, "docs/REGISTRY.md": 3, "docs/SDK.md": 4,
    "docs/SECURITY_TESTS.md": 1, "docs/SINKS.md": 4, "docs/SPARK_SOURCE.md": 2, "docs/WAREHOUSE.md": 2,
}  # fmt: skip
"""Most lines with an idiom on a page."""


def messages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each string of the packages that is no docstring."""
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
    found = [
        f"{name}: {text}"
        for name, text in messages()
        if re.search(IDIOMS[idiom], text) and (name, idiom) not in MESSAGES and not name.startswith(CHANGED_ELSEWHERE)
    ]
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
