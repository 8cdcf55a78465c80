"""The file of a `Deduplicator` is what docs/FORMATS.md says: read with sqlite3 alone, by the document's words."""

import re
import sqlite3
from pathlib import Path

import pytest

from headrace.client.consumer.stream_message import Message
from headrace.client.deduplication import Deduplicator

FORMATS = Path(__file__).parents[4] / "docs" / "FORMATS.md"


def message(offset: int, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> Message:
    return Message("clicks", 3, offset, offset + 1, 0, None, b"", (), producer_id, epoch, sequence)


def section() -> str:
    return FORMATS.read_text().partition("## What a `Deduplicator` remembers")[2].partition("\n## ")[0]


def rows_of(table: str) -> list[list[str]]:
    """Return the cells of a table of the section, by its first title."""
    lines = section().partition(f"| {table} |")[2].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" `") for cell in line.strip("|").split("|")])
    return rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Written with the messages that the document names."""
    path = tmp_path / "seen"
    told = section().partition("Offsets ")[2].partition(" are the rows")[0]
    form = r"(\d+ and \d+) of `clicks` partition 3, and there the sequences ([\d, and]+) of producer 7 in epoch 1,"
    named = re.fullmatch(form, told)
    assert named is not None
    with Deduplicator(path=path, now_ms=lambda: 5_000) as seen:
        for offset in map(int, re.findall(r"\d+", named[1])):
            seen.done(message(offset))
        for sequence in map(int, re.findall(r"\d+", named[2])):
            seen.done(message(900 + sequence, 7, 1, sequence))
    return path


def test_columns_types_and_key_are_the_documents(file: Path) -> None:
    with sqlite3.connect(file) as reading:
        assert reading.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("seen",)]
        columns = reading.execute("PRAGMA table_info(seen)").fetchall()
        assert reading.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        with pytest.raises(sqlite3.OperationalError, match="rowid"):
            reading.execute("SELECT rowid FROM seen")
    assert [[name, kind] for _, name, kind, *_ in columns] == [row[:2] for row in rows_of("column")]
    key = re.search(r"primary key \(([^)]+)\)", section())
    assert key is not None
    assert [name for _, name, *_, is_key in columns if is_key] == re.findall(r"\w+", key[1])


def test_the_documents_example_is_what_stands_in_the_file(file: Path) -> None:
    expected = [(source, int(start), int(stop), 5_000) for source, start, stop in rows_of("source")]
    assert len(expected) == 3
    with sqlite3.connect(file) as reading:
        assert reading.execute("SELECT * FROM seen ORDER BY source, start").fetchall() == expected
