"""Keeps what was processed in one SQLite file, over restarts and `kill -9`. One process at a time has it open.

seen  source text · start integer · stop integer · touched_ms integer      numbers [start, stop) of a source
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ...errors import HeadraceError
from .ranges import Changes, Range

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS seen"
    " (source TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, touched_ms INTEGER NOT NULL,"
    " PRIMARY KEY (source, start)) WITHOUT ROWID"
)


class DeduplicationStoreError(HeadraceError):
    """The file of a `Deduplicator` cannot be used."""


class SeenStore:
    """One file. Each `apply` is one transaction: all of it is there after a crash of the process, or none."""

    def __init__(self, path: Path, *, is_power_safe: bool) -> None:
        """`is_power_safe`: also after a power cut, for a flush at each call. Raises DeduplicationStoreError."""
        self._path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(f"PRAGMA synchronous={'FULL' if is_power_safe else 'OFF'}")
            self._connection.execute("BEGIN EXCLUSIVE")
            self._connection.execute(SCHEMA)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failed("opened", error) from error

    def read(self) -> Iterator[Range]:
        """Yield what is kept, the longest untouched first."""
        try:
            for row in self._connection.execute(
                "SELECT source, start, stop, touched_ms FROM seen ORDER BY touched_ms, source, start"
            ):
                yield Range(*row)
        except sqlite3.Error as error:
            raise self._failed("read", error) from error

    def apply(self, changes: Changes) -> None:
        if not changes.put and not changes.gone:
            return
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany("DELETE FROM seen WHERE source = ? AND start = ?", changes.gone)
            self._connection.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", changes.put)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise self._failed("written", error) from error

    def close(self) -> None:
        self._connection.close()

    def _failed(self, what: str, error: sqlite3.Error) -> DeduplicationStoreError:
        return DeduplicationStoreError(
            f"{self._path}, which remembers processed messages, cannot be {what}: {error}; give each process a file of its own, "
            "on a disk with room; a damaged one can be deleted, then redelivered messages count as new once"
        )
