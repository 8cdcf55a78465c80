"""Recovery of a partition none of whose in-sync replicas has what was acknowledged. Only brokers of this platform describe it."""

from ..wire.errors import ErrorCode, WireError
from ..wire.messages import control, describe_recovery
from ..wire.messages.describe_recovery import Response
from .cluster_kind import is_headrace
from .connection.cluster import Cluster
from .errors import BadAnswer, broker_error

ELECT_LEADERS, UNCLEAN = 43, 1
WITH_ELECTION_TYPE = 1
"""The version of ElectLeaders."""


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
    """Have the best replica lead, although acknowledged records are lost. Raises the broker's refusal."""
    connection = cluster.controller()
    version = connection.version(ELECT_LEADERS, WITH_ELECTION_TYPE, 2)
    wanted = [{"topic": topic, "partitions": [partition]}]
    message = {"election_type": UNCLEAN, "topic_partitions": wanted, "timeout_ms": timeout_ms}
    encoded = control.encode_request(ELECT_LEADERS, version, message)
    body = connection.request(ELECT_LEADERS, version, encoded, timeout_ms=2 * timeout_ms)
    try:
        answer = control.decode_response(ELECT_LEADERS, version, body)
    except WireError as error:
        raise BadAnswer(connection.address, "ElectLeaders", str(error)) from error
    found = [one for of_topic in answer.replica_election_results for one in of_topic.partition_result]
    code = int(found[0].error_code if found else answer.error_code)
    if code or not found:
        raise broker_error(f"the recovery of {topic}-{partition}", code, found[0].error_message if found else None)
    cluster.forget(topic)
