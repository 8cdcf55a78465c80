"""One process's membership in a group that coordinates through ZooKeeper: its session, its registration, its rebalancing.

What `group_membership` is for Kafka's own protocol. Who holds the partitions, and hands out messages, is the caller's business.
"""

import time
from collections.abc import Callable, Collection, Mapping

from ...coordination.brokers import BrokerRegistry
from ...coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry
from ...coordination.errors import NotRegistered
from ...coordination.session import Session
from ...coordination.topics import TopicRegistry
from ...runtime.backoff import Backoff
from ...runtime.logs import get_logger
from ..connection import control_plane
from ..connection.cluster import Cluster
from ..errors import ClientError
from ..fetch.fetched import TopicPartition
from .partition_holder import PartitionHolder
from .stalled_application import StalledApplication
from .zk_errors import GroupOfKafkaClients, PartitionsLost
from .zk_partitions import SubscribedPartitions
from .zk_rebalance import Rebalancer

log = get_logger(__name__)

OWN_PROTOCOL = "zookeeper"
"""The protocol type under which a broker lists these consumers."""
ADMISSION_MS = 5_000
"""So long a member waits for another one to have asked whether the group has Kafka clients."""


class ZooKeeperMembership:
    """The constructor only stores. `join` registers, `begin` starts sharing out, `stop_sharing` and `leave` end both."""

    def __init__(
        self,
        cluster: Cluster,
        zookeeper: str,
        *,
        group: str,
        consumer_id: str,
        subscription: Mapping[str, int],
        session_timeout_ms: int,
        rebalance_patience_ms: int,
        handover_ms: int,
        recheck_ms: int,
        stall: StalledApplication | None = None,
    ) -> None:
        """`subscription` is topic to number of streams; the limits are those of `Rebalancer`."""
        self._cluster, self._group, self._consumer_id = cluster, group, consumer_id
        self._subscription, self._session_timeout_ms = dict(subscription), session_timeout_ms
        self._limits = (rebalance_patience_ms, handover_ms, recheck_ms)
        self._stall = stall or StalledApplication(None)
        self.session = Session(zookeeper, session_timeout_ms=session_timeout_ms, name=f"{group}.{consumer_id}")
        self.rebalancer: Rebalancer | None = None
        self._is_admitted = False
        self._admission_due: float | None = None

    def join(
        self,
        holder: PartitionHolder,
        starts: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        timeout_ms: int,
        *,
        on_brokers: Callable[[], None] | None = None,
    ) -> None:
        """Register in the group and return; `leave` must follow, also after an error. Nothing is assigned before `begin`.

        `on_brokers` is called after each change of the list of brokers, on the session's thread. The id of a member that was just
        killed becomes free when its session times out, which is waited for. Raises ZooKeeperUnreachable, ConsumerIdTaken,
        InvalidName, GroupOfKafkaClients. Where other members are registered, the last is raised by the stream instead.
        """
        patience_ms, handover_ms, recheck_ms = self._limits
        session = self.session.start(timeout_ms)
        registry = ConsumerRegistry(session)

        def register() -> None:
            registry.register(
                self._group,
                self._consumer_id,
                self._subscription,
                wait_ms=self._session_timeout_ms * 2,
                on_refused=holder.fail,
            )

        register()
        if self._consumer_id == min(registry.ids(self._group), default=self._consumer_id):
            self._refuse_kafka_clients()
        topics = TopicRegistry(session)
        self.rebalancer = rebalancer = Rebalancer(
            session,
            holder,
            SubscribedPartitions(topics, self._cluster, sorted(self._subscription)),
            starts,
            group=self._group,
            consumer_id=self._consumer_id,
            backoff=Backoff(first_ms=50, longest_ms=1_000),
            patience_ms=patience_ms,
            handover_ms=handover_ms,
            recheck_ms=recheck_ms,
            may_share=self._may_share,
            stall=self._stall,
            withdraw=lambda: registry.withdraw(self._group, self._consumer_id),
            register=register,
        )
        session.on_change(rebalancer.trigger)
        registry.watch(self._group, rebalancer.trigger, rest_ms=rebalancer.rest_ms)
        topics.watch(rebalancer.topics_changed)

        def brokers_changed() -> None:
            if on_brokers is not None:
                on_brokers()
            rebalancer.topics_changed()

        BrokerRegistry(session).watch(brokers_changed)

    def begin(self) -> None:
        """Begin to take partitions."""
        if self.rebalancer is not None:
            self.rebalancer.start()

    def stop_sharing(self) -> None:
        """Take no partition any more, and give none back: claims remain until `leave`."""
        if self.rebalancer is not None:
            self.rebalancer.stop()

    def leave(self) -> None:
        """End the session: registration and claims disappear together."""
        self.session.close()

    @property
    def generation(self) -> int:
        """Grows with every lost session, and with it all claims are gone."""
        return self.session.generation

    def is_sure(self) -> bool:
        """Return whether ZooKeeper provably counts this member as alive, and it has not left for the time of a stall."""
        return self.session.is_sure() and (self.rebalancer is None or not self.rebalancer.is_out)

    def commit(self, due: Mapping[TopicPartition, int], generation: int) -> None:
        """Register next offsets, unless this member is not registered any more, or again. Raises PartitionsLost,
        ConnectionUnsure.
        """
        if generation != self.generation:
            raise PartitionsLost(self._group, self._consumer_id)
        try:
            offsets = {(name.topic, name.partition): offset for name, offset in due.items()}
            OffsetRegistry(self.session).put_many(self._group, offsets, only_while_registered=self._consumer_id)
        except NotRegistered as error:
            raise PartitionsLost(self._group, self._consumer_id) from error

    def _may_share(self, members: Collection[str]) -> bool:
        """Return whether it is known that the group has no Kafka clients. Raises GroupOfKafkaClients.

        To describe a group, a broker reads every member and every claim. So one member asks, the first by name. A
        member that sees owned partitions knows that the answer was good. If no partition is taken, each member asks for itself.
        """
        if not self._is_admitted:
            now = time.monotonic()
            self._admission_due = self._admission_due or now + ADMISSION_MS / 1000
            if OwnerRegistry(self.session).has_owners(self._group):
                self._is_admitted = True
            elif self._consumer_id == min(members, default="") or now >= self._admission_due:
                self._refuse_kafka_clients()
        return self._is_admitted

    def _refuse_kafka_clients(self) -> None:
        """Raise GroupOfKafkaClients if the group has Kafka clients as members. This member is registered already, so later ones
        are refused.
        """
        self._is_admitted = True
        try:
            protocol, client_ids = control_plane.ask_group_members(self._cluster.coordinator(self._group), self._group)
        except ClientError as error:
            # Only the group's coordinator knows its members. When that broker is away, they are out of the group.
            log.warning("kafka_clients_not_asked_for", group=self._group, consumer=self._consumer_id, why=str(error))
            return
        if client_ids and protocol != OWN_PROTOCOL:
            raise GroupOfKafkaClients(self._group, self._consumer_id, client_ids)
