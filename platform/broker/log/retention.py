"""Which segments may be deleted. Pure: no clock, no files. Source: the paper's retention; Kafka's retention.ms, retention.bytes.

Age is counted from the last append at this broker, never from the events' own time, so years-old events that were replayed today
stay. Consumers are never asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .log_config import UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """What retention and roll decide by."""

    base_offset: int
    end_offset: int
    size_bytes: int
    """Bytes in the file, without holes."""
    first_append_ms: int
    last_append_ms: int
    """Arrival at this broker, never event time."""


def expired(
    segments: Sequence[SegmentFacts], *, now_ms: int, retention_ms: int, retention_bytes: int, up_to_offset: int | None = None
) -> list[SegmentFacts]:
    """Return the segments to delete, oldest first, always a run from the oldest on.

    By time: last append more than `retention_ms` ago. By size: as long as `retention_bytes` would stay without it. -1 switches
    either off. A segment that ends beyond `up_to_offset` (not yet copied or flushed, say) stays. The active segment, the last, is
    among them when it holds something and its time has come: the caller then closes it first, as Kafka does, and an empty one
    takes its place.
    """
    size_bytes = sum(segment.size_bytes for segment in segments)
    gone = []
    for index, segment in enumerate(segments):
        is_empty_active = index == len(segments) - 1 and segment.size_bytes == 0
        by_time = retention_ms != UNLIMITED and now_ms - segment.last_append_ms > retention_ms
        by_size = retention_bytes != UNLIMITED and size_bytes - segment.size_bytes >= retention_bytes
        if is_empty_active or not (by_time or by_size) or (up_to_offset is not None and segment.end_offset > up_to_offset):
            break
        size_bytes -= segment.size_bytes
        gone.append(segment)
    return gone
