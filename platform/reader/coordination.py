"""How the members of a group share partitions and remember what they reported to the audit: through the cluster itself, by
Kafka's group protocol, or through ZooKeeper, as the 2011 paper has it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..audit.publisher.range_reporter import PositionBook
from ..client.connection.cluster import Cluster
from ..client.consumer.group_consumer import GroupConsumer
from ..client.consumer.group_positions import GroupPositions
from ..client.consumer.message_stream import Callbacks
from ..client.consumer.stream_consumer import StreamConsumer

FETCH_WAIT_MS = 200
QUEUE_BYTES = 16 << 20
HANDOVER_MS = 30_000


class Coordination(NamedTuple):
    """A consumer that is not started yet, and the store of reported positions, which is started and closed separately."""

    consumer: StreamConsumer
    start_positions: Callable[[], PositionBook]
    close_positions: Callable[[], None]


def coordination_of(
    cluster: Cluster,
    callbacks: Callbacks,
    *,
    bootstrap: str,
    zookeeper: str | None,
    group: str,
    topics: Sequence[str],
    consumer_id: str,
    session_timeout_ms: int,
    queue_bytes: int = QUEUE_BYTES,
    handover_ms: int = HANDOVER_MS,
    stall_ms: int | None = None,
    auto_offset_reset: str = "smallest",
) -> Coordination:
    """Return the coordination of one member; `cluster` is a connection of its own to the cluster that it reads.

    `zookeeper`: `host:port[/chroot]`, or None for Kafka's protocol. `handover_ms`: a member that does not ask for its next
    message for this long loses what others wait for. `stall_ms`: one that is not `alive` for this long leaves the group.
    """
    if zookeeper is None:
        consumer = GroupConsumer(
            bootstrap,
            group,
            topics,
            consumer_id=consumer_id,
            auto_offset_reset=auto_offset_reset,
            queue_bytes=queue_bytes,
            session_timeout_ms=session_timeout_ms,
            handover_ms=handover_ms,
            fetch_wait_ms=FETCH_WAIT_MS,
            on_assigned=callbacks.on_assigned,
            on_revoked=callbacks.on_revoked,
            on_lost=callbacks.on_lost,
            on_corrupt=callbacks.on_corrupt,
            on_stalled=callbacks.on_stalled,
            stall_ms=stall_ms,
            commit_on_revoke=False,
        )
        return Coordination(consumer, lambda: GroupPositions(cluster), lambda: None)
    # Only now: ZooKeeper's client is not part of the light install.
    from ..client.consumer.zk_consumer import ZooKeeperConsumer
    from ..coordination.positions import AuditPositions
    from ..coordination.session import Session

    session = Session(zookeeper, session_timeout_ms=session_timeout_ms, name=f"positions.{consumer_id}")
    paper = ZooKeeperConsumer(
        bootstrap,
        zookeeper,
        group,
        topics,
        consumer_id=consumer_id,
        auto_offset_reset=auto_offset_reset,
        queue_bytes=queue_bytes,
        session_timeout_ms=session_timeout_ms,
        handover_ms=handover_ms,
        fetch_wait_ms=FETCH_WAIT_MS,
        on_assigned=callbacks.on_assigned,
        on_revoked=callbacks.on_revoked,
        on_lost=callbacks.on_lost,
        on_corrupt=callbacks.on_corrupt,
        on_stalled=callbacks.on_stalled,
        stall_ms=stall_ms,
        commit_on_revoke=False,
    )

    def start() -> PositionBook:
        session.start()
        return AuditPositions(session)

    return Coordination(paper, start, session.close)
