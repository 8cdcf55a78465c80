"""A blocking stream of messages in a group of Kafka's own protocol: what `ZooKeeperConsumer` is on a cluster without ZooKeeper.

    consumer = GroupConsumer("127.0.0.1:9092", "group", ["clicks"])
    for message in consumer.stream():
        ...
        consumer.commit()

At least once, and in order within a partition, as there. Other Kafka clients may be members of the group, if they know the range
assignment. Runs on any Kafka-wire cluster, ours among them.
"""

import os
import socket
import uuid
from collections.abc import Callable, Sequence

from .group_membership import GroupMembership
from .message_stream import Callbacks, OnAssigned, OnCorrupt, OnPartitions
from .stream_consumer import StreamConsumer
from .stream_message import OnHanded


class GroupConsumer(StreamConsumer):
    """One member of a group. Its stream and every callback belong to one thread: the one that iterates."""

    def __init__(
        self,
        bootstrap: str,
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
        handover_ms: int = 30_000,
        recheck_ms: int = 5_000,
        stall_ms: int | None = None,
        on_stalled: Callable[[int], None] | None = None,
    ) -> None:
        """Only stores its arguments; they mean what they mean in `ZooKeeperConsumer`. The cluster bounds `session_timeout_ms`
        (`group.min.session.timeout.ms`, Kafka: 6,000).
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
        self._membership = GroupMembership(
            self._cluster,
            group=group,
            consumer_id=self.consumer_id,
            topics=self.topics,
            session_timeout_ms=session_timeout_ms,
            handover_ms=handover_ms,
            recheck_ms=recheck_ms,
            stall=self._stall,
        )
