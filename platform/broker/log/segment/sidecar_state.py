"""What is known of the sidecar of one segment: how far it reaches, and whether it is still valid after a power cut. Pure."""

from ..producer_state import Snapshot


class SidecarState:
    """Belongs to one segment."""

    __slots__ = ("closing_producers", "generation", "indexed_to", "is_durable")

    def __init__(self, base_offset: int) -> None:
        self.indexed_to = base_offset
        """A sidecar describes the segment up to here."""
        self.is_durable = False
        """Whether everything that the sidecar describes was on disk when it was written."""
        self.generation = 0
        """Raised when the segment's bytes were repaired: a sidecar of an earlier generation says what is no longer true."""
        self.closing_producers: Snapshot | None = None
        """The producers when the segment was closed, until a durable sidecar holds them."""

    def written(self, to_offset: int, *, is_flushed: bool) -> None:
        """A sidecar was written that reaches to `to_offset`. One that reaches less far than an earlier one counts for nothing."""
        if to_offset >= self.indexed_to:
            self.indexed_to, self.is_durable = to_offset, is_flushed

    def removed(self, base_offset: int) -> None:
        """The sidecar was removed, because the segment's bytes were repaired."""
        self.generation += 1
        self.indexed_to, self.is_durable = base_offset, False
