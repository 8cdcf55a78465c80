"""The audit's store: one database, one writing process, transactions. What both kinds of database share.

Knows rows, not what they mean: `journal.py` writes the tier reports, `loading.py` reads them back, `verdicts.py` and
`audit_log.py` the rest. `put`, `append` and `delete` alone write and delete rows: they note what changed. Statements are written
in the dialect that SQLite and PostgreSQL share, with `?` for a value.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from ..errors import StoreError
from .changes import Changes
from .tables import (
    ADDED_TO,
    INDEXES,
    LAYOUT,
    LISTS,
    OWN,
    TABLES,
    WITHOUT_OWN,
    Reading,
    Row,
    check_layout,
    columns_of,
    insert,
    unit_key,
    upsert,
)


class Database(ABC):
    """The store. Used under one lock; every write happens inside `transaction`."""

    begin = "BEGIN"

    def __init__(self, name: str) -> None:
        self.name = name
        """Where it is, as people may read it."""
        self.changes = Changes(self)
        """What differs from the last checkpoints."""

    @abstractmethod
    def open(self) -> None:
        """Open or make the store. Raises StoreError: another process has it, it cannot be reached, or it is not ours."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; a second time does nothing."""

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """True where the connection to the store was lost."""

    @abstractmethod
    def reopen_if_lost(self) -> None:
        """Open the store again where the connection to it was lost. Another process may have written it meanwhile, so that who
        calls this loads again what it keeps in memory. Raises StoreError as `open` does.
        """

    @abstractmethod
    def do(self, statement: str, values: Iterable[Any] = ()) -> None:
        """Run one statement. It changes no row of the tables. Raises StoreError."""

    @abstractmethod
    def do_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run one statement once per row; as `do`. Raises StoreError."""

    @abstractmethod
    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Row]:
        """Return what a query finds. Raises StoreError."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Reading]:
        """Give the store as of one moment between two transactions. Any thread may read it, beside everything else and without
        the lock. Raises StoreError.
        """

    @abstractmethod
    def _make_table(self, name: str, columns: str, key: str | None) -> None:
        """Make a table with this key, or (None) with a rising `number` as its key."""

    @abstractmethod
    def count_on_from(self, table: str) -> None:
        """Number the next entry of a list behind those that were written with their numbers."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside is kept together, or not at all when the block raises."""
        self.do(self.begin)
        try:
            yield
            self.do("COMMIT")
        except BaseException:
            self.changes.forget()
            with suppress(StoreError):  # a lost connection and a full disk roll back by themselves
                self.do("ROLLBACK")
            raise

    def put(self, table: str, *rows: Row) -> None:
        """Write rows in the place of those with the same key. Raises StoreError."""
        if rows:
            self.do_many(upsert(table), rows)
            at = [columns_of(table).index(column) for column in unit_key(table)]
            self.changes.note(table, (tuple(row[one] for one in at) for row in rows))

    def append(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows at the end of a list. Raises StoreError."""
        if rows:
            self.do_many(insert(table, columns_of(table)), rows)
            ((last,),) = self.rows(f"SELECT max(number) FROM {table}")
            self.changes.note(table, ((number,) for number in range(last - len(rows) + 1, last + 1)))

    def delete(self, table: str, **where: object) -> None:
        """Delete the rows in which these columns have these values. Raises StoreError."""
        condition, values = " AND ".join(f"{column} = ?" for column in where), tuple(where.values())
        if not where.keys() >= set(unit_key(table)):
            self.delete_where(table, condition, values)
            return
        self.changes.note(table, [tuple(where[column] for column in unit_key(table))])
        self.do(f"DELETE FROM {table} WHERE {condition}", values)

    def delete_where(self, table: str, condition: str, values: Row) -> None:
        """Delete the rows for which the condition holds. Raises StoreError."""
        keys = self.rows(f"SELECT DISTINCT {', '.join(unit_key(table))} FROM {table} WHERE {condition}", values)
        if keys:
            self.changes.note(table, keys)
            self.do(f"DELETE FROM {table} WHERE {condition}", values)

    def fact(self, name: str) -> str | None:
        """Return a named fact, or None."""
        rows = self.rows("SELECT value FROM facts WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def put_fact(self, name: str, value: object) -> None:
        self.put("facts", (name, str(value)))

    def facts(self, prefix: str) -> dict[str, str]:
        """Return the facts whose name begins with `prefix`, under the rest of their names."""
        rows = self.rows("SELECT name, value FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))
        return {name[len(prefix) :]: value for name, value in rows}

    def _see_layout(self, *, is_new: bool) -> None:
        self.changes.forget()
        if is_new:
            with self.transaction():
                self._make_own_tables()
                for table, (columns, key) in TABLES.items():
                    self._make_table(table, columns, key)
                for table, columns in LISTS.items():
                    self._make_table(table, columns, None)
                for index in INDEXES:
                    self.do(index)
                self.put_fact("layout", LAYOUT)
        elif (layout := self.fact("layout")) in ADDED_TO:
            with self.transaction():
                if layout == WITHOUT_OWN:
                    self._make_own_tables()
                self.put_fact("layout", LAYOUT)
        check_layout(self.fact("layout"), self.name)

    def _make_own_tables(self) -> None:
        for table, (columns, key) in OWN.items():
            self._make_table(table, columns, key)
