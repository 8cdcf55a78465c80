"""The partitions whose logs this broker keeps: what consumers may read, what waits for new records or for the disk, and when a
flush is due.

Lives on the loop thread. Knows the log below it and no API above it."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Protocol

from ...runtime.logs import get_logger
from ...wire.errors import ErrorCode
from ..log import PartitionLog
from ..settings.topic_settings import FLUSH_INTERVAL_MS, TopicSettings
from .flush_scheduler import Flushable

log = get_logger(__name__)

MOST_FLUSH_WAITERS = 100_000
"""Acknowledgements that may wait for one partition's flush. Connections bound them long before."""

Flushed = Callable[[str | None], None]
"""Called once, on the loop thread: with None when the records are on disk, else with the reason why that is unknown."""


Fault = tuple[ErrorCode, str]
Acknowledged = Callable[[Fault | None], None]
"""Called once, on the loop thread: with None when the records are as safe as the producer asked, else with the error."""


class Waiter(Protocol):
    """Something that waits for more records (a parked fetch)."""

    def shown(self, bytes_more: int) -> None:
        """So many more bytes may be read now; 0: the log's start has moved."""
        ...

    def gone(self) -> None:
        """This broker no longer keeps the partition."""
        ...


class Partition:
    """One partition's log, and how much of it consumers may read.

    Where the topic's settings force flushes, consumers see a message when it is on disk; elsewhere when it is in the log.
    """

    __slots__ = (
        "_ask_flush",
        "_flush_is_due",
        "_flush_waiters",
        "_shown",
        "_unflushed_count",
        "_waiters",
        "acks_on_disk",
        "answers_later",
        "bytes_in",
        "bytes_out",
        "index",
        "is_gone",
        "leader_epoch",
        "log",
        "messages_in",
        "settings",
        "topic",
        "touched",
    )

    is_replicated: ClassVar[bool] = False

    def __init__(self, topic: str, index: int, log: PartitionLog, settings: TopicSettings, ask_flush: "AskFlush") -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.settings = settings
        self.acks_on_disk = settings.acks_on_disk
        """Whether an acknowledgement waits for `when_flushed`."""
        self.answers_later = self.acks_on_disk
        """Whether an acknowledgement waits for `when_acknowledged`."""
        self.leader_epoch = 0
        """Of the batches that are appended now."""
        self.is_gone = False
        """Whether this broker no longer keeps the partition. Its log may then be used by another thread."""
        self.messages_in = 0
        self.bytes_in = 0
        """Bytes of record batches appended since this broker opened the log. This and `messages_in` are for metrics only."""
        self.bytes_out = 0
        """Bytes of record batches given to fetches; for metrics only."""
        self.touched: dict[Partition, None] = {}
        """The table's: takes the partition when its log has changed."""
        self._ask_flush = ask_flush
        self._waiters: dict[Waiter, None] = {}
        self._flush_waiters: deque[tuple[int, Flushed]] = deque()
        self._unflushed_count = 0
        self._flush_is_due = False
        self._shown = log.flushed_offset if settings.shows_only_what_is_flushed else log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may read. Never goes back, not even when the topic's settings begin to force flushes."""
        if self.settings.shows_only_what_is_flushed:
            flushed_offset = self.log.flushed_offset
            return flushed_offset if flushed_offset > self._shown else self._shown
        return self.log.log_end_offset

    def appended(self, record_count: int, size_bytes: int) -> None:
        """Count an append of so many records and bytes, request a flush if one is due, notify waiters.

        Hot: once a batch or a run of them.
        """
        self.messages_in += record_count
        self.bytes_in += size_bytes
        self.touched[self] = None
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
        """Call `done` when the log is on disk up to `end_offset`, before returning if it is already.

        `done(reason)` means that this is unknown: the answer is then KAFKA_STORAGE_ERROR. A batch that is in the log already (a
        duplicate) waits too, as its first sender may not have been answered.
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

    @property
    def flush_target(self) -> Flushable:
        """Return what a flush of this log is asked for."""
        return self

    def when_acknowledged(self, end_offset: int, acks: int, timeout_ms: int, done: Acknowledged) -> None:
        """Call `done` when the log up to `end_offset` is as safe as `acks` (1, or -1 for all) and the topic's settings ask."""
        self.when_flushed(end_offset, lambda why: done(None if why is None else (ErrorCode.KAFKA_STORAGE_ERROR, why)))

    def why_no_append(self, acks: int) -> Fault | None:
        """Return why a producer cannot append now, None when it can."""
        return None

    @property
    def knows_high_watermark(self) -> bool:
        """Return whether the high watermark is known. A new leader learns it within a moment."""
        return True

    def flushed(self) -> None:
        """A flush has succeeded: answer what waited for it, notify waiters."""
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
        """A flush has failed: pass the reason to everything that waits for a flush."""
        waiters, self._flush_waiters = self._flush_waiters, deque()
        for _, done in waiters:
            _tell(done, why)

    def configure(self, settings: TopicSettings) -> None:
        """Apply new settings."""
        self._show()
        self.settings = settings
        self.acks_on_disk = self.answers_later = settings.acks_on_disk
        if settings.shows_only_what_is_flushed and self.log.flushed_offset < self.log.log_end_offset:
            self._see_to_flush()
        self._show()

    def wait(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def wait_no_more(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def start_moved(self) -> None:
        """The log begins at a later offset now: notify waiters."""
        for waiter in tuple(self._waiters):
            waiter.shown(0)

    def leave(self) -> None:
        """Mark the partition as no longer kept here; notify everything that waits."""
        self.is_gone = True
        self.touched[self] = None
        self.flush_failed(_gone(self))
        waiters, self._waiters = self._waiters, {}
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
    except Exception:  # a fault of ours in one callback must not keep the others waiting
        log.error("flush_waiter_failed", exc_info=True)


AskFlush = Callable[[Flushable, int], None]
"""Flushes a partition's log within so many milliseconds, off the loop, then calls `Partition.flushed` or `flush_failed`."""


class PartitionTable:
    """Every partition kept here, by topic and number. `get` finds those that this broker leads, the only ones of one replica."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Partition]] = {}
        self._following: dict[tuple[str, int], Partition] = {}
        self._touched: dict[Partition, None] = {}
        self._followers: list[dict[Partition, None]] = []

    def follow(self) -> dict[Partition, None]:
        """Return what gets every partition now, and at each `tell_followers` those that were appended to, came or went, in the
        order of these events. Its owner removes what it has seen to. So what is done for each log costs as much as there are
        changes.
        """
        followed = dict.fromkeys(self.kept())
        self._followers.append(followed)
        return followed

    def tell_followers(self) -> None:
        for followed in self._followers:
            followed |= self._touched
        self._touched.clear()

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition, or None when this broker does not lead it. Hot."""
        partitions = self._by_topic.get(topic)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str) -> Mapping[int, Partition]:
        return self._by_topic.get(topic, {})

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def kept(self) -> Iterator[Partition]:
        """Yield every partition whose log is kept here, those of followers too."""
        yield from self
        yield from self._following.values()

    def add(self, partition: Partition, *, leads: bool = True) -> None:
        if leads:
            self._by_topic.setdefault(partition.topic, {})[partition.index] = partition
        else:
            self._following[partition.topic, partition.index] = partition
        partition.touched = self._touched
        self._touched[partition] = None

    def remove(self, partition: Partition) -> None:
        """Remove one partition, and notify everything that waits for it."""
        key = (partition.topic, partition.index)
        if self._following.get(key) is partition:
            del self._following[key]
        elif self.get(*key) is partition:
            of_topic = self._by_topic[partition.topic]
            del of_topic[partition.index]
            if not of_topic:
                del self._by_topic[partition.topic]
        partition.leave()

    def remove_topic(self, topic: str) -> list[Partition]:
        """Remove a topic's partitions, notify everything that waits for them, and return them."""
        removed = list(self._by_topic.pop(topic, {}).values())
        for partition in removed:
            partition.leave()
        return removed

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._by_topic.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._by_topic.values())
