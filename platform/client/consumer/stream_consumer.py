"""A consumer with one blocking stream of messages, however its group coordinates.

`stream_fetching` fills the queue, `message_stream` hands the messages out.
"""

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from ...errors import HeadraceError
from ...runtime.lifecycle import Lifecycle
from ...runtime.logs import get_logger
from ..connection.cluster import Cluster
from ..fetch.fetched import TopicPartition
from ..fetch.fetcher import Fetcher
from ..fetch.log_offsets import log_offsets, log_range
from .membership import Membership
from .message_stream import Callbacks, MessageStream
from .stalled_application import StalledApplication
from .stream_fetching import FetchLoop, reset_point
from .stream_message import Message
from .stream_state import StreamState
from .zk_errors import PartitionsLost, StreamMisused

log = get_logger(__name__)

LARGEST_ANSWER_BYTES = 8 << 20


class StreamConsumer:
    """One member of a group. Its stream and every callback belong to one thread: the one that iterates."""

    _membership: Membership
    """What the kinds of groups differ in; their constructors make it."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        consumer_id: str,
        auto_offset_reset: str,
        queue_bytes: int,
        fetch_wait_ms: int,
        callbacks: Callbacks,
        commit_on_revoke: bool,
        stall_ms: int | None = None,
    ) -> None:
        """Only stores its arguments; the callbacks are those of `ZooKeeperConsumer`. Raises StreamMisused without topics."""
        if not topics:
            raise StreamMisused(f"group {group!r}: no topics given: name at least one")
        self.group, self.topics, self.consumer_id = group, tuple(sorted(set(topics))), consumer_id
        self._reset_to = reset_point(auto_offset_reset)
        name = f"{group}.{consumer_id}"
        self._cluster = Cluster(bootstrap, client_id=name)
        self._state = StreamState(queue_bytes=queue_bytes)
        if callbacks.on_revoked is None and commit_on_revoke:
            callbacks = replace(callbacks, on_revoked=self._commit_handed_out)
        self._stream = MessageStream(self._state, callbacks, may_deliver=self._may_deliver, name=name)
        answer_bytes = min(LARGEST_ANSWER_BYTES, max(1, queue_bytes // 2))
        self._fetcher = Fetcher(
            self._cluster,
            max_wait_ms=fetch_wait_ms,
            max_bytes=answer_bytes,
            partition_max_bytes=min(1 << 20, answer_bytes),
            hides_aborted=True,
            leaves_out_idle=True,
        )
        self._lifecycle = Lifecycle()
        self._handing_out = threading.Lock()  # held by the thread that polls
        self._has_begun = self._closed = False
        self._stall = StalledApplication(stall_ms, on_stalled=callbacks.on_stalled, name=name)

    # ---- life

    def start(self, timeout_ms: int = 30_000) -> Self:
        """Join the group, through ZooKeeper before it returns; in Kafka's protocol the coordinator is reached afterwards. The
        topics need not exist, and no broker needs to answer.

        The id of a ZooKeeper member that was just killed becomes free when its session times out; `start` waits for that. Raises
        ZooKeeperUnreachable, ConsumerIdTaken, InvalidName, GroupOfKafkaClients.
        """
        if self._has_begun or self._closed:
            raise StreamMisused(f"consumer {self.consumer_id!r} was started before: make a new one")
        self._lifecycle.started("cluster", self._cluster.close)
        fetching = FetchLoop(self._state, self._fetcher, starts=self._starts, name=self.consumer_id)
        try:
            self._lifecycle.started("membership", self._membership.leave)
            self._membership.join(self._state, self._starts, timeout_ms, on_brokers=fetching.hurry)
            fetching.start()
            self._lifecycle.started("fetching", fetching.stop)
            self._membership.begin()
            self._lifecycle.started("sharing", self._membership.stop_sharing)
        except BaseException:
            self._closed = True
            self._state.stop()
            self._lifecycle.stop()
            raise
        self._has_begun = True
        log.info("consumer_joined", group=self.group, consumer=self.consumer_id, topics=list(self.topics))
        return self

    def close(self, timeout_ms: int = 30_000) -> None:
        """Leave the group: end the stream, give the partitions back as at a revocation (callback, commit), tell the group.

        From another thread than the iterating one, `close` first waits up to `timeout_ms` until that thread asks for its next
        message. The group notices a member that does not close when its session times out.
        """
        self._state.stop()
        if self._closed:
            return
        idle = self._handing_out.acquire(timeout=timeout_ms / 1000)
        try:
            self._closed = True
            if self._has_begun:
                self._membership.stop_sharing()
                owned = self._state.positions()
                if owned and idle:
                    self._stream.notify_revoked(owned)
        finally:
            if idle:
                self._handing_out.release()
            self._lifecycle.stop()

    def stop(self) -> None:
        """End the stream from any thread: `stream` ends and `poll` returns None at once. `close` must still be called."""
        self._state.stop()

    def __enter__(self) -> Self:
        return self if self._has_begun else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- the stream

    def stream(self, *, idle_timeout_ms: int | None = None) -> Iterator[Message]:
        """Yield messages, waiting for each without limit. End at `stop` or `close`, or after `idle_timeout_ms` without a message.

        After an idle end it may be called again. Raises RebalanceFailed, ConsumerIdTaken, and a broker's permanent refusal.
        """
        while True:
            message = self.poll(idle_timeout_ms if idle_timeout_ms is not None else 3_600_000)
            if message is not None:
                yield message
            elif idle_timeout_ms is not None or self._state.is_stopped:
                return

    def poll(self, timeout_ms: int) -> Message | None:
        """Return the next message, or None if none came in `timeout_ms` or the stream has ended. Runs the callbacks."""
        if not self._has_begun:
            self.start()
        if not self._handing_out.acquire(blocking=False):
            raise StreamMisused(f"consumer {self.consumer_id!r}: its stream belongs to one thread, and another is in it")
        try:
            return self._stream.next(time.monotonic() + timeout_ms / 1000)
        finally:
            self._handing_out.release()

    def attend(self) -> None:
        """Run the callbacks that are due, as `poll` does, and take no message."""
        with self._handing_out:
            self._stream.next(time.monotonic(), delivers=False)

    def alive(self, *, is_overdue: bool = False) -> None:
        """Say that the application works. With `stall_ms` it is to say so that often. `is_overdue`: it says it has stalled."""
        self._stall.turns += 1
        self._stall.is_overdue = is_overdue

    # ---- positions

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Register how far the group has read: durable on return. None means all that was handed out, the latest message
        included.

        Raises PartitionsLost if partitions are lost and the application was not notified yet, or another member may own them by
        now (then nothing is committed), and what ZooKeeper or the coordinator raises, retriable.
        """
        due = self._state.uncommitted() if offsets is None else dict(offsets)
        generation = self._state.generation
        if self._state.has_unreported_loss() or (due and self._membership.generation != generation):
            raise PartitionsLost(self.group, self.consumer_id)
        if not due:
            return
        self._membership.commit(due, generation)
        self._state.committed(due)

    @property
    def is_sure(self) -> bool:
        """Whether the group provably counts this member as alive."""
        return self._has_begun and not self._closed and self._membership.is_sure()

    def _may_deliver(self) -> bool:
        return self._membership.is_sure() and self._membership.generation == self._state.generation

    def _commit_handed_out(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self.commit({name: at for name, at in self._state.uncommitted().items() if name in partitions})
        except HeadraceError as error:
            log.warning("commit_at_handover_failed", group=self.group, consumer=self.consumer_id, error=str(error))

    def settle(self) -> None:
        """Call `on_handed` now for the part of the open batch that was handed out, without waiting for the batch's end."""
        self._stream.settle()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset` in an owned partition, on the iterating thread. Raises StreamMisused if it is not owned."""
        if not self._stream.seek(partition, offset):
            raise StreamMisused(f"seek in {partition.topic}-{partition.partition}: not this consumer's partition now")

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions, owned now or later, until `resume`; on the iterating thread."""
        self._stream.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Go on with what `pause` has stopped, where it stopped; any thread."""
        self._state.resume(partitions)

    def seek_to_time(self, partition: TopicPartition, timestamp_ms: int) -> int:
        """Continue at the first record at or after this event time, or at the log's end; return that offset. Raises as `seek`,
        and ClientError.
        """
        offset = log_offsets(self._cluster, {partition: timestamp_ms})[partition]
        self.seek(partition, offset)
        return offset

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last message handed out, or where the partition begins; None if it is not owned."""
        return self._state.positions().get(partition)

    def positions(self) -> dict[TopicPartition, int]:
        """Return `position` of every owned partition."""
        return self._state.positions()

    @property
    def queued_bytes(self) -> int:
        """Bytes of the batches that are fetched and not handed out yet."""
        return self._state.queued_bytes

    @property
    def trouble(self) -> HeadraceError | None:
        """Return why nothing can be read now, or the group is not reached; None: all is well. It is retried automatically."""
        return self._state.trouble

    @property
    def may_act(self) -> bool:
        """Whether this member provably owns its assigned partitions at this moment. Only then act on messages in a way that
        others see.
        """
        return self._may_deliver()

    def log_range(self, partition: TopicPartition) -> tuple[int, int]:
        """Return where the partition's log begins and ends now. Raises ClientError."""
        return log_range(self._cluster, partition)

    def _starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return log_offsets(self._cluster, dict.fromkeys(partitions, self._reset_to))
