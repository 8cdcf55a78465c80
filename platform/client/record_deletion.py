"""Delete the head of partitions' logs. Works on any Kafka-wire cluster."""

from collections.abc import Mapping
from typing import Any

from ..wire.errors import WireError
from ..wire.messages import control
from .connection.cluster import Cluster
from .connection.connection import Connection
from .errors import BadAnswer, broker_error
from .fetch.fetched import TopicPartition

DELETE_RECORDS = 21
_VERSIONS = (0, 1)


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
) -> dict[TopicPartition, int]:
    """Delete each partition's records before an offset; return where the logs begin now. What is deleted already is not a fault.

    Raises the first refusal (an offset behind the high watermark, say); other partitions may be done.
    """
    by_leader: dict[Connection, dict[TopicPartition, int]] = {}
    for place, offset in before.items():
        by_leader.setdefault(cluster.leader(*place), {})[place] = offset
    starts: dict[TopicPartition, int] = {}
    for leader, offsets in by_leader.items():
        for topic in _ask(leader, offsets, timeout_ms).topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    what = f"DeleteRecords of {place.topic}-{place.partition} before {offsets.get(place)} on {leader.address}"
                    raise broker_error(what, int(one.error_code))
                starts[place] = int(one.low_watermark)
    return starts


def _ask(leader: Connection, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> Any:
    version = leader.version(DELETE_RECORDS, *_VERSIONS)
    topics: dict[str, list[dict[str, int]]] = {}
    for place, offset in offsets.items():
        topics.setdefault(place.topic, []).append({"partition_index": place.partition, "offset": offset})
    message = {
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        "timeout_ms": timeout_ms,
    }
    try:
        request = control.encode_request(DELETE_RECORDS, version, message)
        body = leader.request(DELETE_RECORDS, version, request, timeout_ms=2 * timeout_ms)
        return control.decode_response(DELETE_RECORDS, version, body)
    except WireError as error:
        raise BadAnswer(leader.address, "DeleteRecords", str(error)) from error
