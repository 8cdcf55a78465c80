"""Places in a journal, and what a reader gets from there. Values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .files.layout import HEADER_BYTES
from .files.plain_records import JournalRecord as JournalRecord


class Position(NamedTuple):
    """A place in a journal. As JSON it is a list of three integers. Only positions that a reader returned have a meaning."""

    segment: int
    byte: int
    number: int
    """One more than the largest number of a record before this place: so a gap can be counted in records."""


START = Position(0, HEADER_BYTES, 0)
"""Where a journal begins."""


class Unreadable(NamedTuple):
    """A range that holds no readable record: after a power cut, or after damage."""

    start: Position
    end: Position
    bytes: int
    records: int
    """How many records are missing, as the number of the next one tells; without a next one, at least one."""
    timestamp_ms: int
    """By which the missing ones are dated: the next record's time, else that of the one before, else the journal's epoch."""


@dataclass(frozen=True, slots=True)
class JournalChunk:
    """What is in [the position asked for, `end`). The same range gives the same content whenever it is read."""

    records: Sequence[JournalRecord]
    end: Position
    unreadable: Sequence[Unreadable] = ()
