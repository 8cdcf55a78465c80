"""Writes the table of situations of docs/AUDIT.md from the marks on tests: `python -m tests.situations`.

    @pytest.mark.situation("offline log", "one record is lost", shown="…", when="…", do="…", case="lost")

A situation is described by one of its tests; its other tests name its area and title alone. `case` is the id of a case of a
parametrized test. Tests are read, never imported.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "AUDIT.md"
BEGIN, END = "<!-- situations -->\n", "<!-- end -->"
AREAS = (
    "producers",
    "event times",
    "agent and journals",
    "live log",
    "mirror",
    "offline log",
    "warehouse",
    "schemas and quarantine",
    "topics",
    "groups and sinks",
    "audit's own data",
)
LONGEST_CELL = 120
UNIT = "tests/unit/"

Case = tuple[str, str, str]
"""File, test, id of its case ('' for all)."""


@dataclass(slots=True)
class Situation:
    """What goes wrong, what the audit shows, when, and what an operator does."""

    area: str
    title: str
    shown: str = ""
    when: str = ""
    do: str = ""
    tests: list[Case] = field(default_factory=list)


def situations() -> list[Situation]:
    """Return every situation that a test is marked with, by area and title."""
    found: dict[tuple[str, str], Situation] = {}
    for path in sorted((TOP / "tests").rglob("test_*.py")):
        for test, mark in _marks(path):
            area, title = (ast.literal_eval(one) for one in mark.args)
            words = {one.arg: ast.literal_eval(one.value) for one in mark.keywords}
            one = found.setdefault((area, title), Situation(area, title))
            one.tests.append((path.relative_to(TOP).as_posix(), test, words.pop("case", "")))
            for name, text in words.items():
                assert not getattr(one, name or ""), f"{title}: two tests describe it"
                setattr(one, name or "", text)
    return sorted(found.values(), key=lambda one: (AREAS.index(one.area), one.title))


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| situation | shown | when | what to do |", "|---|---|---|---|"]
    area = ""
    for one in situations():
        if one.area != area:
            area = one.area
            lines.append(f"| **{area}** | | | |")
        lines.append(f"| {one.title} | {one.shown} | {one.when} | {one.do} |")
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    """Return the page with the table of now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def _marks(path: Path) -> Iterator[tuple[str, ast.Call]]:
    text = path.read_text()
    if "mark.situation(" not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                if isinstance(one, ast.Call) and ast.unparse(one.func) == "pytest.mark.situation":
                    yield node.name, one


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    sys.exit(0)
