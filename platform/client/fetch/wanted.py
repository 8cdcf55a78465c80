"""What a `Fetcher` shall read: partitions with their offsets, and which of them have changed since it last asked."""

from collections.abc import Mapping

from .fetched import TopicPartition


class Wanted:
    """Partition → offset. A fetch of it costs as much as there are changes, however many partitions there are. For one fetcher
    and one thread."""

    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._offsets = dict(offsets or {})
        self._changed = set(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        return self._offsets

    def move(self, name: TopicPartition, offset: int) -> None:
        """Read a partition from this offset on."""
        if self._offsets.get(name) != offset:
            self._offsets[name] = offset
            self._changed.add(name)

    def drop(self, name: TopicPartition) -> None:
        """Read a partition no more."""
        if self._offsets.pop(name, None) is not None:
            self._changed.add(name)

    def take_changes(self) -> set[TopicPartition]:
        """Return what was moved or dropped since the last call. Only the fetcher calls this."""
        changed, self._changed = self._changed, set()
        return changed
