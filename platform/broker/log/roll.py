"""Decide when the active segment is closed and a new one begun. Pure. Source: the paper; Kafka's segment.bytes, segment.ms."""


def must_roll(*, held_bytes: int, advance: int, segment_bytes: int, first_append_ms: int, segment_ms: int, now_ms: int) -> bool:
    """Return whether the next batch, `advance` offsets long, begins a new segment.

    `held_bytes` are the segment's offsets so far, holes included; an empty segment never rolls. Age counts from the segment's
    first append by this broker's clock; a clock that is set back makes nothing old.
    """
    return held_bytes > 0 and (held_bytes + advance > segment_bytes or now_ms - first_append_ms >= segment_ms)
