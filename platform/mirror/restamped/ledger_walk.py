"""Walks a mirror's ledger partition by partition, without holding it: one pass finds where each partition's entries begin, then
each partition's entries are read as they are wanted.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import log_range
from ...client.fetch.read_range import read_range
from ...wire.batch.record_batch import iter_records
from ...wire.mirror_ledger import LedgerEntry, ledger_topic

MOST_MARKS = 1_024
"""Of one partition: what is looked up is found within a thousandth of the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the ledger says of one partition of the source, as far as it was read."""

    destination_topic: str
    first_at: int
    """Offset in the ledger of the first entry of this copy; entries before it are of a copy that was deleted."""
    from_offset: int
    """Where this copy begins in the source."""
    to_offset: int
    """Up to where the source is copied."""
    destination_end: int
    source_id: str = ""
    destination_id: str = ""


class LedgerWalk:
    """One mirror's ledger. Not for two threads at once."""

    def __init__(self, cluster: Cluster, mirror: str) -> None:
        self._cluster = cluster
        self._name = TopicPartition(ledger_topic(mirror), 0)
        self._next: int | None = None
        self._marks: dict[TopicPartition, list[tuple[int, int]]] = {}
        """(from_offset of an entry in the source, its offset in the ledger), in order."""
        self._facts: dict[TopicPartition, LedgerFacts] = {}

    @property
    def topic(self) -> str:
        return self._name.topic

    def facts(self) -> Mapping[TopicPartition, LedgerFacts]:
        """Return what the ledger says of each partition of the source by now. Reads what is new. Raises ClientError,
        `UnknownTopic` if there is no ledger of this name, `NotALedgerEntry`.
        """
        for at, entry in self._entries(self._next, None):
            name = TopicPartition(entry.topic, entry.partition)
            before = self._facts.get(name)
            is_first = before is None or _is_another_copy(before, entry)
            self._mark(name, entry, at, is_first=is_first)
            self._facts[name] = LedgerFacts(
                destination_topic=entry.destination_topic,
                first_at=at if before is None or is_first else before.first_at,
                from_offset=entry.from_offset if before is None or is_first else before.from_offset,
                to_offset=entry.to_offset,
                destination_end=entry.destination_end,
                source_id=entry.source_id,
                destination_id=entry.destination_id,
            )
            self._next = at + 1
        return dict(self._facts)

    def known(self, name: TopicPartition) -> LedgerFacts | None:
        """Return what `facts` last found of one partition."""
        return self._facts.get(name)

    def entries(self, name: TopicPartition, facts: LedgerFacts, *, from_offset: int = 0) -> Iterator[LedgerEntry]:
        """Yield the entries of one partition's present copy, in order, up to what `facts` says. With `from_offset`, an offset of
        the source, some entries that end before it are left out.
        """
        marks = self._marks.get(name, [])
        index = bisect_right(marks, (from_offset, 1 << 62)) - 1
        first_at = max(facts.first_at, marks[index][1]) if index >= 0 else facts.first_at
        key = LedgerEntry(topic=name.topic, partition=name.partition, destination_topic="", from_offset=0, to_offset=0).key()
        for _, entry in self._entries(first_at, key):
            if entry.to_offset > facts.to_offset:
                return
            yield entry

    def _mark(self, name: TopicPartition, entry: LedgerEntry, at: int, *, is_first: bool) -> None:
        """Remember where in the ledger an entry stands. Every other mark goes when there are too many."""
        marks = self._marks.setdefault(name, [])
        if is_first:
            marks.clear()
        marks.append((entry.from_offset, at))
        if len(marks) > MOST_MARKS:
            del marks[1::2]

    def _entries(self, from_offset: int | None, key: bytes | None) -> Iterator[tuple[int, LedgerEntry]]:
        """Yield (offset, entry) from an offset on; with a key, only that partition's."""
        start, end = log_range(self._cluster, self._name)
        start = start if from_offset is None else max(start, from_offset)
        if start >= end:
            return
        for header, batch in read_range(self._cluster, *self._name, start, end):
            if header.is_control or not header.record_count:
                continue
            for record in iter_records(batch):
                if record.offset >= start and (key is None or record.key == key):
                    yield record.offset, LedgerEntry.from_json(record.value or b"")


def _is_another_copy(before: LedgerFacts, entry: LedgerEntry) -> bool:
    if entry.destination_id and before.destination_id:
        return entry.destination_id != before.destination_id
    return entry.from_offset < before.to_offset
