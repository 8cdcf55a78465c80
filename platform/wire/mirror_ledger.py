"""The mirror's ledger: which offsets of the source are at which offsets of the destination. Pure: dataclasses and their JSON.

A mirror that cannot keep the source's offsets (towards or from Apache Kafka) writes an entry for each portion that it copies, to
a topic beside the copy: towards Kafka in the same transaction as the copy. The ledger's last entry of a partition is therefore
where copying continues, and all entries together say where each record came from. Drawn in docs/FORMATS.md; decision 30.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import WireError

VERSION = 1
LEDGER_PREFIX = "_headrace.mirror."
MOST_BATCHES = 2_000
"""The most batches that one entry names, so that a message stays below every broker's size limit."""


class NotALedgerEntry(WireError):
    """The bytes are no entry of a version that this program reads."""


class CopiedBatch(NamedTuple):
    """One batch of the source and where it is in the destination."""

    source_base: int
    """The base offset of its header in the source."""
    source_span: int
    """The offsets that its header covers there: last offset delta + 1."""
    record_count: int
    destination_base: int
    """Its records have the offsets from here on, one after another."""
    crc_change: int
    """The CRC in the source's header XOR the one in the destination's."""
    deltas: tuple[int, ...] | None = None
    """Each record's offset in the source less `source_base`, where they are not 0, 1, 2, … (compacted topics)."""

    @property
    def source_next(self) -> int:
        return self.source_base + self.source_span

    @property
    def destination_next(self) -> int:
        return self.destination_base + self.record_count

    def source_offset(self, destination_offset: int) -> int:
        """Return the offset in the source of the record that is at `destination_offset`."""
        index = destination_offset - self.destination_base
        return self.source_base + (index if self.deltas is None else self.deltas[index])


class SkippedRange(NamedTuple):
    """Offsets of the source that the destination does not hold."""

    from_offset: int
    to_offset: int
    reason: str
    """`expired` or `corrupt`: lost before they were copied. `refused`: the destination took them not; they are in quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """All that was done with [from_offset, to_offset) of one partition of the source.

    Offsets in neither `batches` nor `skipped` hold no records: markers and aborted batches of transactions, what compaction
    removed.
    """

    topic: str
    """In the source."""
    partition: int
    destination_topic: str
    from_offset: int
    to_offset: int
    source_id: str = ""
    """The topic's id in the source: another one under the same name is another topic. Empty: the cluster has none."""
    destination_id: str = ""
    batches: tuple[CopiedBatch, ...] = ()
    skipped: tuple[SkippedRange, ...] = ()
    destination_end: int = 0
    """Behind the last record that was copied to this partition, in this entry or an earlier one."""
    source_crc: tuple[int, int] | None = None
    """(base offset, CRC) in the source of the last batch that was copied, in this entry or an earlier one."""

    def key(self) -> bytes:
        return f"{self.topic}-{self.partition}".encode()

    def to_json(self) -> bytes:
        """Return the entry as the value of its message."""
        words: dict[str, Any] = {
            "v": VERSION,
            "topic": self.topic,
            "partition": self.partition,
            "to_topic": self.destination_topic,
            "from": self.from_offset,
            "to": self.to_offset,
            "source_id": self.source_id,
            "to_id": self.destination_id,
            "end": self.destination_end,
            "last": self.source_crc,
            "batches": [list(one[:5]) + ([list(one.deltas)] if one.deltas is not None else []) for one in self.batches],
        }
        if self.skipped:
            words["skipped"] = [list(one) for one in self.skipped]
        return json.dumps(words, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes | memoryview) -> "LedgerEntry":
        """Return the entry that `to_json` wrote. Unknown names are ignored. Raises `NotALedgerEntry`."""
        try:
            words = json.loads(bytes(value))
            if words["v"] != VERSION:
                raise NotALedgerEntry(f"ledger entry of version {words['v']!r}: this program reads version {VERSION}")
            last = words["last"]
            return cls(
                topic=str(words["topic"]),
                partition=int(words["partition"]),
                destination_topic=str(words["to_topic"]),
                from_offset=int(words["from"]),
                to_offset=int(words["to"]),
                source_id=str(words["source_id"]),
                destination_id=str(words["to_id"]),
                destination_end=int(words["end"]),
                source_crc=None if last is None else (int(last[0]), int(last[1])),
                batches=tuple(map(_batch, words["batches"])),
                skipped=tuple(SkippedRange(int(one[0]), int(one[1]), str(one[2])) for one in words.get("skipped", ())),
            )
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise NotALedgerEntry(f"{len(value)} bytes are no ledger entry ({type(error).__name__}: {error})") from error

    def parts(self) -> Iterator["LedgerEntry"]:
        """Yield the entry as entries after one another that each fit a message."""
        if len(self.batches) <= MOST_BATCHES:
            yield self
            return
        begin = self.from_offset
        for first in range(0, len(self.batches), MOST_BATCHES):
            some = self.batches[first : first + MOST_BATCHES]
            is_last = first + MOST_BATCHES >= len(self.batches)
            end = self.to_offset if is_last else some[-1].source_next
            skipped = [SkippedRange(max(one[0], begin), min(one[1], end), one[2]) for one in self.skipped]
            yield LedgerEntry(
                topic=self.topic,
                partition=self.partition,
                destination_topic=self.destination_topic,
                from_offset=begin,
                to_offset=end,
                source_id=self.source_id,
                destination_id=self.destination_id,
                batches=some,
                skipped=tuple(one for one in skipped if one.from_offset < one.to_offset),
                destination_end=some[-1].destination_next if not is_last else self.destination_end,
                source_crc=self.source_crc,
            )
            begin = end


def _batch(words: Sequence[Any]) -> CopiedBatch:
    deltas = tuple(map(int, words[5])) if len(words) > 5 else None
    return CopiedBatch(int(words[0]), int(words[1]), int(words[2]), int(words[3]), int(words[4]), deltas)


def ledger_topic(mirror: str) -> str:
    """Return the name of the topic that holds the ledger of the mirror of this name."""
    return LEDGER_PREFIX + mirror


class OriginMap:
    """Where the batches of one destination partition came from, by their offsets there."""

    def __init__(self, batches: Iterable[CopiedBatch] = ()) -> None:
        self._bases: list[int] = []
        self._batches: list[CopiedBatch] = []
        for one in batches:
            self.add(one)

    def add(self, one: CopiedBatch) -> None:
        """Take the next batch; a batch at or below one that is there replaces it (the copy was created again)."""
        while self._bases and self._bases[-1] >= one.destination_base:
            self._bases.pop()
            self._batches.pop()
        self._bases.append(one.destination_base)
        self._batches.append(one)

    def at(self, destination_offset: int) -> CopiedBatch | None:
        """Return the batch that holds this offset in the destination; None if the mirror wrote none there."""
        index = bisect_right(self._bases, destination_offset) - 1
        if index < 0 or destination_offset >= self._batches[index].destination_next:
            return None
        return self._batches[index]

    def __len__(self) -> int:
        return len(self._bases)
