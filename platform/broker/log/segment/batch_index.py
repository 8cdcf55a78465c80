"""Where batches of one segment start, and which of its ranges are bad. Pure: knows no file.

Three sources tell where a batch starts: the sparse list of `BatchStarts`, the ends of regions that readers were given (a reader
continues exactly there), and the ends of bad ranges.
"""

from .bad_range import BadRange
from .batch_starts import BatchStarts

LATEST_MS = (1 << 63) - 1
_READERS = 64
"""The most reader positions that are remembered."""


class BatchIndex:
    """Attributes may be read from outside, because each append and each read does; only the methods change them."""

    __slots__ = ("bad_ends", "bad_ranges", "is_complete", "reader_offsets", "starts")

    def __init__(self, interval_bytes: int) -> None:
        self.starts = BatchStarts(interval_bytes)
        self.is_complete = True
        """Whether `starts` covers the segment. False: its sidecar was lost and the scrub has not read the segment yet."""
        self.bad_ranges: list[BadRange] = []
        """In ascending order, none inside another."""
        self.bad_ends: dict[int, int] = {}
        """The end of the bad range, by each offset at which a look-up may enter the range."""
        self.reader_offsets: dict[int, None] = {}
        """Where a reader will continue; a batch starts there, or will."""

    def add_bad(self, bad: BadRange) -> bool:
        """Add a range that is never served. Return False when it was known already."""
        from_offset, to_offset, _ = bad
        if any(known.from_offset <= from_offset and to_offset <= known.to_offset for known in self.bad_ranges):
            return False
        inside = [known for known in self.bad_ranges if from_offset <= known.from_offset and known.to_offset <= to_offset]
        self.bad_ranges = sorted([*(known for known in self.bad_ranges if known not in inside), bad])
        # A look-up that begins at a known start inside the range must leave the range.
        for start in (from_offset, *self.starts.between(from_offset, to_offset)):
            self.bad_ends[start] = to_offset
            self.starts.add_break(start)
        for offset in [offset for offset in self.reader_offsets if from_offset < offset < to_offset]:
            del self.reader_offsets[offset]
        return True

    def repaired(self, from_offset: int, to_offset: int, starts: BatchStarts) -> None:
        """[from_offset, to_offset) is whole again. `starts` replace the present ones. The rest of a bad range stays bad."""
        left: list[BadRange] = []
        for bad in self.bad_ranges:
            if bad.to_offset <= from_offset or to_offset <= bad.from_offset:
                left.append(bad)
                continue
            if bad.from_offset < from_offset:
                left.append(bad._replace(to_offset=from_offset))
            if to_offset < bad.to_offset:
                left.append(bad._replace(from_offset=to_offset))
        self.starts = starts
        self.bad_ranges, self.bad_ends = [], {}
        self.reader_offsets.clear()
        for bad in left:
            self.add_bad(bad)

    def after_bad(self, offset: int) -> int:
        """Return `offset`, or the end of the bad ranges that begin there."""
        bad_ends = self.bad_ends
        while offset in bad_ends:
            offset = bad_ends[offset]
        return offset

    def remember_reader(self, next_offset: int) -> None:
        """Remember where a reader will continue: it saves the walk to there. Hot."""
        reader_offsets = self.reader_offsets
        if next_offset not in reader_offsets:
            if len(reader_offsets) >= _READERS:
                del reader_offsets[next(iter(reader_offsets))]
            reader_offsets[next_offset] = None

    def leave_incomplete(self, base_offset: int) -> None:
        """Know only that the segment begins at `base_offset`: every other look-up walks from there."""
        self.is_complete = False
        self.starts.add(base_offset, LATEST_MS)
        self.starts.add_break(base_offset)

    def complete(self, starts: BatchStarts) -> None:
        """Take over the starts that a scrub has found."""
        self.starts = starts
        self.is_complete = True
        self.reader_offsets.clear()
