"""Where the offline log's records stood in the live log, where the two number their records differently (Apache Kafka at an end).

There the mirror's ledger says so. The books keep what was read and told in the offsets of the log it was read from; what a
verdict is made of is translated here, so that records are compared by the live log's offsets, whatever lies between.

    records that the ledger names       at their offsets in the live log, with the CRC that their batch had there
    behind all that the ledger names    perhaps named soon: the partition counts as not read yet, for `SOON_MS`
    any other                           nobody copied them: surplus, at offsets that no live log has
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ....wire.mirror_ledger import CopiedBatch, LedgerEntry
from ...model.books import Found
from ...model.checks.quarantine import is_at_offline
from ...model.facts import TopicFacts, WindowFacts
from ...model.messages import Skipped
from ...model.packed_rows import Row
from ...model.tier_log import TierLog
from ...model.tiers import QUARANTINE, is_behind_mirror
from .stored_batches import StoredBatches, Walk

SOON_MS = 10_000
NO_PARTITION = 0
"""The number of the partitions of which the ledger says nothing."""
NOWHERE = 1 << 61
"""Added to the offset of a record that nobody copied."""


@dataclass(slots=True)
class PartitionOrigins:
    """Where the records of one partition of the offline cluster came from."""

    number: int
    """Among `batches`."""
    batches: StoredBatches
    copied_to: int = 0
    """Up to which offset of the live log all is copied."""
    destination_to: int = 0
    """Behind the last record copied, in the offline log."""

    def take(self, entry: LedgerEntry) -> None:
        self.batches.add(self.number, entry.batches)
        self.copied_to, self.destination_to = entry.to_offset, entry.destination_end

    def position(self, destination_offset: int) -> int:
        """Return up to where the live log is accounted for by who accounts for the offline one up to this offset. Never falls."""
        if destination_offset >= self.destination_to:
            return self.copied_to
        one = self.batches.at_or_below(self.number, destination_offset - 1)
        if one is None:
            first = self.batches.first(self.number)
            return 0 if first is None else first.source_base
        return one.source_offset(destination_offset) if destination_offset < one.destination_next else one.source_next

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows at their offsets in the live log, cut at the borders of batches; those of no batch at `NOWHERE`."""
        walk = Walk(self.batches, self.number)
        for first, count, crc, *_ in rows:
            at, end = first, first + count
            while at < end:
                batch = walk.at(at)
                if batch is None:
                    yield at + NOWHERE, 1, crc
                    at += 1
                    continue
                until = min(end, batch.destination_next)
                yield from _in_batch(batch, at, until, crc)
                at = until


def _in_batch(batch: CopiedBatch, at: int, until: int, crc: int) -> Iterator[Row]:
    source_crc = crc if crc == -1 else crc ^ batch.crc_change
    if batch.deltas is None:
        yield batch.source_offset(at), until - at, source_crc
        return
    for offset in range(at, until):
        yield batch.source_offset(offset), 1, source_crc


class Translated(NamedTuple):
    """The facts of one window in the live log's offsets."""

    topic: TopicFacts
    window: WindowFacts


class Origins:
    """The origins of all partitions; None of them known where both logs number alike. The ledger's lock guards it."""

    def __init__(self) -> None:
        self.is_needed: bool | None = False
        """None: not known yet which clusters these are; then it is unknown what is behind the mirror."""
        self.refreshed_ms = 0
        """When the mirror's ledger was last read to its end."""
        self._batches = StoredBatches()
        self._partitions: dict[tuple[str, int], PartitionOrigins] = {}

    def take(self, entries: Iterable[LedgerEntry], ended_ms: int | None) -> None:
        """Take in what the mirror's ledger says. `ended_ms`: when its end was asked for that is now reached; None: it
        continues.
        """
        for entry in entries:
            key = (entry.destination_topic, entry.partition)
            if key not in self._partitions:
                self._partitions[key] = PartitionOrigins(len(self._partitions) + 1, self._batches)
            self._partitions[key].take(entry)
        if ended_ms is not None:
            self.refreshed_ms = ended_ms

    def position(self, tier: str, topic: str, partition: int, offset: int) -> int:
        """Return the offset of a tier's log as one of the live log."""
        if not self.is_needed or not is_behind_mirror(tier):
            return offset
        return self._of(topic, partition).position(offset)

    def of_topic(self, facts: TopicFacts) -> TopicFacts:
        """Return the topic's facts with the logs of the translated tiers in the live log's offsets."""
        if self.is_needed is False:
            return facts
        logs = {
            tier: {partition: self._log(facts.topic, partition, log) for partition, log in mine.items()}
            if is_behind_mirror(tier)
            else mine
            for tier, mine in facts.logs.items()
        }
        return replace(facts, logs=logs)

    def of_window(self, topic: TopicFacts, window: WindowFacts) -> Translated:
        """Return the facts with the records of the translated tiers at the live log's offsets; `topic` is translated already."""
        if self.is_needed is False:
            return Translated(topic, window)
        found = dict(window.found)
        logs = dict(topic.logs)
        for tier in filter(is_behind_mirror, window.found):
            mine: dict[int, Found] = {}
            for partition, entry in window.found[tier].items():
                known, is_whole = self._found(tier, topic.topic, partition, entry)
                mine[partition] = known
                if not is_whole and partition in logs.get(tier, {}):
                    unread = replace(logs[tier][partition], coverage=[])
                    logs[tier] = {**logs[tier], partition: unread}
            if mine:
                found[tier] = mine
        if QUARANTINE in found:
            found[QUARANTINE] = {
                partition: self._quarantined(topic.topic, entry) for partition, entry in found[QUARANTINE].items()
            }
        return Translated(replace(topic, logs=logs), replace(window, found=found))

    def _quarantined(self, topic: str, entry: Found) -> Found:
        """Return what a quarantine topic holds with the origins on the offline log as offsets of the live log."""
        found = Found(QUARANTINE, entry.updated_ms)
        found.altered.add(entry.altered)
        for offset, count, crc, whose, which, place in entry.held:
            if not is_at_offline(whose):
                found.held.add([(offset, count, crc, whose, which, place)])
                continue
            for first, records, _ in self._of(topic, whose // 2).rows([(place, which, -1)]):
                found.held.add([(offset, count, crc, whose, records, first)])
        return found

    def _of(self, topic: str, partition: int) -> PartitionOrigins:
        return self._partitions.get((topic, partition)) or PartitionOrigins(NO_PARTITION, self._batches)

    def _log(self, topic: str, partition: int, log: TierLog) -> TierLog:
        origins = self._of(topic, partition)
        covered = [(origins.position(start) if start else 0, origins.position(end)) for start, end in log.coverage]
        skipped = (Skipped(origins.position(one[0]), origins.position(one[1]), one[2]) for one in log.skipped)
        return replace(
            log,
            begins_at=origins.position(log.begins_at) if log.begins_at else 0,
            coverage=covered + [(start + NOWHERE, end + NOWHERE) for start, end in log.coverage],
            skipped=[one for one in skipped if one.from_offset < one.to_offset],
        )

    def _found(self, tier: str, topic: str, partition: int, entry: Found) -> tuple[Found, bool]:
        """Return the entry translated, and whether all of it could be: not where the ledger may yet name some of it."""
        origins = self._of(topic, partition)
        is_late = self.is_needed is not None and entry.updated_ms + SOON_MS < self.refreshed_ms
        found = Found(tier, entry.updated_ms)
        is_whole = True
        for rows, mine in zip(found.parts, entry.parts, strict=True):
            known = list(mine)
            if mine.end > origins.destination_to and not is_late:
                known = mine.between(0, origins.destination_to)
                is_whole = False
            rows.add(sorted(origins.rows(known)))
        return found, is_whole
