"""The store's tables, in the one dialect that both databases speak, and the refusal of another version's."""

from collections.abc import Mapping, Sequence
from functools import cache

from ..errors import StoreError

LAYOUT = 3

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
INDEXES = (
    "CREATE INDEX settled ON verdicts (at_ms) WHERE span_ms < 86400000 AND verdict NOT IN ('OPEN', 'UNKNOWN')",
    "CREATE INDEX days ON verdicts (at_ms) WHERE span_ms >= 86400000",
    "CREATE INDEX undecided ON verdicts (topic, window_start_ms) WHERE verdict IN ('OPEN', 'UNKNOWN')",
    "CREATE INDEX changes_of ON verdict_changes (topic, number)",
)


def columns_of(table: str) -> list[str]:
    """Return the names of the table's columns, without the `number` of a list."""
    words = TABLES[table][0] if table in TABLES else LISTS[table]
    return [column.split()[0] for column in words.split(", ")]


@cache
def upsert(table: str) -> str:
    """Return the statement that writes a row in the place of the one with the same key."""
    columns = columns_of(table)
    key = TABLES[table][1]
    rest = [column for column in columns if column not in key.split(", ")]
    change = f"UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in rest)}" if rest else "NOTHING"
    return f"{insert(table, columns)} ON CONFLICT ({key}) DO {change}"


def insert(table: str, columns: Sequence[str]) -> str:
    """Return the statement that writes a row."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def check_layout(layout: str | None, name: str) -> None:
    """Raise StoreError for a store that another version wrote."""
    if layout != str(LAYOUT):
        raise StoreError(
            f"{name} has layout {layout}, this version writes {LAYOUT}: move it away, the books are counted again from the logs"
        )
