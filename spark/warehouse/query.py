"""SQL queries over the warehouse: DuckDB over the Parquet files that Iceberg plans. Writes nothing and can read nothing else.

A topic's name is the table's branch `main`, the published hours; `<topic>_all` is the branch `loads`, every row. Names with
characters other than letters, digits and `_` are quoted: `SELECT * FROM "web.clicks"`.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.manifest import DataFile

from ..errors import BadQuery, EmptyWarehouse, WarehouseError
from .hours import hour_name
from .object_path import ObjectPath
from .topic_table import LOADS, MAIN, TopicTable
from .warehouse import Warehouse

ALL = "_all"
BATCH_ROWS = 10_000
_SETTINGS = ("TimeZone='UTC'", "python_enable_replacements=false", "enable_external_access=false", "lock_configuration=true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A query's columns and rows; rows are fetched in batches on demand."""

    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]
    notes: tuple[str, ...] = ()
    """What a reader of the answer should know: hours that have expired."""


def query(warehouse: Warehouse, sql: str) -> Answer:
    """Run one SQL statement. Raises BadQuery with DuckDB's message, EmptyWarehouse if there is no table yet."""
    topics = warehouse.topics()
    if not topics:
        raise EmptyWarehouse
    connection = duckdb.connect(":memory:")
    notes = [note for topic in topics if (note := _offer(connection, warehouse, topic, sql, topics))]
    # From here on SQL reaches only the registered views: no file, no extension, no variable of this program.
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    try:
        found = connection.sql(sql)
        if found is None:  # a statement without rows
            return Answer(columns=(), rows=iter(()))
        batches = found.to_arrow_reader(BATCH_ROWS)
        # Fetch the first batch here, so that nearly every error comes before anything is printed.
        first = next(batches, None)
        return Answer(columns=tuple(found.columns), rows=_rows(first, batches), notes=tuple(notes))
    except (duckdb.Error, pa.ArrowException) as error:
        raise BadQuery(_explained(str(error), topics)) from error


def _offer(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, topic: str, sql: str, topics: Sequence[str]) -> str:
    """Register the views of one topic that the text may mention: planning a table's files costs more than searching for its
    name. Return what is to be said of it; empty: nothing.
    """
    if topic.lower() not in sql.lower() or not _is_meant(topic, sql, topics):
        return ""
    table = warehouse.existing_table(topic)
    table.refuse_deletes(MAIN)
    connection.register(topic, _dataset(table, table.files(MAIN)))
    if f"{topic}{ALL}".lower() not in map(str.lower, topics):
        connection.register(f"{topic}{ALL}", _dataset(table, table.files(LOADS)))
    through = table.expired_through()
    return "" if through is None else f"{topic}: the hours through {hour_name(through)} have expired by retention"


def _is_meant(topic: str, sql: str, topics: Sequence[str]) -> bool:
    """Return whether the text names this topic, where the names of others differ from it only in capitals.

    For DuckDB they are one name, so one of them is offered, if the text names it alone, and as it is written. Raises BadQuery.
    """
    twins = [one for one in topics if one.lower() == topic.lower()]
    if len(twins) == 1:
        return True
    named = set(re.findall(rf"(?<!\w){re.escape(topic)}(?=(?:{ALL})?(?!\w))", sql, re.IGNORECASE))
    if len(named) > 1 or not named <= set(twins):
        raise BadQuery(
            f"the topics {' and '.join(twins)} differ only in capitals, and SQL takes their names for one: name one of them "
            "in a query, as it is written"
        )
    return topic in named


def _dataset(table: TopicTable, files: Sequence[DataFile]) -> Any:
    """Return the dataset from which DuckDB reads columns and row groups; a column that a file does not have is null there."""
    schema = table.arrow_schema()
    if not files:
        return schema.empty_table()
    paths = [table.path_of(file) for file in files]
    objects = [path for path in paths if isinstance(path, ObjectPath)]
    if not objects:
        return ds.dataset(list(map(str, paths)), schema=schema, format="parquet")
    return ds.dataset([path.key for path in objects], schema=schema, format="parquet", filesystem=objects[0].filesystem)


def _rows(first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]) -> Iterator[Sequence[Any]]:
    try:
        for batch in itertools.chain([first] if first is not None else [], others):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except (duckdb.Error, pa.ArrowException) as error:
        raise BadQuery(str(error)) from error


def _explained(message: str, topics: Sequence[str]) -> str:
    if "does not exist" in message and "Table" in message:
        names = ", ".join(f'"{topic}", "{topic}{ALL}"' for topic in topics)
        return f"{message.splitlines()[0]} The warehouse has {names} (the first of a pair: published hours only)."
    return message


def plain(value: Any) -> Any:
    """Return a value in its JSON form: instants as ISO 8601 in UTC, decimals as text, bytes as hexadecimal."""
    match value:
        case datetime() | date():
            return value.isoformat().replace("+00:00", "Z")
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else None
    return str(value)


__all__ = ["ALL", "Answer", "WarehouseError", "plain", "query"]
