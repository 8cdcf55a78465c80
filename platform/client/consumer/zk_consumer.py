"""The paper's consumer: a blocking iterator over a message stream, in a group that coordinates through ZooKeeper alone.

    consumer = ZooKeeperConsumer("127.0.0.1:9092", "127.0.0.1:2181", "group", ["clicks"])
    for message in consumer.stream():
        ...
        consumer.commit()

At least once, and in order within a partition: if an owner ends or loses its session before it commits past a message, the next
owner receives that message again. Who is not sure of its session delivers nothing until it is. This module starts the threads and
joins them. `zk_rebalance` shares out the partitions, `stream_fetching` fills the queue, `message_stream` hands the messages out.
"""

import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence

from ...coordination.session import Session
from ...runtime.logs import get_logger
from ..fetch.fetched import TopicPartition
from .message_stream import Callbacks, OnAssigned, OnCorrupt, OnPartitions
from .stream_consumer import StreamConsumer
from .stream_fetching import FetchLoop
from .stream_message import OnHanded
from .zk_errors import PartitionsLost, StreamMisused
from .zk_membership import OWN_PROTOCOL as OWN_PROTOCOL
from .zk_membership import ZooKeeperMembership
from .zk_rebalance import Rebalancer

log = get_logger(__name__)


class ZooKeeperConsumer(StreamConsumer):
    """One member of a group. Its stream and every callback belong to one thread: the one that iterates."""

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
        stall_ms: int | None = None,
        on_stalled: Callable[[int], None] | None = None,
    ) -> None:
        """Only stores its arguments; `start` (or the first `stream` or `poll`) begins.

        `zookeeper` is `host:port[/chroot]` of the cluster. `queue_bytes` bounds the fetched batches: another fetch is made only
        while at most half of it is filled, and requests at most the other half. `auto_offset_reset` (smallest or largest) says
        where a partition begins that has no registered offset, or whose offset the log does not hold.

        All callbacks run on the iterating thread, between messages. `on_assigned(partition -> begin)` runs before the first
        message of new partitions; it may call `seek`. `on_revoked(partitions)` runs before they are given back; they are still
        owned, so commit what is done. Without it, and with `commit_on_revoke`, everything handed out is committed.
        `on_lost(partitions)` runs when they are gone already. `on_corrupt(partition, range)` runs at the place of a range that
        cannot be handed out. `on_handed(batch range)` runs when a batch has been handed out, or is left midway: every record
        handed out is reported exactly once, with its batch.

        `stall_ms`: a member whose application does not call `alive` for this long leaves the group (`on_stalled(ms)` runs on
        another thread), and joins it again when the application is back. None: it stays, and loses only what others wait for.
        """
        super().__init__(
            bootstrap,
            group,
            topics,
            consumer_id=consumer_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            auto_offset_reset=auto_offset_reset,
            queue_bytes=queue_bytes,
            fetch_wait_ms=fetch_wait_ms,
            callbacks=Callbacks(
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                on_lost=on_lost,
                on_corrupt=on_corrupt,
                on_handed=on_handed,
                on_stalled=on_stalled,
            ),
            commit_on_revoke=commit_on_revoke,
            stall_ms=stall_ms,
        )
        self._membership = ZooKeeperMembership(
            self._cluster,
            zookeeper,
            group=group,
            consumer_id=self.consumer_id,
            subscription=dict.fromkeys(self.topics, 1),
            session_timeout_ms=session_timeout_ms,
            rebalance_patience_ms=rebalance_patience_ms,
            handover_ms=handover_ms,
            recheck_ms=recheck_ms,
            stall=self._stall,
        )
        self._session: Session = self._membership.session

    @property
    def _is_started(self) -> bool:
        return self._rebalancer is not None

    @property
    def _rebalancer(self) -> Rebalancer | None:
        return self._membership.rebalancer

    # ---- life

    def start(self, timeout_ms: int = 30_000) -> "ZooKeeperConsumer":
        """Join the group and return once registered. The topics need not exist, and no broker needs to answer.

        The id of a member that was just killed becomes free when its session times out; `start` waits for that. Raises
        ZooKeeperUnreachable, ConsumerIdTaken, InvalidName, GroupOfKafkaClients.
        """
        if self._rebalancer is not None or self._closed:
            raise StreamMisused(f"consumer {self.consumer_id!r} was started before: make a new one")
        self._lifecycle.started("cluster", self._cluster.close)
        fetching = FetchLoop(self._state, self._fetcher, starts=self._starts, name=self.consumer_id)
        try:
            self._lifecycle.started("membership", self._membership.leave)
            self._membership.join(self._state, self._starts, timeout_ms, on_brokers=fetching.hurry)
            fetching.start()
            self._lifecycle.started("fetching", fetching.stop)
            self._membership.begin()
            self._lifecycle.started("rebalancing", self._membership.stop_sharing)
        except BaseException:
            self._closed = True
            self._state.stop()
            self._lifecycle.stop()
            raise
        log.info("consumer_joined", group=self.group, consumer=self.consumer_id, topics=list(self.topics))
        return self

    def close(self, timeout_ms: int = 30_000) -> None:
        """Leave the group: end the stream, give the partitions back as at a revocation (callback, commit), end the session.

        From another thread than the iterating one, `close` first waits up to `timeout_ms` until that thread asks for its next
        message. The group notices a member that does not close when its session times out.
        """
        self._state.stop()
        if self._closed:
            return
        idle = self._handing_out.acquire(timeout=timeout_ms / 1000)
        try:
            self._closed = True
            if self._rebalancer is not None:
                self._membership.stop_sharing()
                owned = self._state.positions()
                if owned and idle:
                    self._stream.notify_revoked(owned)
        finally:
            if idle:
                self._handing_out.release()
            # The end of the session removes the registration and the claims together.
            self._lifecycle.stop()

    # ---- positions

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Register how far the group has read: durable on return. None means all that was handed out, the latest message
        included.

        Raises PartitionsLost if partitions are lost and the application was not notified yet (then nothing is committed),
        ConnectionUnsure (retriable).
        """
        due = self._state.uncommitted() if offsets is None else dict(offsets)
        if self._state.has_unreported_loss() or (due and self._session.generation != self._state.generation):
            raise PartitionsLost(self.group, self.consumer_id)
        if not due:
            return
        self._membership.commit(due, self._state.generation)
        self._state.committed(due)

    @property
    def is_sure(self) -> bool:
        """Whether this member is registered and ZooKeeper provably considers it alive."""
        return self._rebalancer is not None and not self._closed and self._membership.is_sure()

    def _may_deliver(self) -> bool:
        return self._membership.is_sure() and self._session.generation == self._state.generation
