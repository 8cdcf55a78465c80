"""Counts records per window, batch by batch, from headers wherever a header can be trusted.

A batch whose builder vouches for its timestamps (`timestamps_bounded`) and whose first and last fall in one window
adds its record count in O(1). Any other is opened for its timestamps alone. Nothing is rewritten. Source: DESIGN.md
section 3.
"""

from collections import defaultdict
from itertools import islice

from ..wire.batch.record_batch import BatchHeader, iter_timestamps
from ..wire.errors import WireError
from .model.windows import WINDOW_MS, window_start_ms

_LOG_APPEND_TIME = 0x08
"""Attribute bit of Kafka: every record's time is the batch's maximum timestamp, set by the broker."""


class WindowCounter:
    """Records per window (and per producer id) since the last `take`. Not for two threads at once."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._counts: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.opened_batches = 0
        """Batches that had to be opened, since the beginning."""
        self.unreadable_batches = 0
        """Batches whose records could not be read though the CRC holds; dated by their header, since the beginning."""

    def add(self, header: BatchHeader, batch: memoryview, *, from_offset: int = 0, to_offset: int | None = None) -> int:
        """Count the batch's records whose offset is in [from_offset, to_offset); return how many that are.

        `batch` is the whole batch, 12-byte prefix included, its CRC already checked. Control batches hold no events
        and count nothing. A batch whose records cannot be read counts as its header says, all in the window of its
        maximum timestamp: the same rule at every tier, so that the books of what is *stored* still balance, and the
        tier that must decode it names the loss. Raises nothing on such a batch.
        """
        if header.is_control:
            return 0
        first = max(0, from_offset - header.base_offset)
        end = header.record_count if to_offset is None else min(header.record_count, to_offset - header.base_offset)
        wanted = end - first
        if wanted <= 0:
            return 0
        window_ms = self._window_ms
        last = window_start_ms(header.max_timestamp_ms, window_ms)
        whole = wanted == header.record_count
        if header.attributes & _LOG_APPEND_TIME or (
            header.timestamps_bounded and window_start_ms(header.base_timestamp_ms, window_ms) == last
        ):
            self._counts[last][header.producer_id] += wanted
            return wanted
        self.opened_batches += 1
        try:
            timestamps = list(iter_timestamps(batch))
        except WireError:
            timestamps = []
        if len(timestamps) != header.record_count:
            self.unreadable_batches += 1
            self._counts[last][header.producer_id] += wanted
            return wanted
        for timestamp_ms in timestamps if whole else islice(timestamps, first, end):
            self._counts[window_start_ms(timestamp_ms, window_ms)][header.producer_id] += 1
        return wanted

    @property
    def window_count(self) -> int:
        """How many windows hold something since the last `take`."""
        return len(self._counts)

    def take(self) -> dict[int, int]:
        """Return window start → records counted since the last take, and begin again from nothing."""
        return {start: sum(by_producer.values()) for start, by_producer in self.take_by_producer().items()}

    def take_by_producer(self) -> dict[int, dict[int, int]]:
        """Return window start → producer id → records, and begin again from nothing.

        (-1: records without a producer id.)
        """
        counts = {start: dict(by_producer) for start, by_producer in self._counts.items()}
        self._counts.clear()
        return counts
