"""Records that were handed out and are not done yet, in the order of their partitions. Pure.

They may be done in any order. What a record's end brings about (it is counted, say) happens in the partition's order: when all
before it are done, too. So no position ever moves past a record that is not done.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..client.fetch.fetched import TopicPartition

Act = Callable[[], None]


@dataclass(slots=True)
class _Entry:
    offset: int
    act: Act | None
    """None: it is not done."""
    is_record: bool


class InFlight:
    """The records of one member. Belongs to its thread."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, deque[_Entry]] = {}
        self.count = 0
        """Records that are not done, or wait for one before them."""

    def add(self, name: TopicPartition, offset: int) -> None:
        """A record was handed out; offsets of a partition rise."""
        self._partitions.setdefault(name, deque()).append(_Entry(offset, None, is_record=True))
        self.count += 1

    def behind(self, name: TopicPartition, offset: int, act: Act) -> None:
        """Do `act` when everything before `offset` is done: now, where nothing is in flight."""
        waiting = self._partitions.get(name)
        if waiting is None:
            act()
        else:
            waiting.append(_Entry(offset, act, is_record=False))

    def done(self, name: TopicPartition, offset: int, act: Act) -> None:
        """A record is done: do `act` in its turn. One that was dropped meanwhile is left out."""
        waiting = self._partitions.get(name, ())
        entry = next((one for one in waiting if one.offset == offset and one.is_record), None)
        if entry is None:
            return
        entry.act = act
        while waiting and (ready := waiting[0].act) is not None:
            self.count -= waiting.popleft().is_record
            ready()
        if not waiting:
            self._partitions.pop(name, None)

    def first(self, name: TopicPartition) -> int | None:
        """Return the first record of the partition that is not done; None: all are."""
        waiting = self._partitions.get(name)
        return waiting[0].offset if waiting else None

    def is_idle(self, name: TopicPartition) -> bool:
        return name not in self._partitions

    def drop(self, names: Collection[TopicPartition]) -> int:
        """Forget what is in flight of these partitions; return how many records that were."""
        return sum(self.drop_from(name, 0) for name in names)

    def drop_from(self, name: TopicPartition, offset: int) -> int:
        """Forget what is in flight of a partition from `offset` on; return how many records that were."""
        waiting, dropped = self._partitions.get(name), 0
        if waiting is None:
            return 0
        while waiting and waiting[-1].offset >= offset:
            dropped += waiting.pop().is_record
        self.count -= dropped
        if not waiting:
            del self._partitions[name]
        return dropped
