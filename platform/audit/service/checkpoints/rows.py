"""The rows of a store as lines, and a store filled from them: the same for every kind of database.

A line is JSON: a list (a row, or a key) or the name of what the lists behind it are. A table's name: its rows, bytes as base64.
`-` and a unit's name (`tables.UNITS`): keys of units that changed, of which nothing that the store held is left. The lines of a
base name every table, those of an increment every unit and every table.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence

from ..store.changes import changed_keys, changed_rows
from ..store.database import Database
from ..store.tables import LAYOUT, LISTS, TABLES, UNITS, Reading, Row, columns_of, insert, key_of
from .form import BadCheckpoint

_ROWS_AT_ONCE = 1_000
_CHANGED = "-"
_dump = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def lines_of(read: Reading) -> Iterator[bytes]:
    """Yield the whole store."""
    for table in (*TABLES, *LISTS):
        yield _dump(table).encode()
        columns = ", ".join(_columns(table))
        yield from _row_lines(table, read(f"SELECT {columns} FROM {table} ORDER BY {', '.join(key_of(table))}"))


def changed_lines_of(read: Reading, since: int) -> Iterator[bytes]:
    """Yield what changed after this period: the keys of the units, and what the store holds of them now."""
    for unit, (_, tables) in UNITS.items():
        yield _dump(_CHANGED + unit).encode()
        for key in changed_keys(read, unit, since):
            yield _dump(key).encode()
        for table in tables:
            yield _dump(table).encode()
            yield from _row_lines(table, changed_rows(read, table, _columns(table), since))


def fill(database: Database, base: Iterable[bytes], increments: Sequence[Iterable[bytes]], checkpoint: str) -> None:
    """Put what a base and increments hold in the place of everything in the store, which is then that checkpoint's; the caller
    has begun the transaction. Raises BadCheckpoint.
    """
    for table in (*TABLES, *LISTS):
        database.do(f"DELETE FROM {table}")
    _take(database, base, {*TABLES, *LISTS})
    for lines in increments:
        _take(database, lines, {*TABLES, *LISTS, *(_CHANGED + unit for unit in UNITS)})
    database.put_fact("layout", LAYOUT)  # the checkpoint may be of one before
    for table in LISTS:
        database.count_on_from(table)
    database.changes.begin_from(checkpoint)


def _take(database: Database, lines: Iterable[bytes], expected: set[str]) -> None:
    missing = set(expected)
    for name, rows in _batches(lines):
        if name not in expected:
            raise BadCheckpoint(f"the table {name!r} is unknown")
        missing.discard(name)
        if name.startswith(_CHANGED):
            _delete(database, name.removeprefix(_CHANGED), rows)
        else:
            _insert(database, name, rows)
    if missing:
        raise BadCheckpoint(f"tables are missing: {', '.join(sorted(missing))}")


def _delete(database: Database, unit: str, keys: list[Row]) -> None:
    key, tables = UNITS[unit]
    columns = key.split(", ")
    _see_width(unit, keys, len(columns))
    for table in tables if keys else ():
        database.do_many(f"DELETE FROM {table} WHERE {' AND '.join(f'{column} = ?' for column in columns)}", keys)


def _insert(database: Database, table: str, rows: list[Row]) -> None:
    columns, blobs = _columns(table), _blobs(table)
    _see_width(table, rows, len(columns))
    if blobs:
        rows = [tuple(b64decode(one) if at in blobs else one for at, one in enumerate(row)) for row in rows]
    if rows:
        database.do_many(insert(table, columns), rows)


def _see_width(name: str, rows: list[Row], width: int) -> None:
    if any(len(row) != width for row in rows):
        raise BadCheckpoint(f"a row of the table {name} has other columns")


def _row_lines(table: str, rows: Iterable[Row]) -> Iterator[bytes]:
    """Hot: once per row."""
    blobs = _blobs(table)
    for row in rows:
        if blobs:
            row = tuple(b64encode(one).decode() if at in blobs else one for at, one in enumerate(row))
        yield _dump(row).encode()


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[str, list[Row]]]:
    name: str | None = None
    rows: list[Row] = []
    for line in lines:
        words = json.loads(line)
        if isinstance(words, str):
            if name is not None:
                yield name, rows
            name, rows = words, []
            continue
        if name is None or not isinstance(words, list):
            raise BadCheckpoint("a row precedes every table's name")
        rows.append(tuple(words))
        if len(rows) >= _ROWS_AT_ONCE:
            yield name, rows
            rows = []
    if name is not None:
        yield name, rows


def _columns(table: str) -> list[str]:
    return ["number", *columns_of(table)] if table in LISTS else columns_of(table)


def _blobs(table: str) -> frozenset[int]:
    words = TABLES[table][0] if table in TABLES else LISTS[table]
    first = 1 if table in LISTS else 0
    return frozenset(at for at, column in enumerate(words.split(", "), first) if column.endswith(" BLOB"))
