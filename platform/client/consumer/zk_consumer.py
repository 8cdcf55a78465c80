"""The paper's consumer: a blocking iterator over a message stream, in a group that coordinates through ZooKeeper alone.

    consumer = ZooKeeperConsumer("127.0.0.1:9092", "127.0.0.1:2181", "group", ["clicks"])
    for message in consumer.stream():
        ...
        consumer.commit()

At least once, and in order within a partition: if an owner ends or loses its session before it commits past a message, the next
owner receives that message again. While its session is not sure, a consumer delivers nothing. This module starts the threads and
joins them. `zk_rebalance` shares out the partitions, `stream_fetching` fills the queue, `message_stream` hands the messages out.
"""

import os
import socket
import uuid
from collections.abc import Callable, Sequence

from .message_stream import Callbacks, OnAssigned, OnCorrupt, OnPartitions
from .stream_consumer import StreamConsumer
from .stream_message import OnHanded
from .zk_membership import OWN_PROTOCOL as OWN_PROTOCOL
from .zk_membership import ZooKeeperMembership


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
        membership = ZooKeeperMembership(
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
        self._membership, self._session = membership, membership.session
