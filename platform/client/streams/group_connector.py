"""The same streams in a group of Kafka's own protocol: for a cluster without ZooKeeper, and beside Kafka's own clients.

The group shares partitions out among members, not among streams; a member with four streams counts as one.
"""

from collections.abc import Mapping
from typing import Any, Self

from ..consumer.group_membership import GroupMembership
from ..consumer.membership import Membership
from ..consumer.message_stream import Callbacks
from ..consumer.zk_errors import StreamMisused
from .connector import Connector
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
        settings = self.settings
        return GroupMembership(
            self._cluster,
            group=self.group,
            consumer_id=self.consumer_id,
            topics=sorted(subscription),
            session_timeout_ms=settings.session_timeout_ms,
            handover_ms=settings.handover_ms,
            recheck_ms=settings.recheck_ms,
        )
