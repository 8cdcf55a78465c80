"""The part of a segment whose CRCs this process has not checked. Pure: offsets only.

A start takes this part over from a sidecar without reading it. Until the scrub has verified it, each read of it checks the CRCs.
"""

from typing import Protocol

from .bad_range import BadRange
from .batch_starts import BatchStarts


class ScrubProgress(Protocol):
    """How far the scrub of a segment has come, and what it has found up to there."""

    is_finished: bool
    position: int
    bad_ranges: list[BadRange]
    starts: BatchStarts
    end_offset: int
    size_bytes: int


class UnverifiedRange:
    """Half-open; empty when both ends are equal. Attributes, because each read compares with them."""

    __slots__ = ("from_offset", "to_offset")

    def __init__(self, offset: int) -> None:
        self.from_offset = self.to_offset = offset

    def __len__(self) -> int:
        return max(0, self.to_offset - self.from_offset)

    def __contains__(self, offset: int) -> bool:
        return self.from_offset <= offset < self.to_offset

    def overlaps(self, from_offset: int, to_offset: int) -> bool:
        """Return whether a part of [from_offset, to_offset) is unverified."""
        return from_offset < self.to_offset and to_offset > self.from_offset

    def verified_to(self, offset: int) -> None:
        """Everything before `offset` is verified now."""
        self.from_offset = max(self.from_offset, offset)
