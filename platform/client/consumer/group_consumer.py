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
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from ...runtime.logs import get_logger
from ...wire.errors import ErrorCode
from ..errors import BrokerError
from ..fetch.fetched import TopicPartition
from . import group_requests
from .group_membership import GroupMembership
from .message_stream import Callbacks, OnAssigned, OnCorrupt, OnPartitions
from .stream_consumer import StreamConsumer
from .stream_fetching import FetchLoop
from .stream_message import OnHanded
from .zk_errors import PartitionsLost, StreamMisused

log = get_logger(__name__)

COMMIT_LANE = "commit"
OTHERS_OWN_THEM = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


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
            self._state,
            self._starts,
            group=group,
            consumer_id=self.consumer_id,
            topics=self.topics,
            session_timeout_ms=session_timeout_ms,
            handover_ms=handover_ms,
            recheck_ms=recheck_ms,
            stall=self._stall,
        )
        self._has_begun = False

    @property
    def _is_started(self) -> bool:
        return self._has_begun

    def start(self, timeout_ms: int = 30_000) -> Self:
        """Begin to join the group and return at once. Neither the topics nor a broker need to be there."""
        if self._has_begun or self._closed:
            raise StreamMisused(f"consumer {self.consumer_id!r} was started before: make a new one")
        self._has_begun = True
        self._lifecycle.started("cluster", self._cluster.close)
        fetching = FetchLoop(self._state, self._fetcher, starts=self._starts, name=self.consumer_id)
        fetching.start()
        self._lifecycle.started("fetching", fetching.stop)
        self._membership.start()
        return self

    def close(self, timeout_ms: int = 30_000) -> None:
        """Leave the group: end the stream, give the partitions back as at a revocation (callback, commit), tell the group.

        From another thread than the iterating one, `close` first waits up to `timeout_ms` until that thread asks for its next
        message.
        """
        self._state.stop()
        if self._closed:
            return
        idle = self._handing_out.acquire(timeout=timeout_ms / 1000)
        try:
            self._closed = True
            if self._has_begun:
                self._membership.stop()
                owned = self._state.positions()
                if owned and idle:
                    self._stream.notify_revoked(owned)
                self._membership.leave()
        finally:
            if idle:
                self._handing_out.release()
            self._lifecycle.stop()

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit how far the group has read: durable on return. None means all that was handed out, the latest message included.

        Raises PartitionsLost if another member may own the partitions by now (then nothing is committed), and the client's
        errors, retriable while the coordinator moves or is away.
        """
        due = self._state.uncommitted() if offsets is None else dict(offsets)
        generation = self._state.generation
        if self._state.has_unreported_loss() or (due and generation != self._membership.generation):
            raise PartitionsLost(self.group, self.consumer_id)
        if not due:
            return
        coordinator = self._cluster.coordinator(self.group, lane=COMMIT_LANE)
        try:
            group_requests.commit_offsets(
                coordinator, self.group, due, generation=generation, member_id=self._membership.member_id
            )
        except BrokerError as error:
            if ErrorCode.of(error.code) in OTHERS_OWN_THEM:
                self._membership.lost()
                raise PartitionsLost(self.group, self.consumer_id) from error
            raise
        self._state.committed(due)

    @property
    def is_sure(self) -> bool:
        """Whether this member is in the group and its coordinator provably counts it as alive."""
        return not self._closed and self._membership.is_sure()

    def _may_deliver(self) -> bool:
        return self._membership.is_sure() and self._membership.generation == self._state.generation
