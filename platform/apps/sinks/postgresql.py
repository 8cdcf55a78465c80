"""A sink that inserts into a PostgreSQL table: `INSERT … ON CONFLICT DO NOTHING` by (topic, partition, offset), so each record
has one row however often it is written.

The table is made from the events' schema; an existing one is matched, and gets columns that it lacks. A record that the table
refuses (a NUL in a text, a constraint of yours) is found by itself and goes to quarantine; all others of its batch are in.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from ...client.fetch.fetched import TopicPartition
from ...reader.positions.postgresql import connected
from ...reader.processor import ProcessorAway, RefusedRecord
from ...reader.record import EventRecord
from ...runtime.logs import get_logger
from .columns import OTHERS, PLACE, Column, columns_of, takes, values_of
from .sink import SinkRefused

log = get_logger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RECORDS_FAULT = (psycopg.DataError, psycopg.IntegrityError, psycopg.NotSupportedError)


class PostgresqlTable:
    """A `Processor`."""

    def __init__(self, dsn: str, table: str, schema: Callable[[int], str]) -> None:
        """`table`: `name` or `schema.name`. `schema` returns an Avro schema's text by its id. Raises SinkRefused."""
        self._dsn = dsn
        names = table.split(".")
        if len(names) > 2 or not all(names):
            raise SinkRefused(f"--table {table!r}: give a table's name, or schema.table")
        self._names = names
        self._table = sql.Identifier(*names)
        self._schema = schema
        self._connection: psycopg.Connection[Any] | None = None
        self._columns: dict[int, list[Column]] = {}
        """By schema id: those that the table is known to have, on this connection."""
        self._held: list[EventRecord] = []

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.end(list(starts))
        return {}

    def take(self, record: EventRecord) -> None:
        self._held.append(record)

    @property
    def is_full(self) -> bool:
        return False

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        due = [record for record in self._held if record.of in positions]
        if not due:
            return []
        try:
            connection = self._connected()
            refused = self._write(connection, due)
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError, psycopg.ProgrammingError) as error:
            # A table that somebody drops or locks away is created again, or waited for.
            self.close()
            raise ProcessorAway(f"PostgreSQL, table {'.'.join(self._names)}: {str(error).strip()}") from error
        self._held = [record for record in self._held if record.of not in positions]
        return refused

    def end(self, partitions: Collection[TopicPartition]) -> None:
        self._held = [record for record in self._held if record.of not in partitions]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        self._columns.clear()
        if connection is not None:
            connection.close()

    def _write(self, connection: psycopg.Connection[Any], records: Sequence[EventRecord]) -> list[RefusedRecord]:
        refused: list[RefusedRecord] = []
        by_schema: dict[int, list[EventRecord]] = {}
        for record in records:
            by_schema.setdefault(record.schema_id, []).append(record)
        for schema_id in by_schema:
            if schema_id not in self._columns:
                self._columns[schema_id] = self._matched(connection, columns_of(json.loads(self._schema(schema_id))))
        with connection.transaction():
            for schema_id, some in by_schema.items():
                refused += self._insert(connection, some, self._columns[schema_id])
        return refused

    def _insert(
        self, connection: psycopg.Connection[Any], records: Sequence[EventRecord], columns: Sequence[Column]
    ) -> list[RefusedRecord]:
        """Insert within a savepoint; where a record is refused, halve until it is alone."""
        try:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(self._statement(columns), [_row(record, columns) for record in records])
            return []
        except _RECORDS_FAULT as error:
            if len(records) == 1:
                return [RefusedRecord(records[0], f"table {'.'.join(self._names)} refused it: {str(error).strip()}")]
        half = len(records) // 2
        return [*self._insert(connection, records[:half], columns), *self._insert(connection, records[half:], columns)]

    def _statement(self, columns: Sequence[Column]) -> sql.Composed:
        names = [*PLACE, *OTHERS, *(one.field for one in columns)]
        return sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO NOTHING").format(
            self._table,
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(sql.Placeholder() for _ in names),
            sql.SQL(", ").join(map(sql.Identifier, PLACE)),
        )

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = connected(self._dsn, application_name="headrace-sink")
        return self._connection

    def _matched(self, connection: psycopg.Connection[Any], columns: list[Column]) -> list[Column]:
        """Make the table, or give it the columns that it lacks. Raises SinkRefused where one has another type."""
        wanted = {**PLACE, **OTHERS, **{one.field: one.type for one in columns}}
        definitions = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in wanted.items()]
        key = sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, PLACE)))
        create = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})")
        connection.execute(create.format(self._table, sql.SQL(", ").join([*definitions, key])))
        found = self._existing(connection)
        for name, kind in wanted.items():
            if name not in found:
                if name in PLACE:
                    raise SinkRefused(f"table {'.'.join(self._names)} has no column {name}: it was not made for this sink")
                add = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
                connection.execute(add.format(self._table, sql.Identifier(name), sql.SQL(kind)))
                log.info("column_added", table=".".join(self._names), column=name, type=kind)
            elif not takes(found[name], kind):
                raise SinkRefused(
                    f"table {'.'.join(self._names)}: column {name} is {found[name]}, and the events' field is {kind}: "
                    "alter the column, or give another table"
                )
        return columns

    def _existing(self, connection: psycopg.Connection[Any]) -> dict[str, str]:
        query = (
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND NOT attisdropped"
        )
        name = self._table.as_string(connection)
        return {row[0]: row[1] for row in connection.execute(query, (name,)).fetchall()}


def _row(record: EventRecord, columns: Sequence[Column]) -> list[Any]:
    one = record.message
    row: list[Any] = [one.topic, one.partition, one.offset, _EPOCH + timedelta(milliseconds=one.timestamp_ms), one.key]
    return [*row, *(Jsonb(value) if is_json else value for value, is_json in values_of(record.event, columns))]
