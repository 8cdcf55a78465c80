"""Hands fetched messages to the application in order, and runs every callback at its place between two messages.

Everything here belongs to the one thread that iterates. While the session is not sure, it returns no messages.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ...runtime.logs import get_logger
from ...wire.errors import CorruptBatch
from ..fetch.fetched import CorruptRange, TopicPartition
from .stream_items import Batch, Notice, NoticeKind, Skip
from .stream_message import Message, OnHanded, OpenBatch
from .stream_state import StreamState

log = get_logger(__name__)

OnAssigned = Callable[[Mapping[TopicPartition, int]], None]
OnPartitions = Callable[[Collection[TopicPartition]], None]
OnCorrupt = Callable[[TopicPartition, CorruptRange], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """The application's callbacks; see `ZooKeeperConsumer`."""

    on_assigned: OnAssigned | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None
    on_corrupt: OnCorrupt | None = None
    on_handed: OnHanded | None = None
    on_stalled: Callable[[int], None] | None = None
    """On the membership's thread."""


class MessageStream:
    """One consumer's messages."""

    def __init__(self, state: StreamState, callbacks: Callbacks, *, may_deliver: Callable[[], bool], name: str) -> None:
        """`may_deliver` returns whether this member provably owns its partitions. `name` identifies the consumer in the log."""
        self._state, self._callbacks, self._may_deliver, self._name = state, callbacks, may_deliver, name
        self._open: OpenBatch | None = None
        self._in_hand: tuple[TopicPartition, int] | None = None
        """Partition and epoch of the message that the application got last, until it asks for the next."""

    @property
    def is_in_hand(self) -> bool:
        """Whether the application has not come back since it got its last message."""
        return self._in_hand is not None

    def next(self, deadline: float, *, delivers: bool = True) -> Message | None:
        """Return the next message, or None at `deadline` (monotonic) or when the stream has ended. Runs the callbacks; with
        `delivers=False` nothing else.
        """
        state = self._state
        if self._in_hand is not None:
            state.finish_handed(*self._in_hand)
            self._in_hand = None
        while True:
            current = self._open if delivers else None
            if current is not None and not state.has_notice():
                if not state.is_owned(current.partition, current.epoch):
                    self._leave_batch()
                elif self._may_deliver():
                    message = self._from_batch(current)
                    if message is not None:
                        return message
                elif time.monotonic() >= deadline:
                    return None
                else:
                    time.sleep(0.005)  # unsure of the session: ZooKeeper's next response, or a notice, ends this
                continue
            item = state.take(deadline, may_deliver=self._may_deliver if delivers else _never)
            match item:
                case None:
                    return None
                case Notice():
                    self._notify(item)
                case Batch():
                    self._open = OpenBatch(item.partition, item.epoch, item.header, item.batch, item.from_offset)
                case Skip():
                    self._skip(item.partition, item.epoch, item.corrupt)

    def settle(self) -> None:
        """Call `on_handed` now for the part of the open batch that was handed out, without waiting for the batch's end."""
        if self._open is not None and self._callbacks.on_handed is not None:
            handed = self._open.take_handed()
            if handed is not None:
                self._callbacks.on_handed(handed)

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Continue at `offset`. Return False if the partition is not owned."""
        if self._open is not None and self._open.partition == partition:
            self._leave_batch()
        return self._state.seek(partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these partitions until the state resumes them."""
        self._leave_batch_of(partitions)
        self._state.pause(partitions)

    def notify_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Call `on_revoked`. If this member is not sure to own the partitions, call `on_lost` instead."""
        if not self._may_deliver():
            self._notify_lost(partitions)
            return
        self._leave_batch_of(partitions)
        if self._callbacks.on_revoked is not None:
            self._callbacks.on_revoked(list(partitions))

    def _notify_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._leave_batch_of(partitions)
        log.warning("partitions_lost", consumer=self._name, count=len(partitions))
        if self._callbacks.on_lost is not None:
            self._callbacks.on_lost(list(partitions))

    def _notify(self, notice: Notice) -> None:
        try:
            match notice.kind:
                case NoticeKind.ASSIGNED:
                    if self._callbacks.on_assigned is not None:
                        self._callbacks.on_assigned(dict(notice.partitions))
                case NoticeKind.REVOKED:
                    self.notify_revoked(notice.partitions)
                case NoticeKind.LOST:
                    self._notify_lost(notice.partitions)
        finally:
            self._state.finish(notice)

    def _from_batch(self, current: OpenBatch) -> Message | None:
        try:
            message = current.next_message()
        except CorruptBatch as error:
            bad = CorruptRange(from_offset=current.position, to_offset=current.header.next_offset, reason=str(error))
            self._leave_batch()
            self._skip(current.partition, current.epoch, bad)
            return None
        if message is None:
            self._state.moved(current.partition, current.epoch, current.position)
            self._leave_batch()
            return None
        self._state.handed(current.partition, current.epoch, current.position)
        self._in_hand = current.partition, current.epoch
        return message

    def _leave_batch(self) -> None:
        self.settle()
        self._open = None

    def _leave_batch_of(self, partitions: Collection[TopicPartition]) -> None:
        if self._open is not None and self._open.partition in partitions:
            self._leave_batch()

    def _skip(self, partition: TopicPartition, epoch: int, bad: CorruptRange) -> None:
        log.error(
            "range_skipped",
            topic=partition.topic,
            partition=partition.partition,
            from_offset=bad.from_offset,
            to_offset=bad.to_offset,
            reason=bad.reason,
        )
        if self._callbacks.on_corrupt is not None:
            self._callbacks.on_corrupt(partition, bad)
        self._state.moved(partition, epoch, bad.to_offset)


def _never() -> bool:
    return False
