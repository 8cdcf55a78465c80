"""The checks of `history` after a round, of what is new since the last one: each row of a growing history is looked at once.

A duplicate is found as nonmonotonic-send: the values of a producer grow in each partition. The end of a run, and every few
rounds, check everything again.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from .history import NOT_TOLD, History, Row


@dataclass(slots=True)
class _Part:
    """What was looked at of one part of what a reader has read."""

    count: int = 0
    last_offset: dict[int, int] = field(default_factory=dict)
    last_number: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Reader:
    parts: list[_Part] = field(default_factory=list)
    left: dict[str, None] = field(default_factory=dict)
    """Acknowledged, and not read yet."""
    early: set[str] = field(default_factory=set)
    """Read, and not acknowledged yet."""


class GrowingCheck:
    """Of one history, from its beginning on. `take` looks at what is new."""

    def __init__(self, history: History) -> None:
        self.faults: list[str] = []
        """What is wrong with the order and the places of what was read."""
        self._history = history
        self._count = 0
        """Of acknowledged values that were looked at."""
        self._readers: dict[str, _Reader] = defaultdict(_Reader)
        self._known: dict[int, array[int]] = defaultdict(lambda: array("q"))
        """By partition, ascending, the offsets at which there certainly is a record."""

    def take(self) -> None:
        values = self._history.order[self._count :]
        self._count += len(values)
        new = {reader: list(self._new_rows(reader, parts)) for reader, parts in self._history.readers().items()}
        acknowledged = [self._history.acknowledged[value] for value in values]
        self._know(
            [
                *acknowledged,
                *((partition, offset) for parts in new.values() for _, rows in parts for partition, offset, _ in rows),
            ]
        )
        for name, parts in new.items():
            reader = self._readers[name]
            for value in values:
                if value in reader.early:
                    reader.early.discard(value)
                else:
                    reader.left[value] = None
            for part, rows in parts:
                self.faults += [f"{name}: {fault}" for fault in self._of_rows(part, rows)]
                for _, _, value in rows:
                    if value in reader.left:
                        del reader.left[value]
                    elif value not in self._history.acknowledged:
                        reader.early.add(value)

    def unseen(self, readers: Iterable[str] | None = None) -> list[str]:
        """Return what was acknowledged and not read, by all readers or by these, as far as `take` has looked."""
        names = self._readers if readers is None else readers
        at = self._history.acknowledged
        return [f"unseen by {name}: {value} at {at[value]}" for name in names for value in self._readers[name].left]

    def _new_rows(self, name: str, parts: Sequence[Sequence[Row]]) -> Iterator[tuple[_Part, list[Row]]]:
        known = self._readers[name].parts
        known += [_Part() for _ in range(len(parts) - len(known))]
        for part, rows in zip(known, parts, strict=True):
            if new := list(rows[part.count :]):
                part.count += len(new)
                yield part, new

    def _know(self, positions: Iterable[tuple[int, int]]) -> None:
        new: dict[int, set[int]] = defaultdict(set)
        for partition, offset in positions:
            if offset != NOT_TOLD:
                new[partition].add(offset)
        for partition, offsets in new.items():
            known = self._known[partition]
            at = bisect_left(known, min(offsets))  # nearly all are behind what is known
            offsets.update(known[at:])
            known[at:] = array("q", sorted(offsets))

    def _of_rows(self, part: _Part, rows: Iterable[Row]) -> Iterator[str]:
        for partition, offset, value in rows:
            before = part.last_offset.get(partition, -1)
            part.last_offset[partition] = offset
            if offset <= before:
                yield f"nonmonotonic-poll: {partition}@{offset} after {before}"
            elif before >= 0:
                known = self._known[partition]
                first, end = bisect_right(known, before), bisect_left(known, offset)
                if first < end:
                    yield f"poll-skip: {partition}@{offset} after {before}: {end - first} records between, from {known[first]} on"
            producer, sent_to, number = value.split(".")
            if int(sent_to) != partition:
                yield f"inconsistent-offsets: {value} is in partition {partition}"
            key, last = (producer, sent_to), part.last_number.get((producer, sent_to), -1)
            if int(number) <= last:
                yield f"nonmonotonic-send: {value} after {last}"
            part.last_number[key] = max(last, int(number))
            position = self._history.acknowledged.get(value)
            if position is not None and position[1] != NOT_TOLD and position != (partition, offset):
                yield f"inconsistent-offsets: {value} was acknowledged at {position} and is at {(partition, offset)}"


class LoggedCheck:
    """What a reader has read of the values `round.number` that loggers have taken: each once. Each row is looked at once."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._count = 0
        self._read: dict[int, set[str]] = defaultdict(set)
        """By round; of a round in which all was read, nothing more is kept."""
        self._whole: set[int] = set()
        self._doubled: list[str] = []

    def faults(self, taken: Mapping[int, Set[str]]) -> list[str]:
        """Return how what was read differs from what was taken, by round, by loggers that have ended."""
        new = list(self._rows[self._count :])
        self._count += len(new)
        for _, _, value in new:
            number = int(value.partition(".")[0])
            if number in self._whole or value in self._read[number]:
                self._doubled.append(f"duplicate: {value}")
            self._read[number].add(value)
        found = list(self._doubled)
        for number in [*self._read]:
            found += [f"never logged: {value}" for value in self._read[number] - taken.get(number, set())]
        for number in taken.keys() - self._whole:
            if missing := taken[number] - self._read[number]:
                found += [f"lost-write: {value}" for value in missing]
            elif self._read[number] == taken[number]:
                self._whole.add(number)
                del self._read[number]
        return found
