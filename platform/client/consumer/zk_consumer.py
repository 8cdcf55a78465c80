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
from collections.abc import Mapping, Sequence

from ...coordination.consumers import ConsumerRegistry, OffsetRegistry
from ...coordination.errors import NotRegistered
from ...coordination.session import Session
from ...coordination.topics import TopicRegistry
from ...runtime.backoff import Backoff
from ...runtime.logs import get_logger
from ..connection import control_plane
from ..errors import ClientError
from ..fetch.fetched import TopicPartition
from .message_stream import Callbacks, OnAssigned, OnCorrupt, OnPartitions
from .stream_consumer import StreamConsumer
from .stream_fetching import FetchLoop
from .stream_message import OnHanded
from .zk_errors import GroupOfKafkaClients, PartitionsLost, StreamMisused
from .zk_partitions import SubscribedPartitions
from .zk_rebalance import Rebalancer

log = get_logger(__name__)

OWN_PROTOCOL = "zookeeper"
"""The protocol type under which a broker lists these consumers."""


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
        super().__init__(
            bootstrap,
            group,
            topics,
            consumer_id=consumer_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            auto_offset_reset=auto_offset_reset,
            queue_bytes=queue_bytes,
            fetch_wait_ms=fetch_wait_ms,
            callbacks=Callbacks(
                on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost, on_corrupt=on_corrupt, on_handed=on_handed
            ),
            commit_on_revoke=commit_on_revoke,
        )
        self._session_timeout_ms = session_timeout_ms
        self._limits = (rebalance_patience_ms, handover_ms, recheck_ms)
        self._session = Session(zookeeper, session_timeout_ms=session_timeout_ms, name=f"{group}.{self.consumer_id}")
        self._rebalancer: Rebalancer | None = None
        self._registry: ConsumerRegistry | None = None

    @property
    def _is_started(self) -> bool:
        return self._rebalancer is not None

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

    @property
    def is_sure(self) -> bool:
        """Whether this member is registered and ZooKeeper provably considers it alive."""
        return self._rebalancer is not None and not self._closed and self._session.is_sure()

    def _may_deliver(self) -> bool:
        return self._session.is_sure() and self._session.generation == self._state.generation
