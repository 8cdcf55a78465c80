"""The table of situations in docs/AUDIT.md is that of the marks on tests. The tests of a situation are run, and speak of what
its row shows: each verdict, number and name of the column 'shown' is in one of them, or in a helper, fixture or method that they
use.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import situations
from tests.situations import Situation

ROOT = Path(__file__).parents[2]
FOLLOWED = ("tests", "headrace.local.drills")
"""Packages whose helpers are looked into."""
WORD = re.compile(r"\b[A-Z]{4,}\b|`([a-z_]+)(?:: [a-z]+)?`|\b(?:missing|doubled|altered|quarantined|malformed|refuses)\b")
MEANT = {"refuses": "refused", "quarantined": "quarantine"}
"""A row's word → its stem in tests."""
SITUATIONS = situations.situations()


# -- reading tests -------------------------------------------------------------------------------------------------------


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """Return what a file defines at its top, by name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        found.update({one.id: node for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)})
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
    return found


@cache
def imported(path: Path) -> dict[str, Path]:
    """Return name → file, for what a file imports from the tests' own helpers."""
    found: dict[str, Path] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level:
            package = path.relative_to(ROOT).parts[: -node.level]
            module = ".".join([*package, *([module] if module else [])])
        if not module.startswith(FOLLOWED):
            continue
        place = ROOT / ("src" if module.startswith("headrace") else "") / Path(*module.split("."))
        for one in node.names:
            for file in (place.with_suffix(".py"), place / f"{one.name}.py", place / "__init__.py"):
                if file.exists():
                    found[one.asname or one.name] = file
                    break
    return found


def conftests(path: Path) -> list[Path]:
    return [folder / "conftest.py" for folder in path.parents if (folder / "conftest.py").exists()]


def used(node: ast.AST) -> set[str]:
    """Return every name that the code mentions: variables, attributes, parameters (fixtures among them)."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    names |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return names | {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}


def parts(node: ast.stmt, names: set[str]) -> Iterable[ast.AST]:
    """Return of a class its fields and those methods that somebody uses, of anything else the whole."""
    if not isinstance(node, ast.ClassDef):
        return [node]
    return [one for one in node.body if not isinstance(one, ast.FunctionDef) or one.name in {"__init__", *names}]


def places(path: Path, names: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield where the names are defined that code of this file mentions: there, in a conftest, or where they come from."""
    for file in (path, *conftests(path)):
        here, elsewhere = definitions(file), imported(file)
        for name in names:
            if name in here:
                yield file, name
            elif name in elsewhere:
                there = definitions(elsewhere[name])
                # A name of the file, or the file itself as a module.
                yield from ((elsewhere[name], one) for one in ({name} & there.keys() or names & there.keys()))


@cache
def code_of(path: Path, test: str) -> str:
    """Return the code of a test and of all helpers, fixtures and methods of ours that it uses."""
    names, reached = {test}, {(path, test)}
    while True:
        code = [part for file, name in sorted(reached) for part in parts(definitions(file)[name], names)]
        mentioned = names.union(*map(used, code))
        more = reached.union(*(places(file, mentioned) for file in {file for file, _ in reached}))
        if (mentioned, more) == (names, reached):
            return "\n".join(map(ast.unparse, code))
        names, reached = mentioned, more


# -- what must hold ------------------------------------------------------------------------------------------------------


def test_the_table_of_the_page_is_that_of_the_marks() -> None:
    page = situations.PAGE.read_text()
    assert situations.filled(page) == page, "run `python -m tests.situations`"


def test_each_situation_is_described_in_short_cells() -> None:
    assert len(SITUATIONS) > 80
    for one in SITUATIONS:
        cells = {"title": one.title, "shown": one.shown, "when": one.when, "do": one.do}
        assert [name for name, text in cells.items() if not text or len(text) > situations.LONGEST_CELL] == [], one.title


def test_every_test_of_a_situation_is_always_run_and_has_the_case_that_is_named() -> None:
    for one in SITUATIONS:
        for path, name, case in one.tests:
            test = definitions(ROOT / path)[name]
            assert isinstance(test, ast.FunctionDef)
            marks = "\n".join(ast.unparse(mark) for mark in test.decorator_list if "mark.situation" not in ast.unparse(mark))
            assert not re.search(r"\b(skip|skipif|xfail)\b", marks), f"{one.title}: {path}::{name} is not always run"
            if case:
                assert "parametrize" in marks, f"{one.title}: {path}::{name} has no cases"
                listed = [
                    ast.unparse(node) for node in definitions(ROOT / path).values() if not isinstance(node, ast.FunctionDef)
                ]
                assert f"'{case}'" in "\n".join([marks, *listed]), f"{one.title}: {path}::{name} has no case {case}"


@pytest.mark.parametrize("one", SITUATIONS, ids=lambda one: one.title)
def test_the_tests_of_a_situation_speak_of_what_it_shows(one: Situation) -> None:
    code = "\n".join(unmarked(code_of(ROOT / path, name)) for path, name, _ in one.tests)
    for word in WORD.finditer(re.sub(r"never [A-Z]+", "", one.shown)):
        name = word[1] or word[0]
        assert MEANT.get(name, name) in code, f"{one.title}: shows {name}, and no test of it says so"


def test_each_test_that_plants_a_fault_has_its_situation() -> None:
    marked = {(path, name) for one in SITUATIONS for path, name, _ in one.tests}
    for path in (ROOT / "tests" / "audit_faults").glob("test_[1-7]_*.py"):
        for name in definitions(path):
            if name.startswith("test_"):
                assert (str(path.relative_to(ROOT)), name) in marked, f"{path.name}::{name} has no mark `situation`"


def unmarked(code: str) -> str:
    """Return the code without the marks, which repeat what is shown."""
    return re.sub(r"^@pytest\.mark\.situation\(.*\)$", "", code, flags=re.MULTILINE)
