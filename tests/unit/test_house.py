"""The house is as `docs/ARCHITECTURE.md` draws it: every room is importable under its name, the standard `platform` is not
shadowed, folders and files stay small, and no suite of tests imports from another one.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sizes
from tests.conftest import OF_MAKE

ROOT = Path(__file__).parents[2]
ROOMS = [*sorted(room.name for room in (ROOT / "platform").iterdir() if (room / "__init__.py").exists()), "spark"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_importable_under_headrace(room: str) -> None:
    module = importlib.import_module(f"headrace.{room}")
    folder = ROOT / ("spark" if room == "spark" else f"platform/{room}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve().parent == folder


def test_import_platform_from_the_root_is_the_standard_library_s() -> None:
    code = "import platform; print(platform.python_implementation())"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() in ("CPython", "PyPy")
    assert not (ROOT / "platform" / "__init__.py").exists()


def test_no_python_file_is_far_too_long() -> None:
    lengths = sizes.file_lines()
    assert len(lengths) > 500
    assert {path: lines for path, lines in lengths.items() if lines > sizes.FAR_TOO_MANY_LINES} == {}


def test_no_query_takes_the_first_of_rows_in_no_order() -> None:
    """Fault: PostgreSQL 17 answered a LIMIT in another order than 15, and other windows were forgotten."""
    texts = [text for room in ("platform", "spark") for path in (ROOT / room).rglob("*.py") for text in texts_of(path)]
    limited = [text for text in texts if re.search(r"\bLIMIT ([?%:]|\d)", text)]
    assert len(limited) >= 9
    assert [text for text in limited if "ORDER BY" not in text] == []


def test_no_folder_holds_far_too_many_files() -> None:
    counts = sizes.folder_files()
    assert len(counts) > 40
    assert {folder: count for folder, count in counts.items() if count > sizes.FAR_TOO_MANY_FILES} == {}


def test_what_has_grown_is_listed_for_review(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "file_lines", lambda: {"platform/a.py": 401, "platform/b.py": 400, "platform/c.py": 500})
    monkeypatch.setattr(sizes, "folder_files", lambda: {"platform/d": 17})
    monkeypatch.setattr(sizes, "decision_characters", dict)
    assert [line.partition(":")[0] for line in sizes.for_review()] == ["platform/c.py", "platform/a.py", "platform/d"]


def test_what_make_exports_reaches_no_test() -> None:
    """Fault: a test of `up` failed for everybody who had set PORT_SHIFT."""
    exports = re.findall(r"^export (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = {name for words in exports for name in re.sub(r"[:?]?=.*", "", words).split()}
    assert "PORT_SHIFT" in names
    assert names <= {*OF_MAKE}
    assert not names & os.environ.keys()


ONE_SUITE = {"power": "crash", "simulate": "crash"}
"""`tests/power` holds a block device to the promises of `tests/crash`; `tests/simulate` puts replicas on its recorded disks."""


def test_no_suite_imports_from_another_one() -> None:
    tests = ROOT / "tests"
    strangers = [
        f"{path.relative_to(ROOT)} imports {module}: what several suites use lives in tests/support"
        for path in sorted(tests.rglob("*.py"))
        for module in modules_of_tests_in(path)
        if suite_of(module) not in (None, "support", suite_of(module_of(path)))
    ]
    assert strangers == []


def test_an_import_from_another_suite_is_found_however_it_is_written() -> None:
    path = ROOT / "tests" / "unit" / "client" / "test_it.py"
    source = (
        "import tests.unit.sdk.logged\n"
        "from tests.unit import sdk\n"
        "from ..sdk import conftest\n"
        "from .batches import batch_of\n"
        "def test() -> None:\n    from tests.integration.mirror.pair import Pair\n"
    )
    found = [(module, suite_of(module)) for module in imported(ast.parse(source), module_of(path))]
    assert found == [
        ("tests.unit.sdk.logged", "unit.sdk"),
        ("tests.unit.sdk", "unit.sdk"),
        ("tests.unit.sdk.conftest", "unit.sdk"),
        ("tests.unit.client.batches", "unit.client"),
        ("tests.integration.mirror.pair", "integration.mirror"),
    ]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def suite_of(module: str) -> str | None:
    """Return the suite that a module of `tests` belongs to: a room of the unit and integration tests, else the folder. None for
    the programs directly in `tests`.
    """
    parts = module.split(".")[1:]
    if parts[0] in ("unit", "integration"):
        return ".".join(parts[:2])
    return ONE_SUITE.get(parts[0], parts[0]) if (ROOT / "tests" / parts[0]).is_dir() else None


def modules_of_tests_in(path: Path) -> list[str]:
    return [module for module in imported(ast.parse(path.read_text()), module_of(path)) if module.startswith("tests.")]


def imported(tree: ast.Module, importer: str) -> Iterator[str]:
    """Yield the full name of every module that is imported anywhere in `tree`, wherever that can be told."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = importer.split(".")[: -node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            folder = ROOT.joinpath(*module.split("."))
            for name in node.names:
                is_module = (folder / f"{name.name}.py").exists() or (folder / name.name / "__init__.py").exists()
                yield f"{module}.{name.name}" if is_module else module


def texts_of(path: Path) -> Iterator[str]:
    """Yield every text of the file; of one with values in it, what stands between them."""
    inner: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            inner.update(node.values)
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield node.value
