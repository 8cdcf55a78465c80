"""A segment's sparse list of batch starts: where a walk to an offset may begin. Pure: knows no file.

One entry per interval of offsets. The range from one entry to the next is called its part. For each part the list keeps the
largest timestamp up to its end, and whether the part is *broken*: it holds a hole or a bad range, which no read may cross. Memory
is bounded by the segment's length divided by the interval. Source: the paper's in-memory list of segment bases, one level down.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence


class BatchStarts:
    """Offsets only."""

    __slots__ = ("_breaks", "_next_entry", "_offsets", "_peaks_ms", "interval_bytes")

    def __init__(self, interval_bytes: int) -> None:
        self.interval_bytes = interval_bytes
        self._offsets = array("q")
        self._peaks_ms = array("q")
        self._breaks = array("q")
        self._next_entry = -1

    @classmethod
    def of_arrays(cls, interval_bytes: int, offsets: "array[int]", peaks_ms: "array[int]", breaks: "array[int]") -> "BatchStarts":
        """Return the list of these `arrays`, which it keeps."""
        starts = cls(interval_bytes)
        starts._offsets, starts._peaks_ms, starts._breaks = offsets, peaks_ms, breaks
        starts._next_entry = offsets[-1] + interval_bytes if offsets else -1
        return starts

    def arrays(self) -> tuple["array[int]", "array[int]", "array[int]"]:
        """Return the entries, the largest timestamp up to each one's end, and the entries of broken parts: no copies."""
        return self._offsets, self._peaks_ms, self._breaks

    def copy(self) -> "BatchStarts":
        """Return a copy."""
        return BatchStarts.of_arrays(self.interval_bytes, self._offsets[:], self._peaks_ms[:], self._breaks[:])

    def with_part(self, from_offset: int, to_offset: int, batches: Sequence[tuple[int, int, bool]]) -> "BatchStarts":
        """Return the list with other batches in [from_offset, to_offset): where each begins, its timestamp, and whether a hole
        follows it.
        """
        made = BatchStarts(self.interval_bytes)
        breaks = set(self._breaks)

        def copy(begin: int, end: int) -> None:
            for offset, peak_ms in zip(self._offsets[begin:end], self._peaks_ms[begin:end], strict=True):
                made.add(offset, peak_ms)
                if offset in breaks:
                    made.add_break(offset)

        copy(0, bisect_left(self._offsets, from_offset))
        for offset, timestamp_ms, has_hole in batches:
            made.add(offset, timestamp_ms)
            if has_hole:
                made.add_break(offset)
        copy(bisect_left(self._offsets, to_offset), len(self._offsets))
        return made

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, max_timestamp_ms: int) -> None:
        """Add the next batch, which starts at `offset`. Hot: once per append."""
        peaks = self._peaks_ms
        if offset >= self._next_entry:
            peak = max_timestamp_ms
            if peaks and peaks[-1] > peak:
                peak = peaks[-1]
            self._offsets.append(offset)
            peaks.append(peak)
            self._next_entry = offset + self.interval_bytes
        elif max_timestamp_ms > peaks[-1]:
            peaks[-1] = max_timestamp_ms

    def add_run(self, offsets: Sequence[int], max_timestamps_ms: Sequence[int]) -> None:
        """Add the batches of a run. Hot: most of them change nothing and are not looked at one by one."""
        at, count = 0, len(offsets)
        while at < count:
            if offsets[at] >= self._next_entry:
                self.add(offsets[at], max_timestamps_ms[at])
                at += 1
            else:
                upto = count if offsets[-1] < self._next_entry else bisect_left(offsets, self._next_entry, at)
                self.add(offsets[at], max(max_timestamps_ms[at:upto]))
                at = upto

    def add_break(self, offset: int) -> None:
        """Mark the part that holds `offset` as broken. An offset before the first entry is in no part."""
        index = bisect_right(self._offsets, offset) - 1
        if index >= 0:
            entry = self._offsets[index]
            at = bisect_left(self._breaks, entry)
            if at == len(self._breaks) or self._breaks[at] != entry:
                self._breaks.insert(at, entry)

    def last_at_or_before(self, offset: int) -> int:
        """Return the last entry that is not after `offset`; the first entry when all are after it. There must be one."""
        index = bisect_right(self._offsets, offset) - 1
        return self._offsets[index if index > 0 else 0]

    def first_after(self, offset: int) -> int | None:
        """Return the first entry after `offset`."""
        index = bisect_right(self._offsets, offset)
        return self._offsets[index] if index < len(self._offsets) else None

    def between(self, from_offset: int, to_offset: int) -> Sequence[int]:
        """Return the entries after `from_offset` and before `to_offset`."""
        return self._offsets[bisect_right(self._offsets, from_offset) : bisect_left(self._offsets, to_offset)]

    @property
    def has_breaks(self) -> bool:
        return bool(self._breaks)

    def first_break(self, offset: int) -> int | None:
        """Return the entry of the first broken part that ends after `offset`. The part may begin before `offset`."""
        if not self._breaks:
            return None
        entry = self.last_at_or_before(offset)
        index = bisect_left(self._breaks, entry)
        return self._breaks[index] if index < len(self._breaks) else None

    def first_reaching(self, timestamp_ms: int) -> int | None:
        """Return the entry of the first part with a batch whose largest timestamp is `timestamp_ms` or later."""
        index = bisect_left(self._peaks_ms, timestamp_ms)
        return self._offsets[index] if index < len(self._offsets) else None

    @property
    def peak_ms(self) -> int | None:
        """Return the largest timestamp of all batches."""
        return self._peaks_ms[-1] if self._peaks_ms else None
