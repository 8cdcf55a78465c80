"""The batches that the mirror's ledger names, by their offsets in the destination: outside memory, found by range.

A private temporary database of SQLite: it holds a bounded number of pages in memory, spills the others into a file that has no
name, and is gone with the process. The ledger's topic is what stays; it is read from its beginning at the next start.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator

from ....wire.mirror_ledger import CopiedBatch

CACHE_KIB = 8_192
"""What SQLite keeps in memory of all partitions together: about 200,000 batches."""
_SCHEMA = """
CREATE TABLE batches (
    partition INTEGER, destination_base INTEGER, source_base INTEGER, source_span INTEGER, record_count INTEGER,
    crc_change INTEGER, deltas TEXT, PRIMARY KEY (partition, destination_base)
) WITHOUT ROWID
"""
_COLUMNS = "source_base, source_span, record_count, destination_base, crc_change, deltas"
_NEAR = 3
"""Batches that a walk steps over before it looks its place up again."""


class StoredBatches:
    """The batches of all partitions, each under a number. Any thread may call, one at a time."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in (f"PRAGMA cache_size = -{CACHE_KIB}", "PRAGMA journal_mode = MEMORY", "PRAGMA synchronous = OFF", _SCHEMA):
            self._database.execute(line)

    def add(self, partition: int, batches: Iterable[CopiedBatch]) -> None:
        """Take the next batches; those at or above the first of them are replaced (the copy was created again).

        Raises sqlite3.Error (no room for the file): then none was taken.
        """
        rows = [
            (partition, one.destination_base, *one[:3], one.crc_change, None if one.deltas is None else json.dumps(one.deltas))
            for one in batches
        ]
        if not rows:
            return
        lowest = min(row[1] for row in rows)
        with self._database:
            self._database.execute("BEGIN")
            self._database.execute("DELETE FROM batches WHERE partition = ? AND destination_base >= ?", (partition, lowest))
            self._database.executemany("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def at_or_below(self, partition: int, offset: int) -> CopiedBatch | None:
        """Return the last batch that begins at or below this offset in the destination; None: there is none."""
        order = "ORDER BY destination_base DESC LIMIT 1"
        sql = f"SELECT {_COLUMNS} FROM batches WHERE partition = ? AND destination_base <= ? {order}"
        return next(map(_batch, self._database.execute(sql, (partition, offset))), None)

    def first(self, partition: int) -> CopiedBatch | None:
        """Return the partition's first batch; None: it has none."""
        sql = f"SELECT {_COLUMNS} FROM batches WHERE partition = ? ORDER BY destination_base LIMIT 1"
        return next(map(_batch, self._database.execute(sql, (partition,))), None)

    def above(self, partition: int, offset: int) -> Iterator[CopiedBatch]:
        """Yield the batches that begin above this offset, in order. Nothing may be added meanwhile."""
        sql = f"SELECT {_COLUMNS} FROM batches WHERE partition = ? AND destination_base > ? ORDER BY destination_base"
        return map(_batch, self._database.execute(sql, (partition, offset)))

    def close(self) -> None:
        self._database.close()


class Walk:
    """Finds the batches of offsets that mostly rise, with few look-ups."""

    def __init__(self, batches: StoredBatches, partition: int) -> None:
        self._batches = batches
        self._partition = partition
        self._present: CopiedBatch | None = None
        self._later: Iterator[CopiedBatch] = iter(())

    def at(self, offset: int) -> CopiedBatch | None:
        """Return the batch that holds this offset in the destination; None if the mirror wrote none there."""
        for _ in range(_NEAR):
            if self._present is None or offset < self._present.destination_base:
                break
            if offset < self._present.destination_next:
                return self._present
            self._present = next(self._later, None)
        self._present = self._batches.at_or_below(self._partition, offset)
        if self._present is None:
            return None
        self._later = self._batches.above(self._partition, self._present.destination_base)
        return self._present if offset < self._present.destination_next else None


def _batch(row: tuple[int, int, int, int, int, str | None]) -> CopiedBatch:
    return CopiedBatch(*row[:5], None if row[5] is None else tuple(json.loads(row[5])))
