"""The audit's file: one SQLite database, one writing process, its tables, transactions.

Knows rows and files, not what they mean: `journal.py` writes the tier reports, `loading.py` reads them back, `audit_log.py` the
rest.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import StoreError

LAYOUT = 2
_CHANGES = {1: "ALTER TABLE runs ADD COLUMN retired TEXT"}
"""Layout → what makes the next one of it."""

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE logs (
    tier TEXT, topic TEXT, partition INTEGER, begins_at INTEGER, moved_ms INTEGER, caught_up_ms INTEGER,
    PRIMARY KEY (tier, topic, partition)) WITHOUT ROWID;
CREATE TABLE ranges (
    tier TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER,
    PRIMARY KEY (tier, topic, partition, from_offset)) WITHOUT ROWID;
CREATE TABLE range_windows (
    tier TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, window_start_ms INTEGER, count INTEGER, quarantined INTEGER,
    first_offset INTEGER, end_offset INTEGER, updated_ms INTEGER,
    PRIMARY KEY (tier, topic, partition, from_offset, window_start_ms)) WITHOUT ROWID;
CREATE TABLE live_producers (
    topic TEXT, window_start_ms INTEGER, producer_id INTEGER, partition INTEGER, count INTEGER,
    PRIMARY KEY (topic, window_start_ms, producer_id, partition)) WITHOUT ROWID;
CREATE TABLE redelivered (topic TEXT, window_start_ms INTEGER, count INTEGER, PRIMARY KEY (topic, window_start_ms)) WITHOUT ROWID;
CREATE TABLE runs (
    instance TEXT, epoch INTEGER, first_heard_ms INTEGER, heard_ms INTEGER, closed_ms INTEGER, next_sequence INTEGER,
    producer_ids TEXT, topics TEXT, gaps TEXT, seals TEXT, retired TEXT,
    PRIMARY KEY (instance, epoch)) WITHOUT ROWID;
CREATE TABLE producer_windows (
    instance TEXT, epoch INTEGER, topic TEXT, window_start_ms INTEGER, sequence INTEGER, counts TEXT, losses TEXT,
    heard_ms INTEGER,
    PRIMARY KEY (instance, epoch, topic, window_start_ms)) WITHOUT ROWID;
CREATE TABLE parts (
    tier TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, parts INTEGER, part INTEGER, report BLOB,
    PRIMARY KEY (tier, topic, partition, from_offset, to_offset, parts, part)) WITHOUT ROWID;
CREATE TABLE unreadable (
    number INTEGER PRIMARY KEY, tier TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, reason TEXT,
    at_ms INTEGER);
CREATE TABLE malformed (number INTEGER PRIMARY KEY, partition INTEGER, offset INTEGER, reason TEXT, at_ms INTEGER);
CREATE TABLE verdicts (
    topic TEXT, window_start_ms INTEGER, verdict TEXT, missing INTEGER, extra INTEGER, first_bad_tier TEXT, at_ms INTEGER,
    PRIMARY KEY (topic, window_start_ms)) WITHOUT ROWID;
CREATE TABLE verdict_changes (
    number INTEGER PRIMARY KEY, at_ms INTEGER, topic TEXT, window_start_ms INTEGER, from_verdict TEXT, to_verdict TEXT,
    missing INTEGER, extra INTEGER, first_bad_tier TEXT, reason TEXT);
"""


class Database:
    """The file. Used under one lock; every write happens inside `transaction`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_file: int | None = None
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open or make the file. Raises StoreError: another process has it, or it is not ours."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_file = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock_file)
            self._lock_file = None
            raise StoreError(f"another audit service writes {self.path}: stop it, or give --store another path") from None
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
            # A kill of the process loses nothing with NORMAL; a power cut may lose the last transactions, whole ones, and what
            # they held is read again from where the books then stand.
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._see_layout()
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(
                f"{self.path} is not a store of the audit: {error}; move it away, the books are counted again from the logs"
            ) from error

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._db is not None:
            self._db.close()
            self._db = None
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _see_layout(self) -> None:
        if not self.rows("SELECT name FROM sqlite_master WHERE type = 'table'"):
            with self.transaction():
                for statement in _TABLES.split(";"):
                    if statement.strip():
                        self.do(statement)
                self.put_fact("layout", LAYOUT)
        while (layout := self.fact("layout")) in _CHANGES:
            with self.transaction():
                self.do(_CHANGES[layout])
                self.put_fact("layout", layout + 1)
        if layout != LAYOUT:
            raise StoreError(
                f"{self.path} has layout {layout}, this version writes {LAYOUT}: move it away, "
                f"the books are counted again from the logs"
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside is kept together, or not at all when the block raises."""
        self.do("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.do("ROLLBACK")
            raise
        try:
            self.do("COMMIT")
        except StoreError:
            self.do("ROLLBACK")
            raise

    def do(self, statement: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Run one statement. Raises StoreError."""
        if self._db is None:
            raise StoreError(f"{self.path} is closed")
        try:
            return self._db.execute(statement, tuple(values))
        except sqlite3.Error as error:
            raise StoreError(f"writing {self.path}: {error}; is the disk full or the file read-only?") from error

    def do_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run one statement once per row. Raises StoreError."""
        if self._db is None:
            raise StoreError(f"{self.path} is closed")
        try:
            self._db.executemany(statement, rows)
        except sqlite3.Error as error:
            raise StoreError(f"writing {self.path}: {error}; is the disk full or the file read-only?") from error

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds. Raises StoreError."""
        return self.do(statement, values).fetchall()

    def fact(self, name: str) -> Any:
        """Return a named fact, or None."""
        rows = self.rows("SELECT value FROM facts WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def put_fact(self, name: str, value: Any) -> None:
        self.do("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def facts(self, prefix: str) -> dict[str, Any]:
        """Return the facts whose name begins with `prefix`, under the rest of their names."""
        rows = self.rows("SELECT name, value FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))
        return {name[len(prefix) :]: value for name, value in rows}
