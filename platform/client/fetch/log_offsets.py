"""Where logs begin and end, and the offset of a point in time. Each partition's leader is asked, with one request for each
broker.
"""

from collections.abc import Mapping

from ..connection import control_plane
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..errors import BadAnswer, BrokerUnreachable, ClientError, UnknownTopic, broker_error
from .fetched import TopicPartition

EARLIEST = -2
LATEST = -1


def log_offsets(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return an offset for each partition: of `EARLIEST`, of `LATEST`, or of the first record at or after a timestamp (ms).

    If no record is that young, the offset is the log's end. Raises the first failure; it is retriable when a leader moves.
    """
    found: dict[TopicPartition, int] = {}
    for name, offset in log_offsets_or_errors(cluster, wanted).items():
        if isinstance(offset, ClientError):
            raise offset
        found[name] = offset
    return found


def log_offsets_or_errors(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ClientError]:
    """Return the same, and for a partition that cannot be asked now the reason. Raises `BrokerUnreachable` if no broker says who
    leads.
    """
    found = _asked(cluster, wanted)
    beyond = {name: LATEST for name, offset in found.items() if not isinstance(offset, ClientError) and offset < 0}
    if beyond:
        found.update(_asked(cluster, beyond))
    return found


def log_range(cluster: Cluster, partition: TopicPartition) -> tuple[int, int]:
    """Return where the partition's log begins and ends now. Raises as `log_offsets`."""
    return log_offsets(cluster, {partition: EARLIEST})[partition], log_offsets(cluster, {partition: LATEST})[partition]


def _asked(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ClientError]:
    found: dict[TopicPartition, int | ClientError] = {}
    by_leader: dict[Connection, dict[tuple[str, int], int]] = {}
    away: dict[str, ClientError] = {}
    """Topics that the cluster does not have: each is asked about once."""
    for partition, timestamp in wanted.items():
        if partition.topic in away:
            found[partition] = away[partition.topic]
            continue
        try:
            by_leader.setdefault(cluster.leader(*partition), {})[partition] = timestamp
        except BrokerUnreachable:
            raise
        except UnknownTopic as error:
            found[partition] = away[partition.topic] = error
        except ClientError as error:
            found[partition] = error
    for leader, asked in by_leader.items():
        try:
            answers = control_plane.ask_offsets(leader, asked)
        except ClientError as error:
            for topic, partition_index in asked:
                cluster.forget(topic)
                found[TopicPartition(topic, partition_index)] = error
            continue
        for name in asked:
            partition = TopicPartition(*name)
            what = f"ListOffsets of {partition.topic}-{partition.partition} from {leader.address}"
            if name not in answers:
                found[partition] = BadAnswer(leader.address, "ListOffsets", f"it leaves out {what}")
                continue
            code, offset = answers[name]
            if code:
                cluster.forget(partition.topic)
                found[partition] = broker_error(what, code)
            else:
                found[partition] = offset
    return found
