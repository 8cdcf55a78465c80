"""Where logs begin and end, and the offset of a point in time. Each partition's leader is asked, with one request for each
broker.
"""

from collections.abc import Mapping

from ..connection import control_plane
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..errors import BadAnswer, ClientError, broker_error
from .fetched import TopicPartition

EARLIEST = -2
LATEST = -1


def log_offsets(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return an offset for each partition: of `EARLIEST`, of `LATEST`, or of the first record at or after a timestamp (ms).

    If no record is that young, the offset is the log's end. Raises the first failure; it is retriable when a leader moves.
    """
    found = _asked(cluster, wanted)
    beyond = {partition: LATEST for partition, offset in found.items() if offset < 0}
    if beyond:
        found.update(_asked(cluster, beyond))
    return found


def log_range(cluster: Cluster, partition: TopicPartition) -> tuple[int, int]:
    """Return where the partition's log begins and ends now. Raises as `log_offsets`."""
    return log_offsets(cluster, {partition: EARLIEST})[partition], log_offsets(cluster, {partition: LATEST})[partition]


def _asked(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    by_leader: dict[Connection, dict[tuple[str, int], int]] = {}
    for partition, timestamp in wanted.items():
        by_leader.setdefault(cluster.leader(*partition), {})[partition] = timestamp
    found: dict[TopicPartition, int] = {}
    for leader, asked in by_leader.items():
        try:
            answers = control_plane.ask_offsets(leader, asked)
        except ClientError:
            for topic, _ in asked:
                cluster.forget(topic)
            raise
        for name in asked:
            partition = TopicPartition(*name)
            what = f"ListOffsets of {partition.topic}-{partition.partition} from {leader.address}"
            if name not in answers:
                raise BadAnswer(leader.address, "ListOffsets", f"it leaves out {what}")
            code, offset = answers[name]
            if code:
                cluster.forget(partition.topic)
                raise broker_error(what, code)
            found[partition] = offset
    return found
