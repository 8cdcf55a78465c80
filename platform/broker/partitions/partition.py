"""The partitions whose log this broker keeps: what may be seen of them, who waits for more or for the disk, when they are to be
flushed.

Lives on the loop thread. Knows the log below it and no API above it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from ...runtime.logs import get_logger
from ..log import PartitionLog
from ..settings.topic_settings import FLUSH_INTERVAL_MS, TopicSettings

log = get_logger(__name__)

MOST_FLUSH_WAITERS = 100_000
"""Acknowledgements that may wait for one partition's flush. Connections bound them long before."""

Flushed = Callable[[str | None], None]
"""Called once, on the loop thread: None when all is on disk, else why it is not known to be."""


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

    __slots__ = (
        "_ask_flush",
        "_flush_is_due",
        "_flush_waiters",
        "_shown",
        "_unflushed_count",
        "_waiters",
        "acks_on_disk",
        "bytes_in",
        "bytes_out",
        "index",
        "is_gone",
        "log",
        "messages_in",
        "settings",
        "topic",
    )

    def __init__(self, topic: str, index: int, log: PartitionLog, settings: TopicSettings, ask_flush: "AskFlush") -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.settings = settings
        self.acks_on_disk = settings.acks_on_disk
        """Whether an acknowledgement waits for `when_flushed`."""
        self.is_gone = False
        """Whether this broker keeps the partition no longer; its log may then be another thread's."""
        self.messages_in = 0
        self.bytes_in = 0
        """Of record batches appended since this broker opened the log; like `messages_in` for metrics only."""
        self.bytes_out = 0
        """Of record batches handed to fetches; for metrics only."""
        self._ask_flush = ask_flush
        self._waiters: set[Waiter] = set()
        self._flush_waiters: deque[tuple[int, Flushed]] = deque()
        self._unflushed_count = 0
        self._flush_is_due = False
        self._shown = log.flushed_offset if settings.shows_only_what_is_flushed else log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may see. Never goes back: not even when the topic begins to show only what is flushed."""
        if self.settings.shows_only_what_is_flushed:
            flushed_offset = self.log.flushed_offset
            return flushed_offset if flushed_offset > self._shown else self._shown
        return self.log.log_end_offset

    def appended(self, record_count: int, size_bytes: int) -> None:
        """Records were appended to the log, batches of so many bytes: see to flushing, tell who waits.

        Hot: once a batch or a run of them.
        """
        self.messages_in += record_count
        self.bytes_in += size_bytes
        settings = self.settings
        if self.acks_on_disk:
            self._ask_flush(self, 0)
        elif settings.flush_messages is not None or settings.flush_ms is not None:
            self._unflushed_count += record_count
            self._see_to_flush()
        elif self._waiters:
            self._show()
        else:
            self._shown = self.log.log_end_offset

    def when_flushed(self, end_offset: int, done: Flushed) -> None:
        """Have `done` called as soon as what the log holds before `end_offset` is on disk; at once where it is already.

        `done(reason)` says that nobody knows whether it is or will be: the answer to that is KAFKA_STORAGE_ERROR. A batch that
        is in the log already (a duplicate) waits likewise, its first sender may not have been answered.
        """
        log = self.log
        end_offset = min(end_offset, log.log_end_offset)
        if log.flushed_offset >= end_offset:
            done(None)
        elif log.failure is not None:
            done(str(log.failure))
        elif self.is_gone:
            done(_gone(self))
        elif len(self._flush_waiters) >= MOST_FLUSH_WAITERS:
            done(f"{MOST_FLUSH_WAITERS} acknowledgements wait for the disk already: send again later")
        else:
            self._flush_waiters.append((end_offset, done))
            self._ask_flush(self, 0)

    def flushed(self) -> None:
        """The log was flushed up to some point: tell who waits."""
        self._flush_is_due = False
        flushed_offset = self.log.flushed_offset
        waiters = self._flush_waiters
        while waiters and waiters[0][0] <= flushed_offset:
            _tell(waiters.popleft()[1], None)
        if waiters:
            self._ask_flush(self, 0)
        elif self.settings.shows_only_what_is_flushed and flushed_offset < self.log.log_end_offset:
            self._see_to_flush()
        self._show()

    def flush_failed(self, why: str) -> None:
        """A flush did not succeed: tell who waits for it."""
        waiters, self._flush_waiters = self._flush_waiters, deque()
        for _, done in waiters:
            _tell(done, why)

    def configure(self, settings: TopicSettings) -> None:
        """Go by other settings from now on."""
        self._show()
        self.settings = settings
        self.acks_on_disk = settings.acks_on_disk
        if settings.shows_only_what_is_flushed and self.log.flushed_offset < self.log.log_end_offset:
            self._see_to_flush()
        self._show()

    def wait(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def wait_no_more(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def leave(self) -> None:
        """This broker keeps the partition no longer."""
        self.is_gone = True
        self.flush_failed(_gone(self))
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.gone()

    def _see_to_flush(self) -> None:
        settings = self.settings
        if self.acks_on_disk:
            self._ask_flush(self, 0)
        elif settings.flush_messages is not None and self._unflushed_count >= settings.flush_messages:
            self._unflushed_count = 0
            self._ask_flush(self, 0)
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._ask_flush(self, FLUSH_INTERVAL_MS if settings.flush_ms is None else settings.flush_ms)

    def _show(self) -> None:
        high_watermark = self.high_watermark
        more = high_watermark - self._shown
        self._shown = high_watermark
        if more > 0:
            for waiter in tuple(self._waiters):
                waiter.shown(more)


def _gone(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index} is no longer kept here"


def _tell(done: Flushed, why: str | None) -> None:
    try:
        done(why)
    except Exception:  # a fault of ours in one answer must not keep the others waiting
        log.error("flush_waiter_failed", exc_info=True)


AskFlush = Callable[[Partition, int], None]
"""Has a partition's log flushed within so many milliseconds, off the loop, then calls `Partition.flushed` or `flush_failed`."""


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
