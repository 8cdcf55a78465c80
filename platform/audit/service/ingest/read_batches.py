"""Turns what a fetch brought of one partition into what the books take in: which records, what could not be read, a digest."""

from hashlib import blake2b

from ....client.fetch.fetched import FetchedPartition
from ....wire.batch.batch_header import HEADER_SIZE, TIMESTAMPS_BOUNDED
from ...counter import WindowCounter
from ...model.messages import Skipped
from ...model.tier_reports import LiveBatch, PartitionRead
from ...model.tiers import LIVE, OFFLINE, QUARANTINE
from ..store.chunks import MODULUS
from ..store.log_books import LogRead, UnreadableRange
from .quarantine_records import QuarantineCounter

CORRUPT = "corrupt"
NOT_SERVED = "the broker serves nothing of these offsets"


class ReadBatches:
    """One tier's. Not for two threads at once."""

    def __init__(self, tier: str, window_ms: int) -> None:
        self._tier = tier
        self._counter = QuarantineCounter(window_ms) if tier == QUARANTINE else WindowCounter(window_ms)

    def of(self, fetched: FetchedPartition, *, to_offset: int | None = None) -> LogRead:
        """Return what is in [requested offset, the end of what was fetched, at most `to_offset`)."""
        at = behind = fetched.requested_offset
        end = fetched.next_offset if to_offset is None else min(fetched.next_offset, to_offset)
        bad = [(one.from_offset, one.to_offset, one.reason) for one in fetched.corrupt]
        digest = 0
        marked: dict[int, int] = {}
        for header, batch in fetched.batches:
            if header.base_offset >= end:
                break
            begin = max(behind, header.position)
            if begin > behind and not any(start < begin and behind < stop for start, stop, _ in bad):
                # Our broker serves nothing of a batch that its own recovery found bad. (A log of Kafka's has no such gaps: its
                # batches have no position of their own.)
                bad.append((behind, begin, NOT_SERVED))
            behind = header.next_offset
            self._counter.add(header, batch, from_offset=at, to_offset=end)
            if header.attributes & TIMESTAMPS_BOUNDED:
                marked.setdefault(header.producer_id, header.base_offset)
            digest += int.from_bytes(blake2b(bytes(batch[:HEADER_SIZE]), digest_size=16).digest())
        return self._read(fetched, end, sorted(bad), digest % MODULUS, marked)

    def nothing(self, fetched: FetchedPartition, to_offset: int) -> LogRead:
        """Return that the broker serves nothing of [requested offset, `to_offset`)."""
        return self._read(fetched, to_offset, [(fetched.requested_offset, to_offset, NOT_SERVED)], 0, {})

    def _read(
        self, fetched: FetchedPartition, end: int, bad: list[tuple[int, int, str]], digest: int, marked: dict[int, int]
    ) -> LogRead:
        bad = [(start, min(stop, end), reason) for start, stop, reason in bad if start < end]
        found = PartitionRead(
            topic=fetched.topic,
            partition=fetched.partition,
            from_offset=fetched.requested_offset,
            to_offset=end,
            windows={
                start: [one.stretch if self._tier == OFFLINE else LiveBatch(*one) for one in batches]
                for start, batches in self._counter.take().items()
            },
            skipped=tuple(Skipped(start, stop, CORRUPT) for start, stop, _ in bad if start < stop),
            marked=marked if self._tier == LIVE else {},
        )
        unreadable = tuple(
            UnreadableRange(topic=fetched.topic, partition=fetched.partition, from_offset=start, to_offset=stop, reason=reason)
            for start, stop, reason in bad
        )
        return LogRead(found=found, digest=digest, unreadable=unreadable)
