"""Positions in an SQLite file, beside the application's tables.

SQLite has one writer at a time: members that store at the same moment wait for each other. A process that is stopped (SIGSTOP)
within a transaction keeps the others waiting until it continues or is killed.
"""

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...client.fetch.fetched import TopicPartition
from ..errors import ReaderMisused
from ..processor import ProcessorAway
from .protocol import Move, Position, TransactionEnded
from .table import CREATE, Rows

BUSY_TIMEOUT_MS = 5_000
_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
"""Errors that are not the statement's or its values'."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.rows = Rows()


class SqlitePositions:
    """`Positions` in one file; it is made if it does not exist."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._local = _Local()

    def take_over(
        self, group: str, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Position]:
        with self._transaction() as connection:
            return self._local.rows.take(connection.execute, group, starts, topic_ids)

    def read(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Position]:
        with self._transaction() as connection:  # begins once no other one writes
            return self._local.rows.read(connection.execute, group, partitions)

    def store(self, group: str, moves: Mapping[TopicPartition, Move], work: Callable[[Any], object]) -> None:
        with self._transaction() as connection:
            work(connection.cursor())
            if not connection.in_transaction:
                raise TransactionEnded
            self._local.rows.move(connection.execute, group, moves)

    def close(self) -> None:
        connection, self._local.connection = self._local.connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # some errors have rolled back already
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _AWAY:
                raise
            self.close()
            raise ProcessorAway(f"SQLite, {self._path}: {error}") from error

    def _connected(self) -> sqlite3.Connection:
        if self._local.connection is None:
            if not self._path.absolute().parent.is_dir():
                raise ReaderMisused(f"SqlitePositions({str(self._path)!r}): there is no folder {self._path.absolute().parent}")
            self._local.connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
            self._local.connection.execute(CREATE)
        return self._local.connection
