"""Positions in a PostgreSQL database, beside the application's tables. Imports psycopg (the extra `postgresql`)."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from ...client.fetch.fetched import TopicPartition
from ..errors import ReaderMisused
from ..processor import ProcessorAway
from .protocol import Move, Position, TransactionEnded
from .table import CREATE, TABLE, Rows

BOUNDS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""libpq's parameters, so that a server that vanished without a word is noticed within half a minute."""
STATEMENT_TIMEOUT_MS = 60_000
IDLE_TIMEOUT_MS = 60_000
"""So long a member that is stopped within a transaction keeps its locks; then the server ends the transaction."""
_AWAY = ("08", "40", "53", "55", "57", "58")
"""SQLSTATE classes that are not the statement's or its values' fault: connection, conflict with another transaction, resources,
locks, an administrator's intervention, the system.
"""


class _Local(threading.local):
    def __init__(self) -> None:
        self.connection: psycopg.Connection[Any] | None = None
        self.rows = Rows()


class PostgresPositions:
    """`Positions` in one database. The table is made in the first schema of the search path if it does not exist."""

    def __init__(self, dsn: str) -> None:
        """`dsn`: a URL or `key=value` words, as libpq has them. Raises ReaderMisused."""
        try:
            conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            raise ReaderMisused(f"PostgresPositions: this is not an address of a PostgreSQL database: {error}") from None
        self._dsn = dsn
        self._local = _Local()

    def take_over(
        self, group: str, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Position]:
        with self._transaction() as connection:
            return self._local.rows.take(_execute(connection), group, starts, topic_ids)

    def read(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Position]:
        with self._transaction() as connection:
            return self._local.rows.read(_execute(connection), group, partitions, locking=" FOR UPDATE")

    def store(self, group: str, moves: Mapping[TopicPartition, Move], work: Callable[[Any], object]) -> None:
        with self._transaction() as connection:
            with connection.cursor() as cursor:
                work(cursor)
            if connection.info.transaction_status == TransactionStatus.IDLE:
                raise TransactionEnded
            self._local.rows.move(_execute(connection), group, moves)

    def close(self) -> None:
        connection, self._local.connection = self._local.connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        has_begun = False
        try:
            connection = self._connected()
            with connection.transaction():
                has_begun = True
                yield connection
        except psycopg.Error as error:
            if has_begun and not self._is_away(error):
                raise
            self.close()
            raise ProcessorAway(f"PostgreSQL: {str(error).strip()}") from error

    def _is_away(self, error: psycopg.Error) -> bool:
        connection = self._local.connection
        return connection is None or bool(connection.closed) or (error.sqlstate or "").startswith(_AWAY)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._local.connection is None:
            connection = connected(self._dsn, application_name="headrace-reader")
            try:
                _make_table(connection)
            except BaseException:
                connection.close()
                raise
            self._local.connection = connection
        return self._local.connection


def connected(dsn: str, *, application_name: str) -> psycopg.Connection[Any]:
    """Return a connection whose waits are bounded, in autocommit mode; what the DSN says goes first. Raises psycopg.Error."""
    of_dsn = conninfo_to_dict(dsn)
    options = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c idle_in_transaction_session_timeout={IDLE_TIMEOUT_MS}"
    own = {**BOUNDS, "application_name": application_name, **of_dsn, "options": f"{options} {of_dsn.get('options', '')}"}
    return psycopg.connect(make_conninfo("", **own), autocommit=True)


def _make_table(connection: psycopg.Connection[Any]) -> None:
    """Make the table if it does not exist; only then is the right to make one needed."""
    found = connection.execute("SELECT to_regclass(%s)", (TABLE,)).fetchone()
    if found is None or found[0] is None:
        try:
            connection.execute(CREATE.encode())
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            pass  # another member made it at this moment
        except psycopg.errors.InsufficientPrivilege as error:
            raise ReaderMisused(
                f"PostgresPositions: there is no table {TABLE}, and it cannot be made: {str(error).strip()}. Make it as "
                "docs/FORMATS.md says, or grant CREATE on the schema"
            ) from error


def _execute(connection: psycopg.Connection[Any]) -> Callable[[str, Sequence[Any]], Any]:
    def execute(statement: str, values: Sequence[Any]) -> Any:
        return connection.execute(statement.replace("?", "%s").encode(), values)

    return execute
