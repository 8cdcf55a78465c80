"""Every situation that docs/AUDIT.md lists is shown by a test that exists: through real processes, or marked 'simulated'."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)(\[[a-z0-9_-]+\])?`")
SIMULATED = "simulated: "
UNIT = "tests/unit/"
COLUMNS = ["situation", "shown", "when", "what to do", "shown by"]


def rows() -> list[list[str]]:
    """Return the cells of each row of the table in section 'Situations', heading included."""
    section = (ROOT / "docs" / "AUDIT.md").read_text().split("\n## Situations\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_table_has_its_five_columns_in_every_row() -> None:
    assert rows()[0] == COLUMNS
    assert {len(row) for row in rows()} == {len(COLUMNS)}, [row for row in rows() if len(row) != len(COLUMNS)]
    assert len(rows()) > 25


def test_every_situation_names_tests_that_exist() -> None:
    for row in rows()[1:]:
        named = TEST.findall(row[-1])
        assert named, f"{row[0]}: names no test"
        for path, name, _ in named:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{row[0]}: there is no {path}::{name}"


def test_a_situation_is_called_simulated_just_where_no_real_process_shows_it() -> None:
    for row in rows()[1:]:
        paths = [path for path, _, _ in TEST.findall(row[-1])]
        assert row[-1].startswith(SIMULATED) == all(path.startswith(UNIT) for path in paths), row[0]
