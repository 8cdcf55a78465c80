"""Our broker as destination of a log with dense offsets: batches are placed at the log end by conditional appends.

The log alone says how far the copy is: every copy of one source is the same sequence of batches, so whatever mirror appended the
last one, the next one is known. The ledger is written behind the appends; what it lacks after a crash is found by matching the
destination's last batches with the source's (`catch_up`). A dead mirror's late request does no harm (decision 3).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...client.connection.cluster import Cluster
from ...client.errors import OffsetOutOfRange, broker_error
from ...client.fetch.committed import data_batches
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.fetcher import Fetcher
from ...client.fetch.read_range import read_range
from ...client.mirror_ledger import LedgerReader
from ...client.transactions.errors import PartitionFailed
from ...runtime.clock import Clock
from ...wire.batch.record_batch import BatchHeader, advance_of
from ...wire.batch.restamp import NEUTRAL, Restamped, crc_under, placed_at, restamped, stamp_of
from ...wire.errors import ErrorCode
from ...wire.mirror_ledger import CopiedBatch, LedgerEntry, ledger_topic
from ..errors import CopyDiffers
from .appending import append
from .sink import Outcome, OutgoingBatch, Portion, outgoing
from .transactional_sink import ledger_batches

TIMEOUT_MS = 5_000
MOST_EMPTY = 50
"""Fetches of the source without anything new before it is taken for one that lacks what the destination holds."""


class PlacedSink:
    """One destination cluster of ours. Used by the forwarder's thread alone."""

    def __init__(self, cluster: Cluster, source: Cluster, mirror: str, clock: Clock) -> None:
        self.cluster = cluster
        self._source = source
        self._clock = clock
        self._ledger = TopicPartition(ledger_topic(mirror), 0)
        self._reader = LedgerReader(cluster, mirror)
        self._ends: dict[TopicPartition, int] = {}
        """Where the destination's log ends: where the next batch is placed."""
        self.is_open = False

    def open(self) -> list[LedgerEntry]:
        """Return what the ledger holds since the last call. Raises ClientError."""
        found = list(self._reader.read())
        self._ends.clear()
        self.is_open = True
        return found

    def catch_up(
        self,
        name: TopicPartition,
        there: TopicPartition,
        last: LedgerEntry | None,
        *,
        source_start: int,
        destination: tuple[int, int],
    ) -> LedgerEntry | None:
        """Return the partition's last report as it would be, had the ledger been written after each append; and write it.

        `destination`: where its log begins and ends. Raises CopyDiffers if it does not end with the source's batches.
        """
        start, end = destination
        held = last.destination_end if last is not None else start
        if end < held:
            raise CopyDiffers(name.topic, name.partition, f"it ends at {end} and the ledger says {held}: it has lost its tail")
        self._ends[name] = end
        if end == held:
            return last
        from_offset = source_start if last is None else last.to_offset
        found: list[OutgoingBatch] = []
        copied: list[CopiedBatch] = []
        ours = self._source_batches(name, max(from_offset, source_start))
        for held_header, _ in read_range(self.cluster, *there, held, end, timeout_ms=TIMEOUT_MS):
            one = next(ours, None)
            if one is None or not _same(one.header, held_header):
                what = "the source ends before it" if one is None else f"the source holds another at {one.source.base_offset}"
                why = f"its batch at {held_header.base_offset} is not the next one: {what}"
                raise CopyDiffers(name.topic, name.partition, why)
            found.append(one)
            copied.append(one.copied(held_header.base_offset, held_header.crc))
        portion = Portion(
            name=name,
            there=there,
            from_offset=from_offset,
            to_offset=found[-1].source.next_offset if found else from_offset,
            batches=found,
            last=last,
            source_id="" if last is None else last.source_id,
            destination_id="" if last is None else last.destination_id,
        )
        entry = portion.entry(copied)
        self._enter([entry])
        return entry

    def write(self, portions: Sequence[Portion]) -> list[Outcome]:
        """Append the portions, then enter them in the ledger. Raises ClientError; what was appended is found by `catch_up`."""
        try:
            self._enter([_before(portion) for portion in portions if portion.skipped and portion.batches])
            work: dict[TopicPartition, list[Restamped]] = {}
            copied: dict[TopicPartition, list[CopiedBatch]] = {}
            for portion in portions:
                position = self._ends.get(portion.name)
                if position is None or not portion.batches:
                    continue
                placed = work[portion.name] = []
                for one in portion.batches:
                    size_bytes, count = one.header.size_bytes, one.header.record_count
                    base_offset = position + advance_of(size_bytes, count) - count
                    made = restamped(one.header, one.batch, stamp_of(one.header)._replace(is_transactional=False))
                    placed.append(placed_at(made, base_offset))
                    copied.setdefault(portion.name, []).append(one.copied(base_offset, made.crc))
                    position += advance_of(size_bytes, count)
            if work:
                self._append(work, portions)
            entries = [portion.entry(copied.get(portion.name, ())) for portion in portions]
            self._enter(entries)
        except BaseException:
            self.is_open = False
            raise
        for name, batches in copied.items():
            self._ends[name] = batches[-1].destination_next
        return [Outcome(portion, entry) for portion, entry in zip(portions, entries, strict=True)]

    def _append(self, work: dict[TopicPartition, list[Restamped]], portions: Sequence[Portion]) -> None:
        answers = append(
            self.cluster,
            {portion.there: _pieces(work[portion.name]) for portion in portions if portion.name in work},
            conditional_start=0,
        )
        for portion in portions:
            if portion.name not in work:
                continue
            code, message = answers[portion.there]
            if code:
                error = broker_error(f"append of {portion.there.topic}-{portion.there.partition}", code, message)
                blamed = max(portion.batches, key=lambda one: one.header.size_bytes)
                is_size = code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
                raise PartitionFailed(portion.name, blamed.source.base_offset if is_size else -1, error)

    def _enter(self, entries: Sequence[LedgerEntry]) -> None:
        for header, batch in ledger_batches(entries, self._clock.now_ms()):
            made = restamped(header, batch, NEUTRAL)
            answers = append(self.cluster, {self._ledger: [made.front, made.records]}, conditional_start=None)
            code, message = answers[self._ledger]
            if code:
                raise broker_error(f"Produce to {self._ledger.topic}", code, message)

    def _source_batches(self, name: TopicPartition, from_offset: int) -> Iterator[OutgoingBatch]:
        """Yield the source's batches with records from an offset on, until it has no more."""
        fetcher = Fetcher(self._source, max_wait_ms=100, partition_max_bytes=4 << 20, is_read_committed=True)
        offset, empty = from_offset, 0
        try:
            while empty < MOST_EMPTY:
                try:
                    (fetched,) = fetcher.fetch({name: offset})
                except OffsetOutOfRange:
                    return
                for header, batch in data_batches(fetched.batches, fetched.aborted):
                    if header.base_offset >= offset:
                        yield outgoing(header, batch)
                empty = 0 if fetched.next_offset > offset else empty + 1
                offset = fetched.next_offset
        finally:
            fetcher.close()


def _before(portion: Portion) -> LedgerEntry:
    """Return the ledger's word for what was skipped in front of the portion's first batch."""
    end = max(portion.from_offset, portion.batches[0].source.base_offset)
    some = [one for one in portion.skipped if one.to_offset <= end]
    return replace(portion, to_offset=end, batches=(), skipped=some).entry(())


def _same(sent: BatchHeader, there: BatchHeader) -> bool:
    return (
        sent.size_bytes == there.size_bytes
        and sent.record_count == there.record_count
        and crc_under(sent, NEUTRAL) == crc_under(there, NEUTRAL)
    )


def _pieces(batches: Sequence[Restamped]) -> list[bytes | memoryview]:
    return [piece for one in batches for piece in (one.front, one.records)]
