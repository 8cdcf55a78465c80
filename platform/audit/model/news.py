"""Which windows of a topic may have another verdict now. Pure."""

from dataclasses import dataclass, field

MOST_SPANS = 100
"""Spans of event times with news that are remembered one by one; beyond it, every window counts as touched."""


@dataclass(slots=True)
class News:
    """Which windows of a topic may have another verdict now."""

    windows: set[int] = field(default_factory=set)
    of_sinks: set[int] = field(default_factory=set)
    """Windows of which only the rows of sinks may have changed."""
    spans: list[tuple[int, int] | None] = field(default_factory=list)
    """Event times of which every window may be touched; None: all there are."""

    def touches(self, window_start_ms: int, window_end_ms: int) -> bool:
        """Return whether there is news of the window."""
        return window_start_ms in self.windows or any(
            span is None or (span[0] < window_end_ms and window_start_ms < span[1]) for span in self.spans
        )

    def add_span(self, span: tuple[int, int] | None) -> None:
        """Note that every window of these times may be touched."""
        if span is None or len(self.spans) >= MOST_SPANS:
            self.spans = [None]
        elif self.spans != [None] and span not in self.spans:
            self.spans.append(span)
