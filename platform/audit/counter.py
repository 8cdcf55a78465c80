"""Says which records of a log belong to which window, batch by batch, from headers wherever a header can be trusted.

A batch whose builder vouches for its timestamps (`timestamps_bounded`) and whose first and last fall in one window adds one entry
in O(1). Any other is opened for its timestamps. Nothing is rewritten. Source: DESIGN.md section 3.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..runtime.native import native
from ..wire.batch.record_batch import HEADER_SIZE, BatchHeader, is_surely_between, iter_records, iter_timestamps, unpacked_records
from ..wire.errors import WireError
from .model.messages import Stretch
from .model.windows import WINDOW_MS, window_start_ms

_SEQUENCES = 1 << 31
"""A producer's sequence numbers begin again at 0 behind 2^31 - 1."""


_NEW = tuple.__new__


class CountedBatch(NamedTuple):
    """Records of one batch, one after another, in one window. A named tuple: one is made for every batch."""

    first: int
    """The first record's offset."""
    count: int  # type: ignore[assignment]  # tuple.count, which nobody calls here
    crc: int
    """The CRC in the header of the whole batch, of which these records may be a part."""
    producer_id: int
    """-1: none."""
    producer_epoch: int
    base_sequence: int
    """The first record's sequence number (not the batch's, where this is a part); -1: none. Never wraps within `count`."""

    @property
    def stretch(self) -> Stretch:
        return _NEW(Stretch, self[:3])  # the same three fields; hot: once for every batch


class WindowCounter:
    """The records of each window since the last `take`. Not for two threads at once."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._windows: dict[int, list[CountedBatch]] = {}
        self.entry_count = 0
        """Entries since the last `take`: what memory and reports grow with."""
        self.opened_batches = 0
        """Batches that had to be opened, since the beginning."""
        self.unreadable_batches = 0
        """Batches whose records could not be read though the CRC holds; dated by their header, since the beginning."""

    @property
    def window_count(self) -> int:
        """How many windows hold something since the last `take`."""
        return len(self._windows)

    def add(self, header: BatchHeader, batch: memoryview, *, from_offset: int = 0, to_offset: int | None = None) -> int:
        """Take the batch's records whose offset is in [from_offset, to_offset); return how many that are. Hot: once per batch.

        `batch` is the whole batch, 12-byte prefix included, its CRC already checked. Control batches hold no events and count
        nothing. A batch whose records cannot be read counts as its header says, all in the window of its maximum timestamp: the
        same rule at every tier, so that what is *stored* is still compared, and the tier that must decode it names the loss.
        Raises nothing on such a batch.
        """
        if header.is_control or not header.record_count:
            return 0
        runs = self._runs(header, batch)
        if len(runs) == 1 and to_offset is None and from_offset <= runs[0][1]:
            window, first, count = runs[0]
            if first == header.base_offset and header.base_sequence <= _SEQUENCES - count:
                self._append(header, window, first, count, header.base_sequence)
                return count
        counted = 0
        for window, first, count in runs:
            counted += self._add_run(header, window, first, count, from_offset, to_offset)
        return counted

    def take(self) -> dict[int, list[CountedBatch]]:
        """Return window start → its records since the last take, in the order of their adding; begin again from nothing."""
        windows = self._windows
        self._windows, self.entry_count = {}, 0
        return windows

    def _runs(self, header: BatchHeader, batch: memoryview) -> Sequence[tuple[int, int, int]]:
        """Return window, first offset and count of records that are neighbours and fall in one window: all of the batch's."""
        window_ms = self._window_ms
        last = window_start_ms(header.max_timestamp_ms, window_ms)
        if header.is_dense:
            whole = ((last, header.base_offset, header.record_count),)
            if header.timestamps_bounded and window_start_ms(header.first_timestamp_ms, window_ms) == last:
                return whole
            self.opened_batches += 1
            if native is not None and (runs := _runs_in_c(header, batch, window_ms)) is not None:
                return runs
            if is_surely_between(header, batch, last, last + window_ms):
                return whole
        else:
            self.opened_batches += 1
        times = _times(header, batch)
        if times is None:
            self.unreadable_batches += 1
            return ((last, header.base_offset, min(header.record_count, header.last_offset_delta + 1)),)
        return list(_runs(times, window_ms))

    def _add_run(self, header: BatchHeader, window: int, first: int, count: int, from_offset: int, to_offset: int | None) -> int:
        end = first + count
        if from_offset > first:
            first = from_offset
        if to_offset is not None and to_offset < end:
            end = to_offset
        added = count = end - first
        if added <= 0:
            return 0
        sequence = header.base_sequence
        if sequence >= 0:
            sequence = (sequence + first - header.base_offset) % _SEQUENCES
            if sequence + count > _SEQUENCES:
                before = _SEQUENCES - sequence
                self._put(header, window, first, before, sequence)
                first, count, sequence = first + before, count - before, 0
        self._put(header, window, first, count, sequence)
        return added

    def _put(self, header: BatchHeader, window: int, first: int, count: int, sequence: int) -> None:
        entries = self._windows.get(window)
        if entries and first > header.base_offset and sequence != 0:
            tail = entries[-1]
            # Where one batch is added in parts, the entry before may be the part before of the same batch.
            if tail.first >= header.base_offset and tail.first + tail.count == first:
                entries[-1] = tail._replace(count=tail.count + count)
                return
        self._append(header, window, first, count, sequence)

    def _append(self, header: BatchHeader, window: int, first: int, count: int, sequence: int) -> None:
        """Enter records as an entry of their own. Hot: most batches lie in one window and come here at once."""
        entry = _NEW(CountedBatch, (first, count, header.crc, header.producer_id, header.producer_epoch, sequence))
        entries = self._windows.get(window)
        if entries is None:
            self._windows[window] = [entry]
        else:
            entries.append(entry)
        self.entry_count += 1


def _runs_in_c(header: BatchHeader, batch: memoryview, window_ms: int) -> list[tuple[int, int, int]] | None:
    """Return a dense batch's runs as `_runs` would; None where Python must decide."""
    begin, records = HEADER_SIZE, batch
    if header.is_packed or len(batch) != header.size_bytes:
        try:
            begin, records = 0, memoryview(unpacked_records(header, batch))
        except WireError:
            return None
    assert native is not None
    runs: list[tuple[int, int, int]] | None = native.window_runs(
        records, begin, header.record_count, header.base_offset, header.base_timestamp_ms, window_ms
    )
    return runs


def _times(header: BatchHeader, batch: memoryview) -> list[tuple[int, int]] | None:
    """Return each record's offset and timestamp; None if the records cannot be read."""
    try:
        if not header.is_dense:  # compaction has thinned it out (Apache Kafka): the offsets are in the records
            return [(record.offset, record.timestamp_ms) for record in iter_records(batch)]
        return list(enumerate(iter_timestamps(batch), header.base_offset))
    except WireError:
        return None


def _runs(times: Iterable[tuple[int, int]], window_ms: int) -> Iterator[tuple[int, int, int]]:
    """Yield window, first offset and count of the records that are neighbours and fall in one window."""
    window, first, end = 0, 0, 0
    for offset, timestamp_ms in times:
        start = window_start_ms(timestamp_ms, window_ms)
        if start != window or offset != end:
            if end > first:
                yield window, first, end - first
            window, first = start, offset
        end = offset + 1
    if end > first:
        yield window, first, end - first
