"""The paper's connector itself: a member of a group that coordinates through ZooKeeper alone."""

import os
import socket
import uuid
from collections.abc import Mapping
from typing import Any, Self

from ..consumer.membership import Membership
from ..consumer.message_stream import Callbacks
from ..consumer.zk_errors import StreamMisused
from ..consumer.zk_membership import ZooKeeperMembership
from .connector import Connector
from .settings import ConnectorSettings, place_of, settings_of


def new_consumer_id() -> str:
    """Return an id that no other process has."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class ConsumerConnector(Connector):
    """One member of a group; see `Connector`."""

    def __init__(
        self,
        bootstrap: str,
        zookeeper: str,
        group: str,
        *,
        consumer_id: str | None = None,
        settings: ConnectorSettings | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        """Only stores its arguments. `zookeeper` is `host:port[,host:port…][/chroot]` of the cluster. Callbacks run on the thread
        of the stream that they concern, as those of `ZooKeeperConsumer`.
        """
        super().__init__(bootstrap, group, consumer_id or new_consumer_id(), settings or ConnectorSettings(), callbacks)
        self._zookeeper = zookeeper

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any], *, callbacks: Callbacks | None = None) -> Self:
        """Return a connector of these settings under Kafka's names; `zookeeper.connect`, `bootstrap.servers` and `group.id` are
        needed. Raises StreamMisused.
        """
        settings = settings_of(properties)
        zookeeper = place_of(properties, "zookeeper.connect", "zk.connect")
        bootstrap, group = place_of(properties, "bootstrap.servers"), place_of(properties, "group.id", "groupid")
        if zookeeper is None or bootstrap is None or group is None:
            raise StreamMisused("a connector needs zookeeper.connect, bootstrap.servers and group.id")
        consumer_id = place_of(properties, "consumer.id", "consumerid", "client.id")
        return cls(bootstrap, zookeeper, group, consumer_id=consumer_id, settings=settings, callbacks=callbacks)

    def _join_as(self, subscription: Mapping[str, int]) -> Membership:
        settings = self.settings
        return ZooKeeperMembership(
            self._cluster,
            self._zookeeper,
            group=self.group,
            consumer_id=self.consumer_id,
            subscription=subscription,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_patience_ms=settings.rebalance_patience_ms,
            handover_ms=settings.handover_ms,
            recheck_ms=settings.recheck_ms,
        )
