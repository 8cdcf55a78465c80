"""The quick way through a segment: event after event, up to whatever is not plainly one. Pure.

What is there then (an end, damage, a record that is not written yet, the border of what was read) is `segment_reader`'s
affair. Hot: an agent without `headrace_native` reads every event through here, in about a fourth of the careful way's time.
"""

import struct
from typing import NamedTuple, Protocol

from ....wire.batch.crc32c import crc32c
from .layout import ALIGNMENT, RECORD_HEAD_BYTES, Kind

_HEAD = struct.Struct("<IIQqBxHi")
"""A record's head: CRC, length, number, timestamp_ms, kind, 0, key length."""
assert _HEAD.size == RECORD_HEAD_BYTES
_KINDS = (None, Kind.EVENT, Kind.QUARANTINE)


class JournalRecord(NamedTuple):
    """An event, or a refused one."""

    kind: Kind
    timestamp_ms: int
    key: bytes | None
    body: bytes


class PlainRun(NamedTuple):
    """What was taken, records one after another."""

    record_count: int
    end: int
    """The place behind the last one and its padding; where nothing plain stands, the place that was asked for."""
    next_number: int
    """One more than the largest number among them; 0 without any."""
    last_ms: int
    """The last one's time."""


class RecordSink(Protocol):
    """Takes what a reader finds in a journal, in order."""

    def take_plain(self, memory: bytes, at: int, salt: int, most_bytes: int, until: int) -> PlainRun:
        """Take what `plain_records` would return."""

    def append(self, record: JournalRecord) -> None: ...


class RecordList:
    """A sink that keeps the records."""

    def __init__(self) -> None:
        self.records: list[JournalRecord] = []
        self.append = self.records.append

    def take_plain(self, memory: bytes, at: int, salt: int, most_bytes: int, until: int) -> PlainRun:
        found, run = plain_records(memory, at, salt, most_bytes, until)
        self.records += found
        return run


def plain_records(memory: bytes, at: int, salt: int, most_bytes: int, until: int) -> tuple[list[JournalRecord], PlainRun]:
    """Return the records that stand whole in `memory` from `at` on, until they take `most_bytes` or the next begins at or behind
    `until`. The first thing that is not an event and no refused one ends them.
    """
    records: list[JournalRecord] = []
    append, unpack, size, until = records.append, _HEAD.unpack_from, len(memory), min(until, len(memory) - RECORD_HEAD_BYTES + 1)
    next_number = 0
    while at < until and most_bytes > 0:
        crc, length, number, timestamp_ms, kind, _, key_bytes = unpack(memory, at)
        behind = at + length
        if length < RECORD_HEAD_BYTES or behind > size or not 0 < kind < 3 or crc32c(memory[at + 4 : behind], salt) != crc:
            break
        body_at = at + RECORD_HEAD_BYTES
        if key_bytes < 0:
            key = None
        else:
            key = memory[body_at : body_at + key_bytes]
            body_at += key_bytes
            if body_at > behind:
                break
        append(JournalRecord(_KINDS[kind], timestamp_ms, key, memory[body_at:behind]))  # type: ignore[arg-type]
        if number >= next_number:
            next_number = number + 1
        most_bytes -= length
        at = behind + -behind % ALIGNMENT
    return records, PlainRun(len(records), at, next_number, records[-1].timestamp_ms if records else 0)
