"""Where a group's offset in the source leads to in the destination: nowhere else between clusters of ours, through the ledger
else.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import TopicPartition
from ...wire.mirror_ledger import LedgerEntry
from ..partition_copy import PartitionCopy
from ..restamped.ledger_walk import LedgerWalk


class Translation(Protocol):
    """How offsets are led over."""

    def refresh(self) -> None:
        """Learn how far everything is copied by now. Raises ClientError."""

    def destination_offset(self, name: TopicPartition, offset: int) -> int | None:
        """Return the offset of the first record that is not before the source's `offset`; None if nothing is known of it yet.

        Never beyond what is copied: a consumer that continues there misses nothing.
        """


class SameOffsets:
    """Between clusters of ours."""

    def __init__(self, copies: Callable[[], Mapping[TopicPartition, PartitionCopy]]) -> None:
        self._ask = copies
        self._copies: Mapping[TopicPartition, PartitionCopy] = {}

    def refresh(self) -> None:
        self._copies = self._ask()

    def destination_offset(self, name: TopicPartition, offset: int) -> int | None:
        copy = self._copies.get(name)
        return None if copy is None or not copy.copied_to else min(offset, copy.copied_to)


class ByLedger:
    """With Apache Kafka at an end. Looks each offset up once: a ledger is long, and idle groups stand still."""

    MOST_KNOWN = 10_000

    def __init__(self, destination: Cluster, mirror: str) -> None:
        self._walk = LedgerWalk(destination, mirror)
        self._found: dict[tuple[TopicPartition, int], int] = {}

    def refresh(self) -> None:
        self._walk.facts()

    def destination_offset(self, name: TopicPartition, offset: int) -> int | None:
        facts = self._walk.known(name)
        if facts is None or offset < facts.from_offset:
            return None
        if offset >= facts.to_offset:
            return facts.destination_end
        key = name, offset
        if key not in self._found:
            if len(self._found) >= self.MOST_KNOWN:
                self._found.clear()
            found = self._look(name, offset)
            if found is None:
                return facts.destination_end
            self._found[key] = found
        return self._found[key]

    def _look(self, name: TopicPartition, offset: int) -> int | None:
        facts = self._walk.known(name)
        assert facts is not None
        for entry in self._walk.entries(name, facts, from_offset=offset):
            if (found := in_entry(entry, offset)) is not None:
                return found
        return None


def in_entry(entry: LedgerEntry, offset: int) -> int | None:
    """Return where the entry's first record that is not before the source's `offset` stands; None if it holds none. Pure."""
    for batch in entry.batches:
        if batch.source_next <= offset:
            continue
        for index in range(batch.record_count):
            if batch.source_offset(batch.destination_base + index) >= offset:
                return batch.destination_base + index
    return None
