"""The same streams in a group of Kafka's own protocol: for a cluster without ZooKeeper, and beside Kafka's own clients.

The group shares partitions out among members, not among streams; a member with four streams counts as one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from ...wire.errors import ErrorCode
from ..connection.cluster import Cluster
from ..consumer import group_requests
from ..consumer.group_consumer import COMMIT_LANE, OTHERS_OWN_THEM
from ..consumer.group_membership import GroupMembership
from ..consumer.message_stream import Callbacks
from ..consumer.partition_holder import PartitionHolder
from ..consumer.zk_errors import PartitionsLost, StreamMisused
from ..errors import BrokerError
from ..fetch.fetched import TopicPartition
from .connector import Connector
from .membership import Membership, Starts
from .settings import ConnectorSettings, place_of, settings_of
from .zookeeper_connector import new_consumer_id


class GroupConnector(Connector):
    """One member of a group; see `Connector`."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *,
        consumer_id: str | None = None,
        settings: ConnectorSettings | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        """Only stores its arguments. The cluster bounds the session's time (`group.min.session.timeout.ms`, Kafka: 6,000)."""
        super().__init__(bootstrap, group, consumer_id or new_consumer_id(), settings or ConnectorSettings(), callbacks)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any], *, callbacks: Callbacks | None = None) -> Self:
        """Return a connector of these settings under Kafka's names; `bootstrap.servers` and `group.id` are needed."""
        settings = settings_of(properties)
        bootstrap, group = place_of(properties, "bootstrap.servers"), place_of(properties, "group.id", "groupid")
        if bootstrap is None or group is None:
            raise StreamMisused("a connector needs bootstrap.servers and group.id")
        return cls(bootstrap, group, consumer_id=place_of(properties, "client.id"), settings=settings, callbacks=callbacks)

    def _join_as(self, subscription: Mapping[str, int]) -> Membership:
        return _Membership(self._cluster, self.group, self.consumer_id, sorted(subscription), self.settings)


class _Membership:
    """`GroupMembership`, as a connector asks for it."""

    def __init__(self, cluster: Cluster, group: str, consumer_id: str, topics: list[str], settings: ConnectorSettings) -> None:
        self._cluster, self._group, self._consumer_id, self._topics = cluster, group, consumer_id, topics
        self._settings = settings
        self._member: GroupMembership | None = None

    def join(
        self, holder: PartitionHolder, starts: Starts, timeout_ms: int, *, on_brokers: Callable[[], None] | None = None
    ) -> None:
        self._member = GroupMembership(
            self._cluster,
            holder,
            starts,
            group=self._group,
            consumer_id=self._consumer_id,
            topics=self._topics,
            session_timeout_ms=self._settings.session_timeout_ms,
            handover_ms=self._settings.handover_ms,
            recheck_ms=self._settings.recheck_ms,
        )

    def begin(self) -> None:
        assert self._member is not None
        self._member.start()

    def stop_sharing(self) -> None:
        if self._member is not None:
            self._member.stop()

    def leave(self) -> None:
        if self._member is not None:
            self._member.leave()

    @property
    def generation(self) -> int:
        return -1 if self._member is None else self._member.generation

    def is_sure(self) -> bool:
        return self._member is not None and self._member.is_sure()

    def commit(self, due: Mapping[TopicPartition, int], generation: int) -> None:
        member = self._member
        assert member is not None
        coordinator = self._cluster.coordinator(self._group, lane=COMMIT_LANE)
        try:
            group_requests.commit_offsets(coordinator, self._group, due, generation=generation, member_id=member.member_id)
        except BrokerError as error:
            if ErrorCode.of(error.code) in OTHERS_OWN_THEM:
                member.lost()
                raise PartitionsLost(self._group, self._consumer_id) from error
            raise
