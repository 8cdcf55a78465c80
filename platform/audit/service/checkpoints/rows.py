"""The rows of a store as lines, and a store filled from them: the same for every kind of database.

A line is JSON: a table's name, or a row of the table named last; bytes are base64. The `number` of a list is not kept, its order
is.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator

from ..store.database import Database, Reading, Row
from ..store.tables import LISTS, TABLES, columns_of, insert
from .form import BadCheckpoint

_ROWS_AT_ONCE = 1_000
_dump = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def lines_of(read: Reading) -> Iterator[bytes]:
    """Yield the whole store. Hot: once per row."""
    for table in (*TABLES, *LISTS):
        yield _dump(table).encode()
        order = TABLES[table][1] if table in TABLES else "number"
        blobs = _blobs(table)
        for row in read(f"SELECT {', '.join(columns_of(table))} FROM {table} ORDER BY {order}"):
            if blobs:
                row = tuple(b64encode(one).decode() if at in blobs else one for at, one in enumerate(row))
            yield _dump(row).encode()


def fill(database: Database, lines: Iterable[bytes]) -> None:
    """Put the rows in the place of everything in the store; the caller has begun the transaction. Raises BadCheckpoint."""
    for table in (*TABLES, *LISTS):
        database.do(f"DELETE FROM {table}")
    missing = {*TABLES, *LISTS}
    for table, rows in _batches(lines):
        if table not in TABLES and table not in LISTS:
            raise BadCheckpoint(f"the table {table!r} is unknown")
        missing.discard(table)
        columns, blobs = columns_of(table), _blobs(table)
        if any(len(row) != len(columns) for row in rows):
            raise BadCheckpoint(f"a row of the table {table} has other columns")
        if blobs:
            rows = [tuple(b64decode(one) if at in blobs else one for at, one in enumerate(row)) for row in rows]
        database.do_many(insert(table, columns), rows)
    if missing:
        raise BadCheckpoint(f"tables are missing: {', '.join(sorted(missing))}")


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[str, list[Row]]]:
    table: str | None = None
    rows: list[Row] = []
    for line in lines:
        words = json.loads(line)
        if isinstance(words, str):
            if table is not None:
                yield table, rows
            table, rows = words, []
            continue
        if table is None or not isinstance(words, list):
            raise BadCheckpoint("a row stands before any table's name")
        rows.append(tuple(words))
        if len(rows) >= _ROWS_AT_ONCE:
            yield table, rows
            rows = []
    if table is not None:
        yield table, rows


def _blobs(table: str) -> frozenset[int]:
    words = TABLES[table][0] if table in TABLES else LISTS[table]
    return frozenset(at for at, column in enumerate(words.split(", ")) if column.endswith(" BLOB"))
