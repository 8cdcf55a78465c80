"""The docs for readers: every file they name is there, and decision records have one form."""

import re
from pathlib import Path

import pytest

from tests import sizes

ROOT = Path(__file__).parents[2]
PATHS = re.compile(r"`((?:platform|spark|dags|tests|docs|bench|deploy)/[A-Za-z0-9_./-]+)`")
WRITTEN_BY_BENCH = {"docs/BENCHMARKS.md"}


@pytest.mark.parametrize("page", ["READING.md", "GLOSSARY.md", "BROKER.md", "ARCHITECTURE.md", "SDK.md"])
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = PATHS.findall((ROOT / "docs" / page).read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists() and path not in WRITTEN_BY_BENCH] == []


def test_names_that_the_tour_points_at_are_in_their_files() -> None:
    text = (ROOT / "docs" / "READING.md").read_text()
    pointed = re.findall(r"`(platform/[a-z_/]+\.py)`,? `([A-Za-z_.]+)`", text)
    assert pointed
    for path, name in pointed:
        assert name.split(".")[-1] in (ROOT / path).read_text(), (path, name)


LONGEST_LINE = 200
"""Characters of a line in a decision."""
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_a_page_of_context_decision_and_consequences(record: Path) -> None:
    lines = record.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
    assert len("\n".join(lines)) <= sizes.FAR_TOO_MANY_CHARACTERS
    assert [number for number, line in enumerate(lines, 1) if len(line) > LONGEST_LINE] == []


def test_each_decision_has_a_number_of_its_own_which_its_title_repeats() -> None:
    numbers = [int(record.name.partition("-")[0]) for record in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    assert [int(record.read_text().removeprefix("# ").partition(".")[0]) for record in DECISIONS] == numbers
