"""Which files and folders have grown beyond what a reader takes in at once: a list for review, printed by `make lint`.

The sizes are hints. `tests/unit/test_house.py` and `test_docs.py` fail only far beyond them.
"""

from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
ROOMS = ("platform", "spark", "dags", "bench", "tests")
FILE_LINES, FAR_TOO_MANY_LINES = 400, 600
FOLDER_FILES, FAR_TOO_MANY_FILES = 16, 24
DECISION_CHARACTERS, FAR_TOO_MANY_CHARACTERS = 5_000, 8_000
"""Of a page: lines say little where they may be long."""
LISTS_BY_NATURE = {"platform/broker/handlers", "platform/broker/log", "platform/cli", "platform/wire", "platform/coordination"}
"""One file an API, a command, a message, a registry."""


def file_lines() -> dict[str, int]:
    """Return the lines of each Python file, by its path below the top."""
    files = (path for room in ROOMS for path in (TOP / room).rglob("*.py"))
    return {path.relative_to(TOP).as_posix(): len(path.read_text().splitlines()) for path in files}


def folder_files() -> dict[str, int]:
    """Return the files of each folder of the packages, without its `__init__.py` and without lists by nature."""
    folders = (path.parent for room in ("platform", "spark") for path in (TOP / room).rglob("__init__.py"))
    counts = {folder.relative_to(TOP).as_posix(): len([*folder.glob("*.py")]) - 1 for folder in folders}
    return {folder: count for folder, count in counts.items() if folder not in LISTS_BY_NATURE}


def decision_characters() -> dict[str, int]:
    """Return the length of each decision record."""
    records = sorted((TOP / "docs" / "decisions").glob("*.md"))
    return {path.relative_to(TOP).as_posix(): len(path.read_text()) for path in records}


def for_review() -> Iterator[str]:
    """Yield a line for each size beyond its hint, the largest of a kind first."""
    for sizes, hint, unit in (
        (file_lines(), FILE_LINES, "lines"),
        (folder_files(), FOLDER_FILES, "files"),
        (decision_characters(), DECISION_CHARACTERS, "characters"),
    ):
        for name, size in sorted(sizes.items(), key=lambda one: -one[1]):
            if size > hint:
                yield f"{name}: {size} {unit}, more than {hint}: look for the second noun"
