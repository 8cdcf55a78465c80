"""The settings of one log: sizes and ages. Plain values; the names of topic settings are not known here."""

from dataclasses import dataclass

UNLIMITED = -1
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Raises ValueError that names every setting out of its bounds."""

    segment_bytes: int = 1 << 30
    """A segment that the next batch would make larger is closed first. A larger batch gets a segment of its own."""
    segment_ms: int = 7 * DAY_MS
    """The next append closes a segment whose first append is this long ago."""
    retention_ms: int = 7 * DAY_MS
    """A segment is deleted this long after its last append. -1: never."""
    retention_bytes: int = UNLIMITED
    """The oldest segments are deleted while at least this much stays. -1: no limit."""
    index_interval_bytes: int = 16 * 1024
    """Offsets between two indexed batch starts. Each takes 24 bytes of memory; at most this much is walked to find a batch."""
    flush_on_roll: bool = True
    """Whether closing a segment waits for the disk. False: the next `flush` or `FlushJob` flushes it."""
    flush_at_open: bool = True
    """Whether opening waits until everything is on disk, and first writes again what may not be there (`rewrite_unflushed`).
    False: this is left to the next flush, except after a failed flush."""
    producer_capacity: int = 5_000
    """Producer ids whose last batches are remembered, about 700 bytes each. The longest idle one is forgotten first."""

    def __post_init__(self) -> None:
        faults = [
            f"{name} is {value}, and must be at least {lowest}"
            for name, value, lowest in (
                ("segment_bytes", self.segment_bytes, 1),
                ("segment_ms", self.segment_ms, 1),
                ("retention_ms", self.retention_ms, UNLIMITED),
                ("retention_bytes", self.retention_bytes, UNLIMITED),
                ("index_interval_bytes", self.index_interval_bytes, 1),
                ("producer_capacity", self.producer_capacity, 1),
            )
            if value < lowest
        ]
        if faults:
            raise ValueError("log settings: " + "; ".join(faults))
