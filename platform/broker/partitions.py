"""The partitions whose log this broker keeps: what may be seen of them, who waits for more, when they are to be flushed.

Lives on the loop thread. Knows the log below it and no API above it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from .log import PartitionLog
from .topic_settings import TopicSettings

LONGEST_UNSEEN_MS = 1_000
"""With flush.messages alone the last few messages of a burst would stay unseen until more come: they are flushed after this
time.
"""


class Waiter(Protocol):
    """Somebody who waits for a partition to show more (a parked fetch)."""

    def shown(self, bytes_more: int) -> None:
        """So many more bytes may be read now."""
        ...

    def gone(self) -> None:
        """The partition is no longer here."""
        ...


class Partition:
    """One partition's log and what of it consumers may see.

    Where the topic's settings force flushes, a message is shown once it is on disk; elsewhere once it is in the log.
    """

    __slots__ = ("_ask_flush", "_flush_is_due", "_shown", "_unflushed_count", "_waiters", "index", "log", "settings", "topic")

    def __init__(self, topic: str, index: int, log: PartitionLog, settings: TopicSettings, ask_flush: "AskFlush") -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.settings = settings
        self._ask_flush = ask_flush
        self._waiters: set[Waiter] = set()
        self._unflushed_count = 0
        self._flush_is_due = False
        self._shown = self.high_watermark

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may see."""
        return self.log.flushed_offset if self.settings.shows_only_what_is_flushed else self.log.log_end_offset

    def appended(self, record_count: int) -> None:
        """Records were appended to the log: see to flushing, tell who waits."""
        settings = self.settings
        if settings.flush_messages is not None or settings.flush_ms is not None:
            self._unflushed_count += record_count
            self._see_to_flush()
        elif self._waiters:
            self._show()
        else:
            self._shown = self.log.log_end_offset

    def flushed(self) -> None:
        """The log was flushed up to some point: tell who waits."""
        self._flush_is_due = False
        if self.settings.shows_only_what_is_flushed and self.log.flushed_offset < self.log.log_end_offset:
            self._see_to_flush()
        self._show()

    def configure(self, settings: TopicSettings) -> None:
        """Go by other settings from now on."""
        self.settings = settings
        self._show()

    def wait(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def wait_no_more(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def leave(self) -> None:
        """This broker keeps the partition no longer."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.gone()

    def _see_to_flush(self) -> None:
        settings = self.settings
        if settings.flush_messages is not None and self._unflushed_count >= settings.flush_messages:
            self._unflushed_count = 0
            self._ask_flush(self, 0)
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._ask_flush(self, LONGEST_UNSEEN_MS if settings.flush_ms is None else settings.flush_ms)

    def _show(self) -> None:
        high_watermark = self.high_watermark
        more = high_watermark - self._shown
        self._shown = high_watermark
        if more > 0:
            for waiter in tuple(self._waiters):
                waiter.shown(more)


AskFlush = Callable[[Partition, int], None]
"""Has a partition's log flushed within so many milliseconds, off the loop; `Partition.flushed` is called then."""


class PartitionTable:
    """Every partition kept here, by topic and number."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Partition]] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition, or None when it is not kept here. Hot."""
        partitions = self._by_topic.get(topic)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str) -> Mapping[int, Partition]:
        return self._by_topic.get(topic, {})

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def add(self, partition: Partition) -> None:
        self._by_topic.setdefault(partition.topic, {})[partition.index] = partition

    def remove_topic(self, topic: str) -> list[Partition]:
        """Take a topic's partitions out, whoever waits at them being told; return them."""
        removed = list(self._by_topic.pop(topic, {}).values())
        for partition in removed:
            partition.leave()
        return removed

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._by_topic.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._by_topic.values())
