"""The store's tables, in the one dialect that both databases speak, and the refusal of another version's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ..errors import StoreError

Row = tuple[Any, ...]
Reading = Callable[[str], Iterator[Row]]
"""Yields the rows that a query finds."""
LAYOUT = 5
WITHOUT_OWN = "3"
ADDED_TO = (WITHOUT_OWN, "4")
"""Older layouts that are read: 3 lacks the tables of `OWN`, both lack fields of a run that may be missing."""

TABLES: Mapping[str, tuple[str, str]] = {
    "facts": ("name TEXT, value TEXT", "name"),
    "topics": ("topic TEXT, topic_id TEXT", "topic"),
    "windows": ("topic TEXT, window_start_ms INTEGER", "topic, window_start_ms"),
    "logs": ("topic TEXT, tier TEXT, partition INTEGER, position INTEGER, words TEXT", "topic, tier, partition"),
    "chunks": (
        "topic TEXT, tier TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, digest TEXT",
        "topic, tier, partition, from_offset",
    ),
    "found": (
        "topic TEXT, window_start_ms INTEGER, tier TEXT, partition INTEGER, from_offset INTEGER, packed BLOB, updated_ms INTEGER",
        "topic, window_start_ms, tier, partition, from_offset",
    ),
    "sent": (
        "topic TEXT, window_start_ms INTEGER, instance TEXT, epoch INTEGER, sequence INTEGER, packed BLOB, losses TEXT, "
        "heard_ms INTEGER",
        "topic, window_start_ms, instance, epoch, sequence",
    ),
    "redelivered": ("topic TEXT, window_start_ms INTEGER, count INTEGER", "topic, window_start_ms"),
    "known": ("topic TEXT, window_start_ms INTEGER, tier TEXT, report BLOB", "topic, window_start_ms, tier"),
    "runs": ("instance TEXT, epoch INTEGER, words TEXT", "instance, epoch"),
    "verdicts": (
        "topic TEXT, window_start_ms INTEGER, span_ms INTEGER, verdict TEXT, missing INTEGER, doubled INTEGER, altered INTEGER, "
        "at_ms INTEGER, body TEXT",
        "topic, window_start_ms, span_ms",
    ),
    "tally": (
        "topic TEXT, verdict TEXT, windows INTEGER, missing INTEGER, doubled INTEGER, altered INTEGER",
        "topic, verdict",
    ),
    "to_judge": ("topic TEXT, from_ms INTEGER, to_ms INTEGER", "topic, from_ms, to_ms"),
}
"""Table → columns, key."""
LISTS: Mapping[str, str] = {
    "unreadable": "tier TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, reason TEXT, at_ms INTEGER",
    "malformed": "partition INTEGER, at_offset INTEGER, reason TEXT, at_ms INTEGER",
    "verdict_changes": "at_ms INTEGER, topic TEXT, window_start_ms INTEGER, from_verdict TEXT, to_verdict TEXT, missing INTEGER, "
    "doubled INTEGER, altered INTEGER, first_bad_tier TEXT, reason TEXT",
}
"""Table → columns, besides a rising `number`."""
OF_A_WINDOW = ("windows", "found", "sent", "redelivered", "known", "verdicts")
"""The tables of which a checkpoint takes all rows of a window together, since they change together."""
UNITS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "window": ("topic, window_start_ms", OF_A_WINDOW),
    **{table: (key, (table,)) for table, (_, key) in TABLES.items() if table not in OF_A_WINDOW},
    **{table: ("number", (table,)) for table in LISTS},
}
"""What changes together: its name → key, tables whose rows it holds."""
UNIT_OF: Mapping[str, str] = {table: unit for unit, (_, tables) in UNITS.items() for table in tables}


def _types(words: str, of: str) -> str:
    types = dict(column.split() for column in ("number INTEGER, " + of).split(", "))
    return ", ".join(f"{column} {types[column]}" for column in words.split(", "))


OWN: Mapping[str, tuple[str, str]] = {
    "made_checkpoints": ("checkpoint TEXT, period INTEGER", "checkpoint"),
    **{
        f"changed_{unit}": (f"{_types(key, TABLES[of[0]][0] if of[0] in TABLES else LISTS[of[0]])}, period INTEGER", key)
        for unit, (key, of) in UNITS.items()
    },
}
"""Table → columns, key: what `changes.py` notes. Of no checkpoint, for it says what differs from one."""
INDEXES = (
    "CREATE INDEX settled ON verdicts (at_ms) WHERE span_ms < 86400000 AND verdict NOT IN ('OPEN', 'UNKNOWN')",
    "CREATE INDEX days ON verdicts (at_ms) WHERE span_ms >= 86400000",
    "CREATE INDEX undecided ON verdicts (topic, window_start_ms) WHERE verdict IN ('OPEN', 'UNKNOWN')",
    "CREATE INDEX changes_of ON verdict_changes (topic, number)",
)


def columns_of(table: str) -> list[str]:
    """Return the names of the table's columns, without the `number` of a list."""
    words = LISTS[table] if table in LISTS else (TABLES.get(table) or OWN[table])[0]
    return [column.split()[0] for column in words.split(", ")]


def key_of(table: str) -> list[str]:
    """Return the names of the columns by which a row is known."""
    return ["number"] if table in LISTS else (TABLES.get(table) or OWN[table])[1].split(", ")


@cache
def unit_key(table: str) -> tuple[str, ...]:
    """Return the names of the columns by which the unit of a row is known."""
    return tuple(UNITS[UNIT_OF[table]][0].split(", "))


@cache
def upsert(table: str) -> str:
    """Return the statement that writes a row in the place of the one with the same key."""
    columns, keys = columns_of(table), key_of(table)
    key = ", ".join(keys)
    rest = [column for column in columns if column not in keys]
    change = f"UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in rest)}" if rest else "NOTHING"
    return f"{insert(table, columns)} ON CONFLICT ({key}) DO {change}"


def insert(table: str, columns: Sequence[str]) -> str:
    """Return the statement that writes a row."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def check_layout(layout: str | None, name: str) -> None:
    """Raise StoreError for a store that another version wrote."""
    if layout != str(LAYOUT):
        raise StoreError(f"{name} has layout {layout}, this version writes {LAYOUT}: move it away, the logs are counted again")
