"""The paper's consumer: a blocking iterator over a message stream, in a group that coordinates through ZooKeeper alone.

    consumer = ZooKeeperConsumer("127.0.0.1:9092", "127.0.0.1:2181", "group", ["clicks"])
    for message in consumer.stream():
        ...
        consumer.commit()

At least once: a message is delivered again to whoever owns its partition when its owner ended, or lost its session, before
committing past it. In order within a partition. Who is not sure of its session delivers nothing until it is. Builds its threads
and joins them; sharing partitions is `zk_rebalance`'s, filling the queue `stream_fetching`'s.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType

from ..coordination.consumers import ConsumerRegistry, OffsetRegistry
from ..coordination.errors import CoordinationError, NotRegistered
from ..coordination.session import Session
from ..coordination.topics import TopicRegistry
from ..runtime.backoff import Backoff
from ..runtime.lifecycle import Lifecycle
from ..runtime.logs import get_logger
from ..wire.errors import CorruptBatch
from .cluster import Cluster
from .fetched import CorruptRange, TopicPartition
from .fetcher import EARLIEST, LATEST, Fetcher
from .stream_fetching import FetchLoop, reset_point
from .stream_message import Message, OnHanded, OpenBatch
from .stream_state import Batch, Notice, NoticeKind, Skip, StreamState
from .zk_errors import PartitionsLost, StreamMisused
from .zk_partitions import SubscribedPartitions
from .zk_rebalance import Rebalancer

log = get_logger(__name__)

OnAssigned = Callable[[Mapping[TopicPartition, int]], None]
OnPartitions = Callable[[Collection[TopicPartition]], None]
OnCorrupt = Callable[[TopicPartition, CorruptRange], None]

LARGEST_ANSWER_BYTES = 8 << 20


class ZooKeeperConsumer:
    """One member of a group. Its stream, and every callback, belong to one thread: the one that iterates."""

    def __init__(
        self,
        bootstrap: str,
        zookeeper: str,
        group: str,
        topics: Sequence[str],
        *,
        consumer_id: str | None = None,
        auto_offset_reset: str = "smallest",
        queue_bytes: int = 16 << 20,
        session_timeout_ms: int = 6_000,
        fetch_wait_ms: int = 500,
        on_assigned: OnAssigned | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
        on_corrupt: OnCorrupt | None = None,
        on_handed: OnHanded | None = None,
        commit_on_revoke: bool = True,
        rebalance_patience_ms: int = 120_000,
        handover_ms: int = 30_000,
        recheck_ms: int = 5_000,
    ) -> None:
        """Only remember; `start` (or the first `stream`/`poll`) begins.

        `zookeeper` is `host:port[/chroot]` of the cluster. `queue_bytes` bounds what waits: another fetch is made only while at
        most half of it is filled, and asks for at most the other half. `auto_offset_reset` (smallest or largest) says where a
        partition without a registered offset begins, and one whose offset the log does not hold.

        Callbacks, all on the iterating thread, between messages: `on_assigned(partition -> begin)` before the first message of
        new partitions (`seek` is allowed there), `on_revoked(partitions)` before they are given back (still owned: commit there
        what is done; without it, and with `commit_on_revoke`, all that was handed out is committed), `on_lost(partitions)` when
        they are gone already, `on_corrupt(partition, range)` at the place of what cannot be handed out, `on_handed(batch range)`
        when a batch has been handed out or is left midway: every record handed out is told exactly once, with the batch it came
        in.
        """
        if not topics:
            raise StreamMisused(f"group {group!r}: no topics given: name at least one")
        self.group, self.topics = group, tuple(sorted(set(topics)))
        self.consumer_id = consumer_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._reset_to = reset_point(auto_offset_reset)
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost
        self._on_corrupt, self._on_handed = on_corrupt, on_handed
        self._commit_on_revoke = commit_on_revoke
        self._session_timeout_ms = session_timeout_ms
        self._limits = (rebalance_patience_ms, handover_ms, recheck_ms)
        self._session = Session(zookeeper, session_timeout_ms=session_timeout_ms, name=f"{group}.{self.consumer_id}")
        self._cluster = Cluster(bootstrap, client_id=f"{group}.{self.consumer_id}")
        self._state = StreamState(queue_bytes=queue_bytes)
        answer_bytes = min(LARGEST_ANSWER_BYTES, max(1, queue_bytes // 2))
        self._fetcher = Fetcher(
            self._cluster, max_wait_ms=fetch_wait_ms, max_bytes=answer_bytes, partition_max_bytes=min(1 << 20, answer_bytes)
        )
        self._asker = Fetcher(self._cluster)
        self._lifecycle = Lifecycle()
        self._rebalancer: Rebalancer | None = None
        self._registry: ConsumerRegistry | None = None
        self._open: OpenBatch | None = None
        self._handing_out = threading.Lock()  # held by the thread that polls
        self._closed = False

    # ---- life

    def start(self, timeout_ms: int = 30_000) -> "ZooKeeperConsumer":
        """Join the group; returns once registered, which does not need the topics to exist, or a broker to answer.

        The id of a member that was killed a moment ago is free when its session has timed out; that is waited for. Raises
        ZooKeeperUnreachable, ConsumerIdTaken, InvalidName.
        """
        if self._rebalancer is not None or self._closed:
            raise StreamMisused(f"consumer {self.consumer_id!r} was started before: make a new one")
        patience_ms, handover_ms, recheck_ms = self._limits
        session, state = self._session, self._state
        self._lifecycle.started("cluster", self._cluster.close)
        try:
            session.start(timeout_ms)
            self._lifecycle.started("session", session.close)
            self._registry = registry = ConsumerRegistry(session)
            registry.register(
                self.group,
                self.consumer_id,
                dict.fromkeys(self.topics, 1),
                wait_ms=self._session_timeout_ms * 2,
                on_refused=state.fail,
            )
            topics = TopicRegistry(session)
            self._rebalancer = rebalancer = Rebalancer(
                session,
                state,
                SubscribedPartitions(topics, self._cluster, self.topics),
                self._starts,
                group=self.group,
                consumer_id=self.consumer_id,
                backoff=Backoff(first_ms=50, longest_ms=1_000),
                patience_ms=patience_ms,
                handover_ms=handover_ms,
                recheck_ms=recheck_ms,
            )
            session.on_change(rebalancer.trigger)
            registry.watch(self.group, rebalancer.trigger)
            topics.watch(rebalancer.trigger)
            fetching = FetchLoop(state, self._fetcher, reset_to=self._reset_to, name=self.consumer_id)
            fetching.start()
            self._lifecycle.started("fetching", fetching.stop)
            rebalancer.start()
            self._lifecycle.started("rebalancing", rebalancer.stop)
        except BaseException:
            self._closed = True
            state.stop()
            self._lifecycle.stop()
            raise
        log.info("consumer_joined", group=self.group, consumer=self.consumer_id, topics=list(self.topics))
        return self

    def stop(self) -> None:
        """End the stream: `stream` ends, `poll` returns None, at once and from any thread. `close` is still to be called."""
        self._state.stop()

    def close(self, timeout_ms: int = 30_000) -> None:
        """Leave the group: end the stream, give the partitions back as at a revocation (callback, commit), end the session.

        From another thread than the iterating one, first that one is waited for, up to `timeout_ms`, to come back for its next
        message. A member that does not close is noticed when its session times out.
        """
        self._state.stop()
        if self._closed:
            return
        idle = self._handing_out.acquire(timeout=timeout_ms / 1000)
        try:
            self._closed = True
            if self._rebalancer is not None:
                self._rebalancer.stop()
                owned = self._state.positions()
                if owned and idle:
                    self._told_revoked(owned)
        finally:
            if idle:
                self._handing_out.release()
            # The session's end takes registration and claims away in one act.
            self._lifecycle.stop()

    def __enter__(self) -> "ZooKeeperConsumer":
        return self if self._rebalancer is not None else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- the stream

    def stream(self, *, idle_timeout_ms: int | None = None) -> Iterator[Message]:
        """Yield messages, waiting for the next as long as it takes; end at `stop` or `close`, or after `idle_timeout_ms` without
        one.

        After an idle end it may be called again. Raises RebalanceFailed, ConsumerIdTaken and whatever a broker refuses for good.
        """
        while True:
            message = self.poll(idle_timeout_ms if idle_timeout_ms is not None else 3_600_000)
            if message is not None:
                yield message
            elif idle_timeout_ms is not None or self._state.is_stopped:
                return

    def poll(self, timeout_ms: int) -> Message | None:
        """Return the next message, or None when none came in `timeout_ms` or the stream has ended. Runs the callbacks."""
        if self._rebalancer is None:
            self.start()
        if not self._handing_out.acquire(blocking=False):
            raise StreamMisused(f"consumer {self.consumer_id!r}: its stream belongs to one thread, and another is in it")
        try:
            return self._next(time.monotonic() + timeout_ms / 1000)
        finally:
            self._handing_out.release()

    def _next(self, deadline: float) -> Message | None:
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

    def _may_deliver(self) -> bool:
        return self._session.is_sure() and self._session.generation == self._state.generation

    def _leave_batch(self) -> None:
        self.settle()
        self._open = None

    def _skip(self, partition: TopicPartition, epoch: int, bad: CorruptRange) -> None:
        log.error(
            "range_skipped",
            topic=partition.topic,
            partition=partition.partition,
            from_offset=bad.from_offset,
            to_offset=bad.to_offset,
            reason=bad.reason,
        )
        if self._on_corrupt is not None:
            self._on_corrupt(partition, bad)
        self._state.moved(partition, epoch, bad.to_offset)

    def _tell(self, notice: Notice) -> None:
        try:
            match notice.kind:
                case NoticeKind.ASSIGNED:
                    if self._on_assigned is not None:
                        self._on_assigned(dict(notice.partitions))
                case NoticeKind.REVOKED:
                    self._told_revoked(notice.partitions)
                case NoticeKind.LOST:
                    self._told_lost(notice.partitions)
        finally:
            self._state.finish(notice)

    def _told_revoked(self, partitions: Collection[TopicPartition]) -> None:
        if not self._may_deliver():
            self._told_lost(partitions)  # not sure to own them: as if they were lost
            return
        if self._open is not None and self._open.partition in partitions:
            self._leave_batch()
        if self._on_revoked is not None:
            self._on_revoked(list(partitions))
        elif self._commit_on_revoke:
            try:
                self.commit({name: at for name, at in self._state.uncommitted().items() if name in partitions})
            except (CoordinationError, PartitionsLost) as error:
                log.warning("commit_at_handover_failed", group=self.group, consumer=self.consumer_id, error=str(error))

    def _told_lost(self, partitions: Collection[TopicPartition]) -> None:
        if self._open is not None and self._open.partition in partitions:
            self._leave_batch()
        log.warning("partitions_lost", group=self.group, consumer=self.consumer_id, count=len(partitions))
        if self._on_lost is not None:
            self._on_lost(list(partitions))

    # ---- positions

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Register how far the group has read: durable on return. None means all that was handed out, the latest message
        included.

        Raises PartitionsLost when partitions are gone that the application has not been told of (nothing is committed then),
        ConnectionUnsure (retriable).
        """
        due = self._state.uncommitted() if offsets is None else dict(offsets)
        if self._state.has_untold_loss() or (due and self._session.generation != self._state.generation):
            raise PartitionsLost(self.group, self.consumer_id)
        if not due:
            return
        try:
            offsets_of = {(name.topic, name.partition): offset for name, offset in due.items()}
            OffsetRegistry(self._session).put_many(self.group, offsets_of, only_while_registered=self.consumer_id)
        except NotRegistered as error:
            raise PartitionsLost(self.group, self.consumer_id) from error
        self._state.committed(due)

    def settle(self) -> None:
        """Tell `on_handed` now of what was handed out of the batch in hand, and not when the batch is done."""
        if self._open is not None and self._on_handed is not None:
            handed = self._open.take_handed()
            if handed is not None:
                self._on_handed(handed)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset` in an owned partition; on the iterating thread. Raises StreamMisused when it is not owned."""
        if self._open is not None and self._open.partition == partition:
            self._leave_batch()
        if not self._state.seek(partition, offset):
            raise StreamMisused(f"seek in {partition.topic}-{partition.partition}: not this consumer's partition now")

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset behind the last message handed out there, or where it begins; None when it is not owned."""
        return self._state.positions().get(partition)

    def positions(self) -> dict[TopicPartition, int]:
        """Return `position` of every owned partition."""
        return self._state.positions()

    @property
    def queued_bytes(self) -> int:
        """Batch bytes fetched and not handed out yet."""
        return self._state.queued_bytes

    @property
    def is_sure(self) -> bool:
        """Whether this member is registered and provably alive in ZooKeeper's eyes."""
        return self._rebalancer is not None and not self._closed and self._session.is_sure()

    @property
    def may_act(self) -> bool:
        """Whether this member provably owns, at this moment, what it was assigned: only then act on messages for others to
        see.
        """
        return self._may_deliver()

    def log_range(self, partition: TopicPartition) -> tuple[int, int]:
        """Return where the partition's log begins and ends now. Raises ClientError."""
        fetcher = Fetcher(self._cluster)
        try:
            return fetcher.offsets({partition: EARLIEST})[partition], fetcher.offsets({partition: LATEST})[partition]
        finally:
            fetcher.close()

    def _starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._asker.offsets(dict.fromkeys(partitions, self._reset_to))
