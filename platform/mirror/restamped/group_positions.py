"""How far this mirror has reported to the audit, kept as the committed offsets of a group at the destination.

For clusters without a ZooKeeper of ours. The group has no members: Kafka takes such commits, and so does our broker. Offsets of
the source stand there. Kafka forgets them a week after the last commit; the mirror then counts anew, which changes nothing.
"""

import threading

from ...client.connection.cluster import Cluster
from ...client.errors import BadAnswer, broker_error
from ...wire.errors import WireError
from ...wire.messages import control

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
_VERSIONS = {OFFSET_COMMIT: 5, OFFSET_FETCH: 5}
LANE = "positions"


class GroupPositions:
    """A `PositionBook` (see `audit.publisher`). Every method may be called from any thread."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._known: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()

    def read(self, tier: str, topic: str, partition: int) -> int | None:
        """Return the offset up to which the tier has reported; None when it never has. Raises ClientError."""
        with self._lock:
            known = self._known.get((topic, partition))
        if known is not None:
            return known
        topics = [{"name": topic, "partition_indexes": [partition]}]
        answer = self._ask(OFFSET_FETCH, {"group_id": self._name(tier), "topics": topics})
        if answer.error_code:
            raise broker_error(f"OffsetFetch of group {self._name(tier)!r}", int(answer.error_code))
        found = [int(one.committed_offset) for topic_answer in answer.topics for one in topic_answer.partitions]
        return found[0] if found and found[0] >= 0 else None

    def write(self, tier: str, topic: str, partition: int, offset: int) -> None:
        """Move the position to `offset`. Raises ClientError."""
        with self._lock:
            if self._known.get((topic, partition)) == offset:
                return
        wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        message = {
            "group_id": self._name(tier),
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": topic, "partitions": [wanted]}],
        }
        answer = self._ask(OFFSET_COMMIT, message)
        for topic_answer in answer.topics:
            for one in topic_answer.partitions:
                if one.error_code:
                    raise broker_error(f"OffsetCommit of group {self._name(tier)!r}", int(one.error_code))
        with self._lock:
            self._known[topic, partition] = offset

    def _name(self, tier: str) -> str:
        return f"{self._group}.{tier}"

    def _ask(self, api_key: int, message: dict[str, object]):  # type: ignore[no-untyped-def]
        version = _VERSIONS[api_key]
        group = str(message["group_id"])
        coordinator = self._cluster.coordinator(group, lane=LANE)
        coordinator.version(api_key, version, version)
        body = coordinator.request(api_key, version, control.encode_request(api_key, version, message))
        try:
            return control.decode_response(api_key, version, body)
        except WireError as error:
            raise BadAnswer(coordinator.address, f"API {api_key}", str(error)) from error
