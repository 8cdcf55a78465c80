"""The store as a SQLite file."""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ..errors import StoreError
from .database import Database
from .tables import Reading, Row

CACHE_KIB = 16_384


class SqliteDatabase(Database):
    """The file; a lock file beside it keeps a second process away."""

    begin = "BEGIN IMMEDIATE"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._lock_file: int | None = None
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
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
            self._db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            self._see_layout(is_new=not self.rows("SELECT name FROM sqlite_master WHERE type = 'table'"))
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(
                f"{self.path} is not a store of the audit: {error}; move it away, the logs are counted again"
            ) from error
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    @property
    def is_lost(self) -> bool:
        """A file is not lost."""
        return False

    def reopen_if_lost(self) -> None:
        """Do nothing."""

    def do(self, statement: str, values: Iterable[Any] = ()) -> None:
        self._run(statement, values)

    def do_many(self, statement: str, rows: Iterable[Row]) -> None:
        try:
            self._open_db().executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Row]:
        return self._run(statement, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[Reading]:
        try:
            with closing(sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)) as other:
                other.execute("BEGIN")
                other.execute("SELECT 1 FROM facts").fetchall()  # the snapshot is that of the first reading
                yield other.execute
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def count_on_from(self, table: str) -> None:
        """Do nothing: the next number is one above the highest."""

    def _make_table(self, name: str, columns: str, key: str | None) -> None:
        if key is None:
            self.do(f"CREATE TABLE {name} (number INTEGER PRIMARY KEY, {columns})")
        else:
            self.do(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID")

    def _run(self, statement: str, values: Iterable[Any]) -> sqlite3.Cursor:
        try:
            return self._open_db().execute(statement, tuple(values))
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreError(f"{self.path} is closed")
        return self._db

    def _failed(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"using {self.path}: {error}; is the disk full or the file read-only?")
