"""Every situation that docs/AUDIT.md lists is shown by a test that exists and is run: through real processes, or 'simulated'.

And the test speaks of what its row promises: each verdict, number and name in the column 'shown' stands in one of the row's
tests, or in a helper, fixture or method that they use.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)(?:\[([a-z0-9_-]+)\])?`")
SIMULATED = "simulated: "
UNIT = "tests/unit/"
COLUMNS = ["situation", "shown", "when", "what to do", "shown by"]
FOLLOWED = ("tests", "headrace.local.drills")
"""Packages whose helpers are looked into."""
REAL = re.compile(r"\bsubprocess\.|\bProcess\(|\bcontrol\.(up|start)\b")
"""How tests start processes."""
WORD = re.compile(r"\b[A-Z]{4,}\b|`([a-z_]+)(?:: [a-z]+)?`|\b(?:missing|doubled|altered|quarantined|malformed|refuses)\b")
MEANT = {"refuses": "refused", "quarantined": "quarantine"}
"""A row's word → its stem in tests."""


def rows() -> list[list[str]]:
    """Return the cells of each row of the table in section 'Situations', heading included."""
    section = (ROOT / "docs" / "AUDIT.md").read_text().split("\n## Situations\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def shown() -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Yield each situation, what is shown of it, and its tests; 'as above' is what the row above shows."""
    before = ""
    for situation, what, *_, tests in rows()[1:]:
        before = before if what == "as above" else what
        yield situation, before, TEST.findall(tests)


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


def test_the_table_has_its_five_columns_in_every_row() -> None:
    assert rows()[0] == COLUMNS
    assert {len(row) for row in rows()} == {len(COLUMNS)}, [row for row in rows() if len(row) != len(COLUMNS)]
    assert len(rows()) > 45
    assert len({row[0] for row in rows()}) == len(rows()), "each situation once"


def test_every_situation_names_tests_that_exist_and_are_not_skipped() -> None:
    for row in rows()[1:]:
        named = TEST.findall(row[-1])
        assert named, f"{row[0]}: names no test"
        assert TEST.sub("", row[-1]).strip(" ,").removeprefix(SIMULATED.strip()) == "", f"{row[0]}: more than tests"
        for path, name, case in named:
            test = definitions(ROOT / path).get(name)
            assert isinstance(test, ast.FunctionDef), f"{row[0]}: there is no {path}::{name}"
            marks = "\n".join(map(ast.unparse, test.decorator_list))
            assert not re.search(r"\b(skip|skipif|xfail)\b", marks), f"{row[0]}: {path}::{name} is not always run"
            if case:
                assert "parametrize" in marks, f"{row[0]}: {path}::{name} has no cases"
                listed = [ast.unparse(one) for one in definitions(ROOT / path).values() if not isinstance(one, ast.FunctionDef)]
                assert f"'{case}'" in "\n".join([marks, *listed]), f"{row[0]}: {path}::{name} has no case {case}"


def test_a_situation_is_called_simulated_just_where_no_real_process_shows_it() -> None:
    for row in rows()[1:]:
        tests = [(path, name) for path, name, _ in TEST.findall(row[-1])]
        is_real = any(not path.startswith(UNIT) and REAL.search(code_of(ROOT / path, name)) for path, name in tests)
        assert row[-1].startswith(SIMULATED) != is_real, row[0]


@pytest.mark.parametrize(("situation", "what", "tests"), [pytest.param(*one, id=one[0]) for one in shown()])
def test_the_tests_of_a_situation_speak_of_what_it_shows(situation: str, what: str, tests: list[tuple[str, str, str]]) -> None:
    code = "\n".join(code_of(ROOT / path, name) for path, name, _ in tests)
    for word in WORD.finditer(re.sub(r"never [A-Z]+", "", what)):
        name = word[1] or word[0]
        assert MEANT.get(name, name) in code, f"{situation}: shows {name}, and no test of it says so"


def test_each_test_of_a_situation_has_its_row() -> None:
    named = {(path, name) for _, _, tests in shown() for path, name, _ in tests}
    for path in (ROOT / "tests" / "audit_faults").glob("test_[1-7]_*.py"):
        for name in definitions(path):
            if name.startswith("test_"):
                assert (str(path.relative_to(ROOT)), name) in named, f"no row of docs/AUDIT.md names {path.name}::{name}"
