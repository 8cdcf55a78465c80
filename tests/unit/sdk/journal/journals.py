"""Small journals for the tests: written by the real writer, in segments of 4 KB."""

import os
from pathlib import Path

from headrace.sdk.journal import START, Journal, JournalChunk, JournalRecord, Position, Unreadable
from headrace.sdk.journal.files.folder import NewJournal, make_journal
from headrace.sdk.journal.files.layout import Kind
from headrace.sdk.journal.files.segment_writer import Numbers, SegmentWriter

SEGMENT_BYTES = 4096


class SmallJournal:
    """A journal and its writer, without policy: `put` rolls when a segment is full."""

    def __init__(
        self, root: Path, *, segment_bytes: int = SEGMENT_BYTES, instance: str = "host/app/1", is_durable: bool = False
    ) -> None:
        self.numbers = Numbers()
        self.made: NewJournal
        self.made, self.segment = make_journal(
            root,
            topic="clicks",
            schema='"bytes"',
            application="app",
            instance=instance,
            server_name="host",
            now_ms=1_700_000_000_000,
            lateness_ms=60_000,
            only_between_ms=None,
            segment_bytes=segment_bytes,
            is_durable=False,
            numbers=self.numbers,
        )
        self.folder = self.made.folder
        self.journal = Journal(self.folder)

    def put(self, body: bytes, *, timestamp_ms: int = 1_000, key: bytes | None = None, kind: Kind = Kind.EVENT) -> None:
        while not self.segment.append(kind, timestamp_ms, key, body):
            self.roll()

    def roll(self) -> None:
        head = self.made.head
        following = SegmentWriter(self.folder, head.id_bytes, self.segment.segment + 1, head.segment_bytes, self.numbers)
        self.segment.fill(Kind.END_OF_SEGMENT)
        self.segment = following

    def die(self) -> None:
        """End as a killed process does: nothing is written any more, and the lock is gone."""
        os.close(self.made.lock)

    def close(self) -> None:
        self.segment.fill(Kind.END_OF_JOURNAL)
        self.die()


def read_all(journal: Journal, position: Position = START, most_bytes: int = 1 << 20) -> JournalChunk:
    """Return everything from `position` on as one chunk."""
    records: list[JournalRecord] = []
    unreadable: list[Unreadable] = []
    while True:
        chunk = journal.read(position, most_bytes)
        records += chunk.records
        unreadable += chunk.unreadable
        if chunk.end == position:
            return JournalChunk(records, position, unreadable)
        position = chunk.end
