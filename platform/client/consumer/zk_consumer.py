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
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType

from ...coordination.consumers import ConsumerRegistry, OffsetRegistry
from ...coordination.errors import CoordinationError, NotRegistered
from ...coordination.session import Session
from ...coordination.topics import TopicRegistry
from ...runtime.backoff import Backoff
from ...runtime.lifecycle import Lifecycle
from ...runtime.logs import get_logger
from ..connection import control_plane
from ..connection.cluster import Cluster
from ..errors import ClientError
from ..fetch.fetched import TopicPartition
from ..fetch.fetcher import Fetcher
from ..fetch.log_offsets import log_offsets, log_range
from .message_stream import Callbacks, MessageStream, OnAssigned, OnCorrupt, OnPartitions
from .stream_fetching import FetchLoop, reset_point
from .stream_message import Message, OnHanded
from .stream_state import StreamState
from .zk_errors import GroupOfKafkaClients, PartitionsLost, StreamMisused
from .zk_partitions import SubscribedPartitions
from .zk_rebalance import Rebalancer

log = get_logger(__name__)

LARGEST_ANSWER_BYTES = 8 << 20
OWN_PROTOCOL = "zookeeper"
"""The protocol type under which a broker lists these consumers."""


class ZooKeeperConsumer:
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
        """
        if not topics:
            raise StreamMisused(f"group {group!r}: no topics given: name at least one")
        self.group, self.topics = group, tuple(sorted(set(topics)))
        self.consumer_id = consumer_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._reset_to = reset_point(auto_offset_reset)
        self._session_timeout_ms = session_timeout_ms
        self._limits = (rebalance_patience_ms, handover_ms, recheck_ms)
        self._session = Session(zookeeper, session_timeout_ms=session_timeout_ms, name=f"{group}.{self.consumer_id}")
        self._cluster = Cluster(bootstrap, client_id=f"{group}.{self.consumer_id}")
        self._state = StreamState(queue_bytes=queue_bytes)
        callbacks = Callbacks(
            on_assigned=on_assigned,
            on_revoked=on_revoked or (self._commit_handed_out if commit_on_revoke else None),
            on_lost=on_lost,
            on_corrupt=on_corrupt,
            on_handed=on_handed,
        )
        name = f"{group}.{self.consumer_id}"
        self._stream = MessageStream(self._state, callbacks, may_deliver=self._may_deliver, name=name)
        answer_bytes = min(LARGEST_ANSWER_BYTES, max(1, queue_bytes // 2))
        self._fetcher = Fetcher(
            self._cluster, max_wait_ms=fetch_wait_ms, max_bytes=answer_bytes, partition_max_bytes=min(1 << 20, answer_bytes)
        )
        self._lifecycle = Lifecycle()
        self._rebalancer: Rebalancer | None = None
        self._registry: ConsumerRegistry | None = None
        self._handing_out = threading.Lock()  # held by the thread that polls
        self._closed = False

    # ---- life

    def start(self, timeout_ms: int = 30_000) -> "ZooKeeperConsumer":
        """Join the group and return once registered. The topics need not exist, and no broker needs to answer.

        The id of a member that was just killed becomes free when its session times out; `start` waits for that. Raises
        ZooKeeperUnreachable, ConsumerIdTaken, InvalidName, GroupOfKafkaClients.
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
            self._refuse_kafka_clients()
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
            fetching = FetchLoop(state, self._fetcher, starts=self._starts, name=self.consumer_id)
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

    def _refuse_kafka_clients(self) -> None:
        """Raise GroupOfKafkaClients if the group has Kafka clients as members. This member is registered already, so later ones
        are refused.
        """
        try:
            protocol, client_ids = control_plane.ask_group_members(self._cluster.coordinator(self.group), self.group)
        except ClientError as error:
            # Only the group's coordinator knows its members. When that broker is away, they are out of the group.
            log.warning("kafka_clients_not_asked_for", group=self.group, consumer=self.consumer_id, why=str(error))
            return
        if client_ids and protocol != OWN_PROTOCOL:
            raise GroupOfKafkaClients(self.group, self.consumer_id, client_ids)

    def stop(self) -> None:
        """End the stream from any thread: `stream` ends and `poll` returns None at once. `close` must still be called."""
        self._state.stop()

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
                self._rebalancer.stop()
                owned = self._state.positions()
                if owned and idle:
                    self._stream.notify_revoked(owned)
        finally:
            if idle:
                self._handing_out.release()
            # The end of the session removes the registration and the claims together.
            self._lifecycle.stop()

    def __enter__(self) -> "ZooKeeperConsumer":
        return self if self._rebalancer is not None else self.start()

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
        if self._rebalancer is None:
            self.start()
        if not self._handing_out.acquire(blocking=False):
            raise StreamMisused(f"consumer {self.consumer_id!r}: its stream belongs to one thread, and another is in it")
        try:
            return self._stream.next(time.monotonic() + timeout_ms / 1000)
        finally:
            self._handing_out.release()

    def _may_deliver(self) -> bool:
        return self._session.is_sure() and self._session.generation == self._state.generation

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
        try:
            offsets_of = {(name.topic, name.partition): offset for name, offset in due.items()}
            OffsetRegistry(self._session).put_many(self.group, offsets_of, only_while_registered=self.consumer_id)
        except NotRegistered as error:
            raise PartitionsLost(self.group, self.consumer_id) from error
        self._state.committed(due)

    def _commit_handed_out(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self.commit({name: at for name, at in self._state.uncommitted().items() if name in partitions})
        except (CoordinationError, PartitionsLost) as error:
            log.warning("commit_at_handover_failed", group=self.group, consumer=self.consumer_id, error=str(error))

    def settle(self) -> None:
        """Call `on_handed` now for the part of the open batch that was handed out, without waiting for the batch's end."""
        self._stream.settle()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset` in an owned partition, on the iterating thread. Raises StreamMisused if it is not owned."""
        if not self._stream.seek(partition, offset):
            raise StreamMisused(f"seek in {partition.topic}-{partition.partition}: not this consumer's partition now")

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
    def is_sure(self) -> bool:
        """Whether this member is registered and ZooKeeper provably considers it alive."""
        return self._rebalancer is not None and not self._closed and self._session.is_sure()

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
