"""Windows of event time: tumbling, ten minutes by default. Source: KAFKA-260's example bucket; DESIGN.md section 6."""

WINDOW_MS = 600_000
"""The default width; the same figure as `runtime.layout.WINDOW_MS`, which this room may not import."""


def window_start_ms(timestamp_ms: int, window_ms: int = WINDOW_MS) -> int:
    """Return the start of the window that holds `timestamp_ms`.

    All negative timestamps (Kafka's "no timestamp" is -1) fall in one window, the one that ends at 0: without a time
    there is no telling them apart, and no peer can open a window below what the store can hold.
    """
    if timestamp_ms < 0:
        return -window_ms
    return timestamp_ms - timestamp_ms % window_ms
