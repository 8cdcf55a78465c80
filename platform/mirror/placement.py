"""How batches get from the source to the destination: at the same offsets (`identical`) or with a ledger (`restamped`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..client.fetch.fetched import FetchedPartition, TopicPartition
from ..errors import HeadraceError
from .partition_copy import Ends, Gap, TailComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a partition is in both clusters, so that copying can begin or continue."""

    ends: Ends
    """In the source's offsets."""
    comparison: TailComparison = TailComparison.UNKNOWN
    fault: str | None = None
    """Why copying must not continue."""


class Placement(Protocol):
    """One way into one destination; used by the forwarder's thread alone. It moves the states of `Copies` and counts itself."""

    @property
    def is_busy(self) -> bool:
        """Whether an append is on its way."""

    def is_open(self) -> bool:
        """Return whether batches are taken now; try to open the destination if not. Raises ProducerFenced: another mirror took
        over.
        """

    def standings(
        self, names: Sequence[TopicPartition], source_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Standing | HeadraceError]:
        """Return where each of the partitions stands now, or why that is not known. `source_ids`: of their topics. Raises
        HeadraceError.
        """

    def begun(self, standings: Mapping[TopicPartition, Standing], source_ids: Mapping[str, str]) -> None:
        """Note that these partitions are copied from there on. Raises HeadraceError."""

    def confirm(self, copied_to: Mapping[TopicPartition, int], source_ids: Mapping[str, str]) -> list[TopicPartition]:
        """Take note of ids that were asked after `copied_to` was read; return the partitions whose topic is another one now."""

    def passed_over(self, name: TopicPartition, gap: Gap) -> None:
        """Take note of offsets that the source no longer has."""

    def look(self) -> None:
        """Look after the destination, where that is due: it may lose data while nothing new arrives."""

    def place(self, fetched: Sequence[FetchedPartition]) -> None:
        """Copy and count what came."""

    def finish(self) -> None:
        """Wait for what is on its way, and count it."""
