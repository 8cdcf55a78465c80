"""How the service's processes share partitions and remember what they told the audit: through ZooKeeper, or through the cluster
itself where it has none (Apache Kafka).
"""

from collections.abc import Callable
from typing import NamedTuple

from ...audit.publisher.range_reporter import PositionBook
from ...client.connection.cluster import Cluster
from ...client.consumer.group_consumer import GroupConsumer
from ...client.consumer.group_positions import GroupPositions
from ...client.consumer.message_stream import Callbacks
from ...client.consumer.stream_consumer import StreamConsumer
from ...client.consumer.zk_consumer import ZooKeeperConsumer
from ...coordination.positions import AuditPositions
from ...coordination.session import Session
from .settings import RequestRateSettings

FETCH_WAIT_MS = 200


class Coordination(NamedTuple):
    """A consumer that is not started yet, and the book of what was told, which is started and closed by itself."""

    consumer: StreamConsumer
    start_positions: Callable[[], PositionBook]
    close_positions: Callable[[], None]


def coordination_of(settings: RequestRateSettings, live: Cluster, callbacks: Callbacks) -> Coordination:
    """Return the coordination of one process; `live` is the cluster it reads."""
    if settings.zookeeper is None:
        consumer = GroupConsumer(
            settings.bootstrap,
            settings.group,
            [settings.topic],
            consumer_id=settings.consumer_id,
            session_timeout_ms=settings.session_timeout_ms,
            fetch_wait_ms=FETCH_WAIT_MS,
            on_assigned=callbacks.on_assigned,
            on_revoked=callbacks.on_revoked,
            on_lost=callbacks.on_lost,
            on_corrupt=callbacks.on_corrupt,
            commit_on_revoke=False,
        )
        return Coordination(consumer, lambda: GroupPositions(live), lambda: None)
    session = Session(
        settings.zookeeper, session_timeout_ms=settings.session_timeout_ms, name=f"positions.{settings.consumer_id}"
    )
    paper = ZooKeeperConsumer(
        settings.bootstrap,
        settings.zookeeper,
        settings.group,
        [settings.topic],
        consumer_id=settings.consumer_id,
        session_timeout_ms=settings.session_timeout_ms,
        fetch_wait_ms=FETCH_WAIT_MS,
        on_assigned=callbacks.on_assigned,
        on_revoked=callbacks.on_revoked,
        on_lost=callbacks.on_lost,
        on_corrupt=callbacks.on_corrupt,
        commit_on_revoke=False,
    )

    def start() -> PositionBook:
        session.start()
        return AuditPositions(session)

    return Coordination(paper, start, session.close)
