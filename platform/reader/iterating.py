"""The small form: the application asks for one record after another, and asking says that the last one is done."""

from collections.abc import Callable, Collection, Mapping

from ..client.fetch.fetched import TopicPartition
from ..runtime.lifecycle import StopSignal
from .processor import Processor, RefusedRecord
from .record import EventRecord
from .steered_loop import SteeredLoop


class HoldsNothing:
    """A `Processor` that holds nothing: the application has done each record before the loop counts it."""

    is_full = False

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {}

    def take(self, record: EventRecord) -> None:
        return

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        return []

    def end(self, partitions: Collection[TopicPartition]) -> None:
        return

    def close(self) -> None:
        return


class InHand:
    """An iterator of one member's records. Belongs to one thread."""

    def __init__(self, make: Callable[[Processor], SteeredLoop], stop: StopSignal) -> None:
        self.loop = make(HoldsNothing())
        self._stop = stop
        self._record: EventRecord | None = None
        """What the application has in hand."""
        self._has_begun = self._is_closed = False

    def __iter__(self) -> "InHand":
        return self

    def __next__(self) -> EventRecord:
        self._settle(is_done=True)
        if not self._has_begun:
            self._has_begun = True
            self.loop.start(self._stop)
        while not self._stop.is_set() and not self._is_closed:
            self._record = self.loop.next()
            if self._record is not None:
                return self._record
        raise StopIteration

    def close(self, *, is_done: bool) -> None:
        """Commit what is done and leave the group. `is_done`: the record in hand is."""
        if self._is_closed:
            return
        self._is_closed = True
        self._settle(is_done=is_done)
        if self._has_begun:
            self.loop.close()

    def _settle(self, *, is_done: bool) -> None:
        record, self._record = self._record, None
        if record is None:
            return
        if is_done:
            self.loop.taken(record)
        else:
            self.loop.put_back(record)
