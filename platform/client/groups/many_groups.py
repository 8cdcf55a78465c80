"""What many groups have committed, and who coordinates them: one request for each broker, where the broker serves that.

Kafka 3.0 and later, and our broker, answer FindCoordinator (4) and OffsetFetch (8) for many groups at once. An older broker is
asked group by group.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..connection import control_plane
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..consumer.group_requests import topics_asked
from ..errors import ClientError, broker_error
from ..fetch.fetched import TopicPartition

OFFSET_FETCH = 9
OF_ONE, OF_MANY = 5, 8
"""The versions of OffsetFetch that are spoken."""
AT_ONCE = 200
"""Groups of one request."""
MOST_ELEMENTS = 40_000
"""Groups times partitions of one request; our broker reads 50,000."""


class Committed(NamedTuple):
    """A committed offset, and the words beside it."""

    offset: int
    words: str


def by_coordinator(cluster: Cluster, names: Sequence[str], *, lane: str = "control") -> dict[Connection, list[str]]:
    """Return each coordinator with its groups. Raises a broker's refusal."""
    found: dict[Connection, list[str]] = {}
    for some in _runs(names, AT_ONCE):
        for name, coordinator in cluster.coordinators(some, lane=lane).items():
            found.setdefault(coordinator, []).append(name)
    return found


def committed(
    coordinator: Connection, names: Sequence[str], partitions: Sequence[TopicPartition] | None = None
) -> dict[str, dict[TopicPartition, Committed]]:
    """Return what each of these groups of one coordinator has committed: of these partitions, or of all. Raises its refusal."""
    topics = topics_asked(partitions)
    version = coordinator.version(OFFSET_FETCH, OF_ONE, OF_MANY)
    found: dict[str, dict[TopicPartition, Committed]] = {}
    if version < OF_MANY:
        for group in names:
            answer = control_plane.ask(coordinator, (OFFSET_FETCH, OF_ONE), {"group_id": group, "topics": topics})
            found[group] = _offsets(coordinator, group, answer)
        return found
    for some in _runs(names, min(AT_ONCE, max(1, MOST_ELEMENTS // (len(partitions or ()) + 1)))):
        groups = [{"group_id": group, "topics": topics} for group in some]
        answer = control_plane.ask(coordinator, (OFFSET_FETCH, OF_MANY), {"groups": groups, "require_stable": False})
        found |= {one.group_id: _offsets(coordinator, one.group_id, one) for one in answer.groups}
    return found


def _offsets(coordinator: Connection, group: str, answer: Any) -> dict[TopicPartition, Committed]:
    found = {}
    for error in (answer.error_code, *(one.error_code for topic in answer.topics for one in topic.partitions)):
        if error:
            raise _refusal(coordinator, group, int(error))
    for topic in answer.topics:
        for one in topic.partitions:
            if one.committed_offset >= 0:
                found[TopicPartition(topic.name, one.partition_index)] = Committed(int(one.committed_offset), one.metadata or "")
    return found


def _refusal(coordinator: Connection, group: str, code: int) -> ClientError:
    return broker_error(f"OffsetFetch of {group!r} to {coordinator.address}", code)


def _runs(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for begin in range(0, len(names), size):
        yield names[begin : begin + size]


__all__ = ["Committed", "by_coordinator", "committed"]
