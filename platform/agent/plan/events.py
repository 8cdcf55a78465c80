"""Records on their way from a source into batches, in C where `headrace_native` is installed: then no event becomes an object of
Python's, from the journal or the access log to the batch. `ListedEvents` does the same in Python; one suite tests both. Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from ...audit.model.windows import WINDOW_MS, window_start_ms
from ...client.producer.partitioner import partition_for_key
from ...runtime.native import native
from ...wire.batch.batch_builder import assemble
from ...wire.batch.compression import Codec
from ...wire.batch.record_batch import BatchBuilder
from ..source import SourceRecord, SourceRecords
from .picks import pack_picks, runs_of

RECORD_OVERHEAD_BYTES = 24
"""Upper bound of a record's bytes in a batch besides key and value."""
MOST_KEYS_REMEMBERED = 10_000
NO_KEY = -1


class Gathered(NamedTuple):
    """Records that go into one batch."""

    window_start_ms: int
    partition: int
    """The partition of their keys, by its index; `NO_KEY`: they have none, and any partition will do."""
    picks: bytes
    """Their places, packed."""
    record_count: int


class BatchHead(NamedTuple):
    """What a batch's header says, besides its records."""

    codec: Codec
    producer_id: int
    producer_epoch: int
    first_sequence: int


class Events(SourceRecords, Protocol):
    """Events in the order of their source. Bodies are not copied as long as there is another way."""

    def append(self, timestamp_ms: int, key: bytes | None, body: bytes) -> None: ...

    def gathered(self, *, partition_count: int, batch_bytes: int, prefix_bytes: int) -> list[Gathered]:
        """Return what goes into which batch, by window and partition; each batch holds records of one of both.

        Those of a window and partition keep their order. A record larger than `batch_bytes` is a batch of its own.
        """

    def batch(self, picks: bytes, prefix: bytes, head: BatchHead) -> tuple[bytes, int]:
        """Return a batch of the records at these places, as far as they exist, and how many they are. Values are prefix + body.

        Without any record the batch is empty bytes. Raises `WireError` for times too far apart.
        """


class ListedEvents:
    """`Events` in Python."""

    def __init__(self) -> None:
        self._records: list[SourceRecord] = []

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[SourceRecord]:
        return iter(self._records)

    def __getitem__(self, at: int, /) -> SourceRecord:
        return self._records[at]

    def append(self, timestamp_ms: int, key: bytes | None, body: bytes) -> None:
        self._records.append(SourceRecord(timestamp_ms, key, body))

    def extend(self, records: Iterable[SourceRecord]) -> None:
        """Add records that are made already."""
        self._records.extend(records)

    def gathered(self, *, partition_count: int, batch_bytes: int, prefix_bytes: int) -> list[Gathered]:
        by_key: dict[bytes, int] = {}
        groups: dict[tuple[int, int], list[int]] = {}
        """(window, partition) → places."""
        window, window_end = 0, 0
        for at, (timestamp_ms, key, _) in enumerate(self._records):
            if not window <= timestamp_ms < window_end:
                window = window_start_ms(timestamp_ms, WINDOW_MS)
                window_end = window + (WINDOW_MS if timestamp_ms >= 0 else 0)
            if key is None:
                partition = NO_KEY
            elif (found := by_key.get(key)) is not None:
                partition = found
            else:
                if len(by_key) >= MOST_KEYS_REMEMBERED:
                    by_key.clear()
                partition = by_key[key] = partition_for_key(key, partition_count)
            group = groups.get((window, partition))
            if group is None:
                group = groups[window, partition] = []
            group.append(at)
        return [
            Gathered(window, partition, pack_picks(picks), len(picks))
            for (window, partition), places in sorted(groups.items())
            for picks in self._cut(places, batch_bytes, RECORD_OVERHEAD_BYTES + prefix_bytes)
        ]

    def _cut(self, places: list[int], batch_bytes: int, overhead_bytes: int) -> Iterator[list[int]]:
        start, size_bytes = 0, 0
        records = self._records
        for number, at in enumerate(places):
            _, key, body = records[at]
            one = overhead_bytes + len(body) + (len(key) if key is not None else 0)
            if size_bytes and size_bytes + one > batch_bytes:
                yield places[start:number]
                start, size_bytes = number, 0
            size_bytes += one
        yield places[start:]

    def batch(self, picks: bytes, prefix: bytes, head: BatchHead) -> tuple[bytes, int]:
        builder = BatchBuilder(*head)
        append, records = builder.append, self._records
        for run in runs_of(picks):
            for timestamp_ms, key, body in records[run.start : run.stop]:
                append(timestamp_ms, key, prefix + body)
        return (builder.build(), builder.record_count) if builder.record_count else (b"", 0)


class NativeEvents:
    """`Events` in C. `native`: what is in C of it, and the ways in that only it has."""

    def __init__(self) -> None:
        assert native is not None
        self.native: Any = native.Events()
        self.append = self.native.append

    def __len__(self) -> int:
        return len(self.native)

    def __iter__(self) -> Iterator[SourceRecord]:
        return map(SourceRecord._make, self.native)

    def __getitem__(self, at: int, /) -> SourceRecord:
        return SourceRecord(*self.native[at])

    def gathered(self, *, partition_count: int, batch_bytes: int, prefix_bytes: int) -> list[Gathered]:
        found = self.native.batches(WINDOW_MS, partition_count, batch_bytes, RECORD_OVERHEAD_BYTES + prefix_bytes)
        return [Gathered(*one) for one in found]

    def batch(self, picks: bytes, prefix: bytes, head: BatchHead) -> tuple[bytes, int]:
        records, count, lowest_ms, highest_ms = self.native.framed(prefix, picks)
        if not count:
            return b"", 0
        content = assemble(
            lambda: records,
            codec=head.codec,
            record_count=count,
            min_timestamp_ms=lowest_ms,
            max_timestamp_ms=highest_ms,
            producer_id=head.producer_id,
            producer_epoch=head.producer_epoch,
            base_sequence=head.first_sequence,
        )
        return content, count


def new_events() -> ListedEvents | NativeEvents:
    """Return no events yet."""
    return ListedEvents() if native is None else NativeEvents()


def events_of(records: SourceRecords) -> Events:
    """Return records as events; those that are so already as they are."""
    if isinstance(records, ListedEvents | NativeEvents):
        return records
    listed = ListedEvents()
    listed.extend(records)
    return listed
