"""What the logs that are read back looked like, chunk by chunk: enough to tell whether a later reading found the same.

The digest of a chunk is the sum, modulo 2^128, of a hash of each batch's header, in which the batch's CRC stands.
"""

from typing import NamedTuple

from ...model.tier_reports import LogKey
from .database import Database

CHUNK_OFFSETS = 4 << 20
"""Neighbouring reads are joined up to this many offsets (bytes, in a log of ours)."""
MODULUS = 1 << 128


class Chunk(NamedTuple):
    """All of [from_offset, to_offset) of one log as it was read."""

    from_offset: int
    to_offset: int
    digest: int


class Chunks:
    """Reads and writes the chunks, in the transaction that the caller has begun."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, key: LogKey) -> list[Chunk]:
        """Return the chunks of a log, in order."""
        rows = self._database.rows(
            "SELECT from_offset, to_offset, digest FROM chunks WHERE topic = ? AND tier = ? AND partition = ?"
            " ORDER BY from_offset",
            (key.topic, key.tier, key.partition),
        )
        return [Chunk(start, end, int(digest, 16)) for start, end, digest in rows]

    def add(self, key: LogKey, chunk: Chunk) -> None:
        """Add what was read behind the last chunk, or again of one."""
        rows = self._database.rows(
            "SELECT from_offset, to_offset, digest FROM chunks WHERE topic = ? AND tier = ? AND partition = ?"
            " AND from_offset <= ? ORDER BY from_offset DESC LIMIT 1",
            (key.topic, key.tier, key.partition, chunk.from_offset),
        )
        if rows:
            start, end, digest = rows[0]
            if end == chunk.from_offset and chunk.to_offset - start <= CHUNK_OFFSETS:
                chunk = Chunk(start, chunk.to_offset, (int(digest, 16) + chunk.digest) % MODULUS)
            elif start < chunk.from_offset < end:
                # Only the rest of a chunk was read: its beginning has expired.
                self._database.delete("chunks", topic=key.topic, tier=key.tier, partition=key.partition, from_offset=start)
        self._database.put(
            "chunks", (key.topic, key.tier, key.partition, chunk.from_offset, chunk.to_offset, f"{chunk.digest:x}")
        )

    def forget(self, tier: str, topic: str, partition: int | None = None) -> None:
        """Forget the chunks of the topic's logs, or of one."""
        one = {} if partition is None else {"partition": partition}
        self._database.delete("chunks", topic=topic, tier=tier, **one)
