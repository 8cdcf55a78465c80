"""Recovery of partitions that no in-sync replica can lead: all have lost what was acknowledged, or ZooKeeper has lost the node.

Only brokers of this platform describe it."""

from collections.abc import Sequence

from ..wire.errors import ErrorCode, WireError
from ..wire.messages import control, describe_recovery
from ..wire.messages.describe_recovery import Response
from . import topic_admin
from .cluster_kind import is_headrace
from .connection.cluster import Cluster
from .errors import BadAnswer, ClientError, broker_error

ELECT_LEADERS, UNCLEAN, LOSSLESS = 43, 1, 2
WITH_ELECTION_TYPE = 1
"""The version of ElectLeaders."""
TOGETHER = 50
"""Partitions of one request. The broker asks each replica of each one."""


def describe(cluster: Cluster, topic: str, partition: int) -> Response:
    """Return what a recovery would give up, or with an error code why none is due. Raises the broker's refusal."""
    connection = cluster.controller()
    what = f"DescribeRecovery of {topic}-{partition} on {connection.address}"
    if not is_headrace(connection):
        raise broker_error(what, ErrorCode.UNSUPPORTED_VERSION, "only brokers of this platform describe a recovery")
    request = describe_recovery.encode_request(topic, partition)
    body = connection.request(describe_recovery.KEY, describe_recovery.VERSION, request)
    try:
        response = describe_recovery.decode_response(body)
    except WireError as error:
        raise BadAnswer(connection.address, "DescribeRecovery", str(error)) from error
    if response.error_code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise broker_error(what, response.error_code, response.why or None)
    return response


def recover(cluster: Cluster, topic: str, partition: int, *, timeout_ms: int = 30_000) -> None:
    """Have the best replica lead, although acknowledged records may be lost. Raises the broker's refusal."""
    fault = _elect(cluster, UNCLEAN, [(topic, partition)], timeout_ms)[topic, partition]
    if fault is not None:
        raise fault


def recover_without_loss(
    cluster: Cluster, partitions: Sequence[tuple[str, int]], *, timeout_ms: int = 30_000
) -> dict[tuple[str, int], ClientError | None]:
    """Have the best replica of each partition lead, if nothing acknowledged is lost. Return why one does not, None if it does."""
    outcomes: dict[tuple[str, int], ClientError | None] = {}
    for at in range(0, len(partitions), TOGETHER):
        outcomes |= _elect(cluster, LOSSLESS, partitions[at : at + TOGETHER], timeout_ms)
    return outcomes


def describe_all(cluster: Cluster) -> dict[tuple[str, int], Response]:
    """Return the answer for each partition that needs a recovery. Metadata does not tell: an old node may name an old leader."""
    found = {}
    for topic in topic_admin.describe_topics(cluster):
        for one in topic.partitions:
            if len(one.replicas) > 1:
                answer = describe(cluster, topic.name, one.partition)
                if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    found[topic.name, one.partition] = answer
    return found


def _elect(
    cluster: Cluster, kind: int, partitions: Sequence[tuple[str, int]], timeout_ms: int
) -> dict[tuple[str, int], ClientError | None]:
    connection = cluster.controller()
    version = connection.version(ELECT_LEADERS, WITH_ELECTION_TYPE, 2)
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    wanted = [{"topic": topic, "partitions": ids} for topic, ids in topics.items()]
    message = {"election_type": kind, "topic_partitions": wanted, "timeout_ms": timeout_ms}
    encoded = control.encode_request(ELECT_LEADERS, version, message)
    body = connection.request(ELECT_LEADERS, version, encoded, timeout_ms=2 * timeout_ms)
    try:
        answer = control.decode_response(ELECT_LEADERS, version, body)
    except WireError as error:
        raise BadAnswer(connection.address, "ElectLeaders", str(error)) from error
    found = {
        (str(topic.topic), int(one.partition_id)): one
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }
    outcomes: dict[tuple[str, int], ClientError | None] = {}
    for topic, partition in partitions:
        one = found.get((topic, partition))
        code = int(one.error_code if one is not None else answer.error_code)
        is_led = one is not None and not code
        why = None if one is None else one.error_message
        outcomes[topic, partition] = None if is_led else broker_error(f"the recovery of {topic}-{partition}", code, why)
        cluster.forget(topic)
    return outcomes
