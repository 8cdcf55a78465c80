"""What was acknowledged, what was read, and what is wrong between the two: the classes of error of Jepsen's Kafka workload.

Values are unique, and grow for each producer and partition. Nothing here knows the broker: it sees what librdkafka reports.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Position = tuple[int, int]
"""Partition and offset."""
NOT_TOLD = -1
"""The offset of a value that a broker acknowledged as a duplicate of one it no longer knows the offset of (Apache Kafka does)."""
Row = tuple[int, int, str]
"""Partition, offset and value."""


@dataclass(slots=True)
class History:
    """Filled by the clients' threads."""

    acknowledged: dict[str, Position] = field(default_factory=dict)
    """By value. Values are `producer.partition.number`."""
    order: list[str] = field(default_factory=list)
    """The same values as they were acknowledged, one after the other."""
    unknown: set[str] = field(default_factory=set)
    """Sent, and answered with an error or not at all."""
    read: list[Row] = field(default_factory=list)
    """In the order in which one consumer that never goes back has read them."""
    read_again: list[Row] = field(default_factory=list)
    """The same of a consumer that begins at the start when all is over."""
    groups: dict[str, list[list[Row]]] = field(default_factory=dict)
    """By group: what a member has read from one assignment of partitions to the next. Members begin at what was committed, so a
    value may be read again after an assignment."""
    mirrored: list[Row] | None = None
    """What one consumer has read from the copy on another cluster, which has the same offsets; None where there is no copy."""

    def acknowledge(self, value: str, position: Position) -> None:
        self.unknown.discard(value)
        self.acknowledged[value] = position
        self.order.append(value)

    def readers(self) -> dict[str, list[list[Row]]]:
        """Return by reader what it has read, in parts. Within a part it never goes back. The list may grow meanwhile."""
        found = {"consumer": [self.read], **{f"group {name}": list(parts) for name, parts in list(self.groups.items())}}
        return found if self.mirrored is None else {**found, "the copy": [self.mirrored]}


def faults(history: History, *, may_double: bool = False) -> list[str]:
    """Return what is wrong when all is over, [] when nothing is. `may_double`: the producers were not idempotent."""
    found = list(faults_of_readers(history, may_double=may_double))
    found += [f"final consumer: {fault}" for fault in _of_reads(history.read_again, may_double=may_double)]
    at: dict[Position, str] = {}
    parts = [history.read_again, *(part for parts in history.readers().values() for part in parts)]
    for partition, offset, value in (row for part in parts for row in part):
        other = at.setdefault((partition, offset), value)
        if other != value:
            found.append(f"inconsistent-offsets: {partition}@{offset} was {other}, then {value}")
    final = {value: (partition, offset) for partition, offset, value in history.read_again}
    for value, position in history.acknowledged.items():
        if value not in final:
            found.append(f"lost-write: {value}, acknowledged at {position}")
        elif final[value] != position and position[1] != NOT_TOLD and not may_double:
            found.append(f"inconsistent-offsets: {value} was acknowledged at {position} and is at {final[value]}")
    found += unseen(history)
    strangers = final.keys() - history.acknowledged.keys() - history.unknown
    found += [f"never sent: {value}" for value in sorted(strangers)]
    return found


def unseen(history: History) -> list[str]:
    """Return what was acknowledged and not read yet, for each reader."""
    found = []
    for reader, parts in history.readers().items():
        left = dict(history.acknowledged)
        for part in parts:
            for _, _, value in part:
                left.pop(value, None)
        found += [f"unseen by {reader}: {value} at {at}" for value, at in left.items()]
    return found


def faults_of_readers(history: History, *, may_double: bool = False) -> Iterable[str]:
    """Yield what is wrong with what was read so far: a round can ask while the readers read on."""
    readers = history.readers()
    known = _known_offsets(history, [part for parts in readers.values() for part in parts])
    for reader, parts in readers.items():
        for part in parts:
            rows = list(part)
            yield from (f"{reader}: {fault}" for fault in _of_reads(rows, may_double=may_double))
            yield from (f"{reader}: {fault}" for fault in _skips(rows, known))
            if not may_double:
                yield from (f"{reader}: {fault}" for fault in _elsewhere(rows, history.acknowledged))


def _known_offsets(history: History, parts: Iterable[Sequence[Row]]) -> dict[int, list[int]]:
    """Return by partition, ascending, the offsets at which there certainly is a record."""
    found: dict[int, set[int]] = defaultdict(set)
    for partition, offset in list(history.acknowledged.values()):
        if offset != NOT_TOLD:
            found[partition].add(offset)
    for rows in (history.read_again, *parts):
        for partition, offset, _ in list(rows):
            found[partition].add(offset)
    return {partition: sorted(offsets) for partition, offsets in found.items()}


def _elsewhere(rows: Iterable[Row], acknowledged: Mapping[str, Position]) -> Iterable[str]:
    for partition, offset, value in rows:
        position = acknowledged.get(value)
        if position is not None and position[1] != NOT_TOLD and position != (partition, offset):
            yield f"inconsistent-offsets: {value} was acknowledged at {position} and is at {(partition, offset)}"


def _skips(rows: Iterable[Row], known: Mapping[int, Sequence[int]]) -> Iterable[str]:
    """Yield where a reader has left out records between two that it read one after the other."""
    last: dict[int, int] = {}
    for partition, offset, _ in rows:
        offsets, before = known[partition], last.get(partition)
        last[partition] = offset
        if before is not None and before < offset:
            first, end = bisect_right(offsets, before), bisect_left(offsets, offset)
            if first < end:
                yield f"poll-skip: {partition}@{offset} after {before}: {end - first} records between, from {offsets[first]} on"


def _of_reads(rows: Sequence[Row], *, may_double: bool) -> Iterable[str]:
    last_offset: dict[int, int] = {}
    last_number: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    counts = Counter(value for _, _, value in rows)
    for partition, offset, value in rows:
        if offset <= last_offset.get(partition, -1):
            yield f"nonmonotonic-poll: {partition}@{offset} after {last_offset[partition]}"
        last_offset[partition] = offset
        producer, sent_to, number = value.split(".")
        if int(sent_to) != partition:
            yield f"inconsistent-offsets: {value} is in partition {partition}"
        key = (producer, partition)
        if int(number) <= last_number[key] and not may_double:
            yield f"nonmonotonic-send: {value} after {last_number[key]}"
        last_number[key] = max(last_number[key], int(number))
    if not may_double:
        yield from (f"duplicate: {value}, {count} times" for value, count in counts.items() if count > 1)


def faults_of_logged(logged: Collection[str], rows: Sequence[Row]) -> list[str]:
    """Return how what a topic holds differs from the values that were logged into it: each once."""
    counts = Counter(value for _, _, value in rows)
    found = [f"lost-write: {value}" for value in logged if value not in counts]
    found += [f"duplicate: {value}, {count} times" for value, count in counts.items() if count > 1]
    return found + [f"never logged: {value}" for value in counts if value not in logged]
