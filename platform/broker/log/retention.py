"""Decide which segments to delete. Pure. Source: the paper's retention; Kafka's retention.ms, retention.bytes.

Age counts from the last append at this broker, never from event time: old events that are replayed today stay. Consumers have no
influence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .log_config import UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """What retention knows of a segment."""

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

    By time: the last append is more than `retention_ms` ago. By size: at least `retention_bytes` stay without it. -1 switches one
    of them off. A segment that ends beyond `up_to_offset` (not yet copied or flushed, for example) stays. The active segment, the
    last, may be among them when it is not empty: the caller then closes it first, as Kafka does, and an empty one follows it.
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
