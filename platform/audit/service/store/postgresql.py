"""The store in a PostgreSQL database: `headrace audit run --store postgresql://user@host/database`.

Its tables lie in a schema of their own. An advisory lock, held by the connection, keeps a second process away. Not through a
pooler that hands a connection on between transactions: the lock would be handed on with it. The password may be in the URL,
in PGPASSWORD or in ~/.pgpass; it is never shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..errors import StoreError
from .database import Database
from .tables import Reading, Row

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise StoreError("a store in PostgreSQL needs the driver: pip install 'psycopg[binary]'") from missing

SCHEMA = "headrace_audit"
LOCK = 0x68_64_72_61_75_64_69_74
"""The advisory lock's number: "hdraudit"."""
SETTINGS: Mapping[str, object] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "application_name": "headrace-audit",
}
"""Of a connection, unless the URL says otherwise: a peer that is gone is noticed within 20 s."""
PEER_GONE_S = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 2}
"""The server notices a dead audit service as soon, and frees its lock."""
LOCK_WAIT_MS = 5_000
"""How long the lock is waited for: the server needs a moment to see that the service before has ended."""
TYPES = {"INTEGER": "BIGINT", "TEXT": 'TEXT COLLATE "C"', "BLOB": "BYTEA"}
ROWS_AT_ONCE = 2_000


class PostgresqlDatabase(Database):
    """One connection to the database."""

    def __init__(self, url: str) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error as error:
            # The message may repeat a part of the URL, and so the password.
            raise StoreError("--store postgresql://…: not an address of PostgreSQL (postgresql://user@host/database)") from error
        super().__init__(_without_password(given))
        self._parameters: dict[str, Any] = {**SETTINGS, **given}
        self._db: psycopg.Connection[Row] | None = None

    def open(self) -> None:
        try:
            self._db = self._connected()
            self._lock()
            # A power cut at the server may lose the last transactions, whole ones, and what they held is read again from where
            # the books then stand.
            self.do("SET synchronous_commit = off")
            for name, seconds in PEER_GONE_S.items():
                self.do(f"SET {name} = {seconds}")
            if not self.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", (SCHEMA,)):
                self.do(f"CREATE SCHEMA {SCHEMA}")
            self.do(f"SET search_path = {SCHEMA}")
            self._see_layout(is_new=not self.rows("SELECT 1 FROM pg_tables WHERE schemaname = ?", (SCHEMA,)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    @property
    def is_lost(self) -> bool:
        return self._db is None or self._db.closed

    def reopen_if_lost(self) -> None:
        if self.is_lost:
            self.open()

    def do(self, statement: str, values: Iterable[Any] = ()) -> None:
        self._run(statement, values)

    def do_many(self, statement: str, rows: Iterable[Row]) -> None:
        try:
            self._open_db().cursor().executemany(translated(statement), rows)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Row]:
        return self._run(statement, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[Reading]:
        try:
            with self._connected() as other:
                other.execute(f"SET search_path = {SCHEMA}")
                other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                other.execute("SELECT 1 FROM facts")  # the snapshot is that of the first reading

                def read(statement: str) -> Iterator[Row]:
                    with other.cursor("snapshot") as cursor:
                        cursor.itersize = ROWS_AT_ONCE
                        yield from cursor.execute(translated(statement))

                yield read
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _lock(self) -> None:
        self.do(f"SET lock_timeout = {LOCK_WAIT_MS}")
        try:
            self._open_db().execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        except psycopg.errors.LockNotAvailable:
            raise StoreError(f"another audit service writes {self.name}: stop it, or give --store another database") from None
        except psycopg.Error as error:
            raise self._failed(error) from error
        self.do("SET lock_timeout = DEFAULT")

    def count_on_from(self, table: str) -> None:
        highest = f"(SELECT max(number) FROM {table})"
        self.do(f"SELECT setval(pg_get_serial_sequence(?, 'number'), coalesce({highest}, 1), {highest} IS NOT NULL)", (table,))

    def _make_table(self, name: str, columns: str, key: str | None) -> None:
        for word, mine in TYPES.items():
            columns = columns.replace(word, mine)
        if key is None:
            self.do(f"CREATE TABLE {name} (number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, {columns})")
        else:
            self.do(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))")

    def _connected(self) -> "psycopg.Connection[Row]":
        try:
            return psycopg.connect(**self._parameters, autocommit=True)
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"no connection to {self.name}: {reason}; does the server run, and may this user log in?") from error

    def _run(self, statement: str, values: Iterable[Any]) -> "psycopg.Cursor[Row]":
        try:
            return self._open_db().execute(translated(statement), tuple(values))
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _open_db(self) -> "psycopg.Connection[Row]":
        if self._db is None or self._db.closed:
            raise StoreError(f"the connection to {self.name} is lost or closed")
        return self._db

    def _failed(self, error: psycopg.Error) -> StoreError:
        reason = " ".join(str(error).split())
        if self._db is None or self._db.closed:
            return StoreError(f"the connection to {self.name} is lost: {reason}; it is tried again")
        return StoreError(f"using {self.name}: {reason}")


@cache
def translated(statement: str) -> bytes:
    """Return the statement with the driver's placeholders."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


def _without_password(given: Mapping[str, Any]) -> str:
    user = f"{given['user']}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{user}{given.get('host', '')}{port}/{given.get('dbname', '')}"
