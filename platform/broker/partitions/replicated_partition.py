"""A partition with several replicas, as long as this broker's role in it lasts: consumers see what every member of the set has.

The end of a role ends the object: what waits for it gets NOT_LEADER_OR_FOLLOWER. `Replica` (the driver) decides; this class gives
handlers and upkeep what they know of a partition of one replica. So such a partition costs nothing more.
"""

from collections.abc import Callable
from typing import ClassVar, Protocol

from ..log import PartitionLog
from ..settings.topic_settings import TopicSettings
from .flush_scheduler import Flushable
from .partition import Acknowledged, AskFlush, Fault, Partition


class Replica(Protocol):
    """What runs the replication machine of a partition."""

    def log_changed(self) -> None:
        """The log has grown, or begins elsewhere. Told to the machine at the end of the loop's turn."""
        ...

    @property
    def flush_target(self) -> Flushable:
        """What a flush is asked for and reported to. It outlives the role, so that a log has one flush under way at a time."""
        ...

    def why_no_append(self, acks: int) -> Fault | None: ...

    def when_acknowledged(self, timeout_ms: int, done: Acknowledged) -> None:
        """Call `done` when every needed member has what is in the log now."""
        ...

    def delete_records(self, offset: int, timeout_ms: int, done: Acknowledged) -> None:
        """Call `done` when every needed member has noted that the log starts at `offset`."""
        ...

    def when_sure(self, done: Callable[[bool], None]) -> None:
        """Call `done` with whether this broker leads, from what ZooKeeper answers to a question that is asked after this call."""
        ...

    def lags(self) -> dict[int, int]:
        """Return by follower how many offsets it is behind the log's end."""
        ...


class ReplicatedPartition(Partition):
    """See the module. `leader_epoch` is 0 while this broker follows."""

    __slots__ = ("_is_known", "_visible", "replica")

    is_replicated: ClassVar[bool] = True

    def __init__(
        self,
        topic: str,
        index: int,
        log: PartitionLog,
        settings: TopicSettings,
        ask_flush: AskFlush,
        replica: Replica,
        *,
        leader_epoch: int = 0,
        visible: int = 0,
    ) -> None:
        """`visible`: up to where consumers may read for sure."""
        self.replica = replica
        self._visible = max(visible, log.log_start_offset)
        self._is_known = False
        target = replica.flush_target
        super().__init__(topic, index, log, settings, lambda _, within_ms: ask_flush(target, within_ms))
        self.leader_epoch = leader_epoch
        self.answers_later = True
        self._shown = self._visible

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may read: of what every member of the set has. Never goes back."""
        return self._visible

    @property
    def knows_high_watermark(self) -> bool:
        return self._is_known

    def show(self, visible_end: int | None) -> None:
        """Let consumers read up to there; None: the high watermark is not known yet."""
        if visible_end is not None:
            self._is_known = True
            if visible_end > self._visible:
                self._visible = visible_end
                self._show()

    def appended(self, record_count: int, size_bytes: int) -> None:
        self.messages_in += record_count
        self.bytes_in += size_bytes
        self.touched[self] = None
        self.replica.log_changed()
        if self.acks_on_disk:
            self._ask_flush(self, 0)
        elif self.settings.flush_messages is not None or self.settings.flush_ms is not None:
            self._unflushed_count += record_count
            self._see_to_flush()

    def why_no_append(self, acks: int) -> Fault | None:
        return self.replica.why_no_append(acks)

    def when_acknowledged(self, end_offset: int, acks: int, timeout_ms: int, done: Acknowledged) -> None:
        if acks == -1:
            self.replica.when_acknowledged(timeout_ms, done)
        elif self.acks_on_disk:
            super().when_acknowledged(end_offset, acks, timeout_ms, done)
        else:
            done(None)

    @property
    def flush_target(self) -> Flushable:
        return self.replica.flush_target

    def start_moved(self) -> None:
        super().start_moved()
        self.replica.log_changed()

    def configure(self, settings: TopicSettings) -> None:
        super().configure(settings)
        self.answers_later = True
