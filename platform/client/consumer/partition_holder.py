"""What the two kinds of groups ask of who holds a member's partitions: one stream (`StreamState`), or several of them."""

from collections.abc import Collection, Mapping
from typing import Protocol

from ...errors import HeadraceError
from ..fetch.fetched import TopicPartition


class PartitionHolder(Protocol):
    """Takes partitions for an application, and takes them back from it. Every method may be called from any thread."""

    def place(self, own: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return which of the member's streams is to read each of the partitions that are its own now."""
        ...

    def assign(self, starts: Mapping[TopicPartition, int], *, committed: Mapping[TopicPartition, int], generation: int) -> None:
        """Read these partitions from these offsets on, each in the stream where it was placed last."""
        ...

    def revoke(self, partitions: Collection[TopicPartition], *, timeout_ms: int) -> bool:
        """Take partitions back, each application notified first. Return whether all were within `timeout_ms`."""
        ...

    def lose(self, partitions: Collection[TopicPartition] | None) -> None:
        """Partitions (None: all) are gone already."""
        ...

    def lose_all(self) -> None: ...

    def await_quiet(self, timeout_ms: int) -> bool:
        """Return whether the application was notified of everything within `timeout_ms`."""
        ...

    def waits_for(self, what: str, error: HeadraceError | None) -> None: ...

    def fail(self, error: Exception) -> None: ...
