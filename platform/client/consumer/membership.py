"""What consumers and connectors ask of their membership in a group, whichever protocol the group uses."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from ..fetch.fetched import TopicPartition
from .partition_holder import PartitionHolder

Starts = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Returns where partitions without a registered offset begin."""


class Membership(Protocol):
    """`join`, then `begin`; at the end `stop_sharing`, then `leave`."""

    def join(
        self, holder: PartitionHolder, starts: Starts, timeout_ms: int, *, on_brokers: Callable[[], None] | None = None
    ) -> None: ...

    def begin(self) -> None: ...

    def stop_sharing(self) -> None: ...

    def leave(self) -> None: ...

    @property
    def generation(self) -> int: ...

    def is_sure(self) -> bool: ...

    def commit(self, due: Mapping[TopicPartition, int], generation: int) -> None:
        """Register next offsets of partitions that were assigned in this generation.

        Raises PartitionsLost where another member may own them by now.
        """
        ...
