"""One round of Produce to our own brokers: any number of batches of a partition in a request, conditional or not."""

from collections.abc import Mapping, Sequence

from ...client.connection.cluster import Cluster
from ...client.connection.connection import Connection
from ...client.errors import BadAnswer
from ...client.fetch.fetched import TopicPartition
from ...wire.errors import ErrorCode, WireError
from ...wire.messages import produce

LANE = "mirror-append"
ALL_REPLICAS = -1
Pieces = Sequence[bytes | memoryview]


def append(
    cluster: Cluster, work: Mapping[TopicPartition, Pieces], *, conditional_start: int | None
) -> dict[TopicPartition, tuple[int, str | None]]:
    """Return each partition's error code and message once all leaders have answered. Raises ClientError."""
    by_leader: dict[Connection, dict[TopicPartition, Pieces]] = {}
    for name, pieces in work.items():
        by_leader.setdefault(cluster.leader(*name, lane=LANE), {})[name] = pieces
    for leader, mine in by_leader.items():
        by_topic: dict[str, list[produce.ProducePieces]] = {}
        for (topic, partition), pieces in mine.items():
            by_topic.setdefault(topic, []).append(produce.ProducePieces(partition, pieces, conditional_start))
        leader.drop_unanswered()
        leader.negotiated(produce.API_KEY, produce.MAX_VERSION, produce.MAX_VERSION)
        body = produce.encode_pieces(produce.MAX_VERSION, ALL_REPLICAS, leader.timeout_ms, list(by_topic.items()))
        leader.begin(produce.API_KEY, produce.MAX_VERSION, body)
    missing: tuple[int, str | None] = (int(ErrorCode.UNKNOWN_SERVER_ERROR), "the answer leaves it out")
    found = dict.fromkeys(work, missing)
    for leader in by_leader:
        try:
            answer = produce.decode_response(produce.MAX_VERSION, leader.finish())
        except WireError as error:
            leader.close_socket()
            raise BadAnswer(leader.address, "Produce", str(error)) from error
        for answered in answer.topics:
            for one in answered.partitions:
                found[TopicPartition(answered.name, one.index)] = one.error_code, one.error_message
    for name, (code, _) in found.items():
        if code:
            cluster.forget(name.topic)
    return found
