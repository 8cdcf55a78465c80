"""Stretches of records in little memory: eight bytes a number, sorted by the first record.

A row is (first, count, crc) and, in the live log, (…, producer id, producer epoch, base sequence). A CRC that is not known is -1.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import add

Row = tuple[int, ...]
PLAIN = 3
LIVE_WIDTH = 6
PRODUCER_ID = 3
"""Where a row of the live log has it."""
SEQUENCES = 1 << 31
"""Sequence numbers go from 0 to this, and then begin at 0 again."""


class Rows:
    """Rows of one width, sorted. A record that is named twice is in two rows."""

    __slots__ = ("_words", "end", "width")

    def __init__(self, width: int = PLAIN, rows: Iterable[Row] = ()) -> None:
        self.width = width
        self._words = array("q")
        self.end = 0
        """The number behind the highest record, 0 without any."""
        self.add(rows)

    def __len__(self) -> int:
        return len(self._words) // self.width

    def __iter__(self) -> Iterator[Row]:
        words = iter(self._words)
        return zip(*[words] * self.width, strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._words == other._words

    __hash__ = None  # type: ignore[assignment]

    @property
    def first(self) -> int:
        """The lowest record, 0 without any."""
        return self._words[0] if self._words else 0

    @property
    def count(self) -> int:
        """How many records the rows name."""
        return sum(self._words[1 :: self.width])

    def column(self, at: int) -> array[int]:
        """Return one number of every row."""
        return self._words[at :: self.width]

    def names_the_same(self, other: Rows) -> bool:
        """Return whether both have the same rows, whatever they say of producers. Fast: most entries of a sound log agree."""
        return len(self) == len(other) and all(self.column(at) == other.column(at) for at in range(PLAIN))

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; any order."""
        in_order = True
        last = self._words[-self.width] if self._words else -1
        for row in rows:
            in_order = in_order and row[0] >= last
            last = row[0]
            self._words.extend(row)
            self.end = max(self.end, row[0] + row[1])
        if not in_order:
            self._set(sorted(self))

    def cut(self, from_number: int, to_number: int) -> list[Row]:
        """Remove and return what lies in [from_number, to_number); a row across a border is cut there."""
        if from_number >= self.end or to_number <= self.first:
            return []
        kept: list[Row] = []
        removed: list[Row] = []
        for row in self:
            before, inside, behind = split(row, from_number, to_number)
            kept += [one for one in (before, behind) if one is not None]
            if inside is not None:
                removed.append(inside)
        self._set(sorted(kept))
        return removed

    def between(self, from_number: int, to_number: int) -> list[Row]:
        """Return what lies in [from_number, to_number), cut at the borders."""
        if from_number >= self.end or to_number <= self.first:
            return []
        return [inside for row in self if (inside := split(row, from_number, to_number)[1]) is not None]

    def pack(self) -> bytes:
        """Return the rows as bytes; `unpack` takes them back."""
        return self._words.tobytes()

    def unpack(self, packed: bytes) -> None:
        """Add rows that `pack` gave for the same width."""
        words = array("q")
        words.frombytes(packed)
        firsts = words[:: self.width].tolist()
        if firsts and firsts[0] >= (self._words[-self.width] if self._words else 0) and firsts == sorted(firsts):
            # Hot: all of a topic is read back when a tier repeats itself. Nearly always one piece lies behind the other.
            self._words.extend(words)
            self.end = max(self.end, max(map(add, firsts, words[1 :: self.width])))
        else:
            self.add(zip(*[iter(words)] * self.width, strict=True))

    def _set(self, rows: Sequence[Row]) -> None:
        self._words = array("q", [word for row in rows for word in row])
        self.end = max((row[0] + row[1] for row in rows), default=0)


def split(row: Row, from_number: int, to_number: int) -> tuple[Row | None, Row | None, Row | None]:
    """Return the parts of `row` before, inside and behind [from_number, to_number)."""
    first, end = row[0], row[0] + row[1]
    if first >= from_number and end <= to_number:
        return None, row, None
    low, high = min(max(from_number, first), end), max(min(to_number, end), first)
    high = max(low, high)
    return _part(row, first, low), _part(row, low, high), _part(row, high, end)


def _part(row: Row, from_number: int, to_number: int) -> Row | None:
    if from_number >= to_number:
        return None
    if len(row) == PLAIN:
        return from_number, to_number - from_number, row[2]
    sequence = row[5] if row[5] < 0 else (row[5] + from_number - row[0]) % SEQUENCES
    return from_number, to_number - from_number, row[2], row[3], row[4], sequence


def common(one: Iterable[Row], other: Iterable[Row]) -> int:
    """Return how many numbers both name, each counted once."""
    mine, theirs = joined(one), joined(other)
    starts = [start for start, _ in theirs]
    shared = 0
    for start, end in mine:
        at = max(0, bisect_left(starts, start) - 1)
        while at < len(theirs) and theirs[at][0] < end:
            shared += max(0, min(end, theirs[at][1]) - max(start, theirs[at][0]))
            at += 1
    return shared


def joined(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """Return the numbers that the rows name as the fewest half-open ranges, in order."""
    ranges: list[tuple[int, int]] = []
    for row in sorted(rows):
        start, end = row[0], row[0] + row[1]
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end))
        else:
            ranges.append((start, end))
    return ranges
