"""What a partition's log goes by: sizes and ages. Plain values; who sets them and under which names is not known here."""

from dataclasses import dataclass

UNLIMITED = -1
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log. Raises ValueError naming every one that is out of its bounds."""

    segment_bytes: int = 1 << 30
    """A segment that a further batch would make larger is closed first; a batch larger than this has a segment to itself."""
    segment_ms: int = 7 * DAY_MS
    """A segment whose first append is this long ago is closed by the next append."""
    retention_ms: int = 7 * DAY_MS
    """How long after its last append a segment goes. -1: never."""
    retention_bytes: int = UNLIMITED
    """The oldest segments go while at least this much stays. -1: whatever the size."""
    index_interval_bytes: int = 16 * 1024
    """Offsets between two remembered batch starts: 24 bytes of memory each, and at most this much is walked to find a batch."""
    flush_on_roll: bool = True
    """Whether closing a segment waits for the disk. False: its flush is left to the next `flush` or `FlushJob`."""
    flush_at_open: bool = True
    """Whether opening waits until all that is found is on disk, written again where that is not known (`unproven`). False: what
    no sidecar knows to be there waits for a flush, unless one had failed."""
    producer_capacity: int = 5_000
    """Producer ids whose last batches are remembered, about 700 bytes each; the longest idle is forgotten first."""

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
