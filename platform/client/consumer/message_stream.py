"""From what was fetched to the application's own thread: messages in order, and every callback in its place between them.

Everything here belongs to the one thread that iterates. Who is not sure of its session hands out nothing.
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
    """What the application wants to be told; see `ZooKeeperConsumer`."""

    on_assigned: OnAssigned | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None
    on_corrupt: OnCorrupt | None = None
    on_handed: OnHanded | None = None


class MessageStream:
    """One consumer's messages."""

    def __init__(self, state: StreamState, callbacks: Callbacks, *, may_deliver: Callable[[], bool], name: str) -> None:
        """`may_deliver`: this member provably owns what it was given; `name` says who, in the log."""
        self._state, self._callbacks, self._may_deliver, self._name = state, callbacks, may_deliver, name
        self._open: OpenBatch | None = None

    def next(self, deadline: float) -> Message | None:
        """Return the next message; None at `deadline` (monotonic) or when the stream has ended. Runs the callbacks."""
        state = self._state
        while True:
            current = self._open
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
                    time.sleep(0.005)  # unsure of the session: it ends with the next answer of ZooKeeper, or with a notice
                continue
            taken = state.take(deadline, may_deliver=self._may_deliver)
            match taken:
                case None:
                    return None
                case Notice():
                    self._tell(taken)
                case Batch():
                    self._open = OpenBatch(taken.partition, taken.epoch, taken.header, taken.batch, taken.from_offset)
                case Skip():
                    self._skip(taken.partition, taken.epoch, taken.corrupt)

    def settle(self) -> None:
        """Tell `on_handed` now of what was handed out of the batch in hand, and not when the batch is done."""
        if self._open is not None and self._callbacks.on_handed is not None:
            handed = self._open.take_handed()
            if handed is not None:
                self._callbacks.on_handed(handed)

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Go on from `offset`; return False when the partition is not owned."""
        if self._open is not None and self._open.partition == partition:
            self._leave_batch()
        return self._state.seek(partition, offset)

    def tell_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the application that partitions are given back; not sure to own them, that they are lost."""
        if not self._may_deliver():
            self._tell_lost(partitions)
            return
        self._leave_batch_of(partitions)
        if self._callbacks.on_revoked is not None:
            self._callbacks.on_revoked(list(partitions))

    def _tell_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._leave_batch_of(partitions)
        log.warning("partitions_lost", consumer=self._name, count=len(partitions))
        if self._callbacks.on_lost is not None:
            self._callbacks.on_lost(list(partitions))

    def _tell(self, notice: Notice) -> None:
        try:
            match notice.kind:
                case NoticeKind.ASSIGNED:
                    if self._callbacks.on_assigned is not None:
                        self._callbacks.on_assigned(dict(notice.partitions))
                case NoticeKind.REVOKED:
                    self.tell_revoked(notice.partitions)
                case NoticeKind.LOST:
                    self._tell_lost(notice.partitions)
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
        self._state.moved(current.partition, current.epoch, current.position)
        if message is None:
            self._leave_batch()
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
