"""State shared by a consumer's three threads: owned partitions, a bounded queue of fetched batches, notices to the application.

The fetching thread puts batches in, the application's thread takes them out, the rebalancing thread adds and removes partitions.
A partition that is removed and added again gets a new epoch; batches fetched under an old epoch are dropped. The application
learns of both changes through notices, on its own thread, between two messages. One condition guards all of it; no callback runs
while it is held.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from ...errors import HeadraceError
from ..fetch.fetched import TopicPartition
from .stream_items import Batch, Fetched, Notice, NoticeKind


@dataclass(slots=True)
class _Owned:
    epoch: int
    fetch_position: int
    position: int
    finished: int
    """Everything handed out below this offset is done with: its application asked for the next message."""
    committed: int | None


class StreamState:
    """The shared state of one consumer. Every method may be called from any thread."""

    def __init__(self, *, queue_bytes: int) -> None:
        self.queue_bytes = queue_bytes
        self.generation = -1
        """The session generation under which the partitions are owned."""
        self._condition = threading.Condition()
        self._owned: dict[TopicPartition, _Owned] = {}
        self._queue: deque[Fetched] = deque()
        self._queued_bytes = 0
        self._notices: deque[Notice] = deque()
        self._epochs = count(1)
        self._failure: Exception | None = None
        self._troubles: dict[str, HeadraceError] = {}
        self._paused: set[TopicPartition] = set()
        self._stopped = False

    # ---- the rebalancing thread

    def place(self, own: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return which of a member's streams reads each of its partitions: here is one stream, 0."""
        return dict.fromkeys(own, 0)

    def assign(self, starts: Mapping[TopicPartition, int], *, committed: Mapping[TopicPartition, int], generation: int) -> None:
        """Own these partitions from these offsets on. `on_assigned` runs before the first of their messages."""
        with self._condition:
            self.generation = generation
            for partition, start in starts.items():
                self._owned[partition] = _Owned(next(self._epochs), start, start, start, committed.get(partition))
            self._notices.append(Notice(kind=NoticeKind.ASSIGNED, partitions=dict(starts)))
            self._condition.notify_all()

    def revoke(self, partitions: Collection[TopicPartition], *, timeout_ms: int) -> bool:
        """Take partitions back after the application was notified. Return whether it was notified within `timeout_ms`.

        If the application does not ask for its next message in time, it loses the partitions anyway and is notified later.
        """
        return self.await_revocation(self.announce_revocation(partitions), timeout_ms)

    def announce_revocation(self, partitions: Collection[TopicPartition]) -> Notice | None:
        """Begin to revoke: notify the application. None: it does not know these partitions yet, so they are just removed."""
        with self._condition:
            announced = self._withdraw_unseen(partitions)
            if not announced:
                return None
            notice = Notice(kind=NoticeKind.REVOKED, partitions=announced)
            self._notices.append(notice)
            self._condition.notify_all()
            return notice

    def await_revocation(self, notice: Notice | None, timeout_ms: float) -> bool:
        """End what `announce_revocation` began. Return whether the application was notified within `timeout_ms`."""
        if notice is None or notice.done.wait(max(0.0, timeout_ms) / 1000):
            return True
        with self._condition:
            if notice.done.is_set():
                return True
            self._drop(notice.partitions)
            if notice.taken:
                return False  # its callback runs at this moment; no other notice is needed
            notice.kind = NoticeKind.LOST
            return False

    def lose_all(self) -> None:
        """Mark every partition as lost, because the session is lost."""
        self.lose(None)

    def lose(self, partitions: Collection[TopicPartition] | None) -> None:
        """Mark these partitions (None: every one) as lost: the application is notified, and nothing of them is committed."""
        with self._condition:
            announced = self._withdraw_unseen(list(self._owned) if partitions is None else partitions)
            if announced:
                self._drop(announced)
                for waiting in self._notices:
                    if waiting.kind is NoticeKind.REVOKED and not waiting.taken and waiting.partitions.keys() <= announced.keys():
                        waiting.kind = NoticeKind.LOST
                        announced = {name: at for name, at in announced.items() if name not in waiting.partitions}
                if announced:
                    self._notices.append(Notice(kind=NoticeKind.LOST, partitions=announced))
            self._condition.notify_all()

    def await_quiet(self, timeout_ms: int) -> bool:
        """Return whether the application has processed every notice within `timeout_ms`."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._notices or self._stopped, timeout_ms / 1000)

    def _withdraw_unseen(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Remove the partitions whose assignment the application has not seen yet, without a notice. Return the others with their
        positions.
        """
        unheard: set[TopicPartition] = set()
        for notice in self._notices:
            if notice.kind is NoticeKind.ASSIGNED and not notice.taken:
                for partition in [name for name in notice.partitions if name in partitions]:
                    del notice.partitions[partition]
                    unheard.add(partition)
        self._notices = deque(notice for notice in self._notices if notice.partitions or notice.taken)
        self._drop(unheard)
        return {name: self._owned[name].position for name in partitions if name in self._owned}

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._owned.pop(partition, None)
        self._sweep()
        self._condition.notify_all()

    def _sweep(self) -> None:
        self._queue = deque(item for item in self._queue if self._is_current(item))
        self._queued_bytes = sum(map(_size_bytes, self._queue))

    def _is_current(self, item: Fetched) -> bool:
        owned = self._owned.get(item.partition)
        return owned is not None and owned.epoch == item.epoch

    # ---- the fetching thread

    def wanted(self, timeout_ms: int) -> dict[TopicPartition, tuple[int, int]]:
        """Return partition → (epoch, offset to fetch) once the queue has room for another fetch; empty after `timeout_ms`."""
        with self._condition:
            self._condition.wait_for(
                lambda: (
                    self._stopped or (not self._paused.issuperset(self._owned) and self._queued_bytes <= self.queue_bytes // 2)
                ),
                timeout_ms / 1000,
            )
            if self._stopped or self._queued_bytes > self.queue_bytes // 2:
                return {}
            return {name: (owned.epoch, owned.fetch_position) for name, owned in self._owned.items() if name not in self._paused}

    def put(self, items: Sequence[Fetched], *, partition: TopicPartition, epoch: int, next_offset: int) -> None:
        """Queue what was fetched of one partition and continue at `next_offset`. Does nothing if the partition was removed
        meanwhile.
        """
        with self._condition:
            owned = self._owned.get(partition)
            if owned is None or owned.epoch != epoch:
                return
            owned.fetch_position = next_offset
            self._queue.extend(items)
            self._queued_bytes += sum(map(_size_bytes, items))
            if items:
                self._condition.notify_all()

    def waits_for(self, what: str, error: HeadraceError | None) -> None:
        """Note why a thread (`what`) tries again and again; None: it got through."""
        with self._condition:
            if error is None:
                self._troubles.pop(what, None)
            else:
                self._troubles[what] = error

    @property
    def trouble(self) -> HeadraceError | None:
        with self._condition:
            return next(iter(self._troubles.values()), None)

    def fail(self, error: Exception) -> None:
        """Make the application's next call raise `error`."""
        with self._condition:
            self._failure = self._failure or error
            self._condition.notify_all()

    # ---- the application's thread

    def take(self, deadline: float, *, may_deliver: Callable[[], bool]) -> Notice | Fetched | None:
        """Return the next notice, else (while `may_deliver`) the next batch or skip; None at `deadline` (monotonic) or when
        stopped.
        """
        with self._condition:
            while True:
                if self._failure is not None:
                    raise self._failure
                if self._stopped:
                    return None
                if self._notices and not self._notices[0].taken:
                    self._notices[0].taken = True
                    return self._notices[0]
                if self._queue and may_deliver():
                    item = self._queue.popleft()
                    self._queued_bytes -= _size_bytes(item)
                    self._condition.notify_all()
                    return item
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                # Nothing notifies this thread when `may_deliver` becomes true again. With a batch queued, check again soon.
                self._condition.wait(min(left, 0.02) if self._queue else left)

    def has_notice(self) -> bool:
        """Return whether a notice is waiting; cheap enough to ask before every message."""
        return bool(self._notices) or self._failure is not None or self._stopped

    def finish(self, notice: Notice) -> None:
        """Mark the notice as processed by the application."""
        with self._condition:
            if notice in self._notices:
                self._notices.remove(notice)
            if notice.kind is NoticeKind.REVOKED:
                self._drop(notice.partitions)
            notice.done.set()
            self._condition.notify_all()

    def moved(self, partition: TopicPartition, epoch: int, position: int) -> None:
        """Record the application's position where nothing is in its hands: behind a batch, or a range that was skipped."""
        owned = self._owned.get(partition)
        if owned is not None and owned.epoch == epoch:
            owned.position = owned.finished = position

    def handed(self, partition: TopicPartition, epoch: int, position: int) -> None:
        """Record the position behind a message that the application gets now.

        Hot: called per message, and takes no lock (only this thread writes positions).
        """
        owned = self._owned.get(partition)
        if owned is not None and owned.epoch == epoch:
            owned.position = position

    def finish_handed(self, partition: TopicPartition, epoch: int) -> None:
        """Record that the application is done with what it got of a partition. Hot: per message, no lock."""
        owned = self._owned.get(partition)
        if owned is not None and owned.epoch == epoch:
            owned.finished = owned.position

    def is_owned(self, partition: TopicPartition, epoch: int) -> bool:
        """Return whether the partition is still owned under this epoch. Hot: per message, no lock."""
        owned = self._owned.get(partition)
        return owned is not None and owned.epoch == epoch

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Continue at `offset`. Return False if the partition is not owned."""
        with self._condition:
            owned = self._owned.get(partition)
            if owned is None:
                return False
            self._owned[partition] = _Owned(next(self._epochs), offset, offset, offset, owned.committed)
            self._sweep()
            self._condition.notify_all()
            return True

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions, owned now or later, until `resume`. What is fetched of them is fetched again."""
        with self._condition:
            self._paused.update(partitions)
            for name in partitions:
                if (owned := self._owned.get(name)) is not None:
                    owned.epoch, owned.fetch_position = next(self._epochs), owned.position
            self._sweep()
            self._condition.notify_all()

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        with self._condition:
            self._paused.difference_update(partitions)
            self._condition.notify_all()

    def positions(self) -> dict[TopicPartition, int]:
        """Return the owned partitions and the application's position in each."""
        with self._condition:
            return {name: owned.position for name, owned in self._owned.items()}

    def uncommitted(self) -> dict[TopicPartition, int]:
        """Return the positions that differ from the registered ones."""
        with self._condition:
            return {name: owned.position for name, owned in self._owned.items() if owned.position != owned.committed}

    def finished(self) -> dict[TopicPartition, int]:
        """Return how far the application is done with each partition, where that differs from what is registered."""
        with self._condition:
            return {name: owned.finished for name, owned in self._owned.items() if owned.finished != owned.committed}

    def has_unreported_loss(self) -> bool:
        """Return whether partitions are lost that the application still believes to own."""
        with self._condition:
            return any(notice.kind is NoticeKind.LOST and not notice.taken for notice in self._notices)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record the offsets that are registered now."""
        with self._condition:
            for partition, offset in offsets.items():
                if partition in self._owned:
                    self._owned[partition].committed = offset

    # ---- any

    @property
    def queued_bytes(self) -> int:
        """The bytes of the queued batches."""
        return self._queued_bytes

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """End every wait; `take` returns None from now on."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()

    def wake(self) -> None:
        """Wake every waiting thread, so that it checks its condition again."""
        with self._condition:
            self._condition.notify_all()


def _size_bytes(item: Fetched) -> int:
    return len(item.batch) if isinstance(item, Batch) else 0
