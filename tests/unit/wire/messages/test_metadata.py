"""Metadata answers written by hand, against kio's."""

from uuid import UUID

import pytest

from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control, metadata

NO_OPERATIONS = -(2**31)
ID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
BROKERS = {2: ("b.example", 9_093), 1: ("127.0.0.1", 9_092)}
PLACES: list[metadata.Place] = [
    (0, 1, (1,), None),
    (1, 2, (2, 1), None),
    (2, metadata.NO_LEADER, (7,), None),
    (3, metadata.NO_LEADER, (), None),
    (4, 2, (2, 1, 7), metadata.Standing(9, (2, 1), (7,))),
    (5, metadata.NO_LEADER, (7,), metadata.Standing(3, (7,), (7,))),
    (6, 1, (1,), metadata.Standing(4, (1,), ())),
    (300, 2, (2,), None),
]


def as_kio_writes_it(version: int, cluster_id: str | None) -> bytes:
    def partition(index: int, leader: int, replicas: list[int], standing: metadata.Standing | None) -> dict[str, object]:
        if standing is None:
            standing = metadata.Standing(-1, [leader] if leader >= 0 else [], [] if leader >= 0 else replicas)
        return {
            "error_code": ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": index,
            "leader_id": leader,
            "leader_epoch": standing.leader_epoch,
            "replica_nodes": replicas,
            "isr_nodes": list(standing.in_sync),
            "offline_replicas": list(standing.offline),
        }

    topics = [
        ("clicks", ID, 0, False, [partition(index, leader, list(replicas), known) for index, leader, replicas, known in PLACES]),
        ("_internal", None, 0, True, []),
        ("x" * 200 if version < 12 else None, None, 3, False, []),
    ]
    message = {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": id_, "host": host, "port": port, "rack": None} for id_, (host, port) in sorted(BROKERS.items())],
        "cluster_id": cluster_id,
        "controller_id": 1,
        "topics": [
            {
                "error_code": error,
                "name": name,
                "topic_id": topic_id,
                "is_internal": is_internal,
                "partitions": partitions,
                "topic_authorized_operations": NO_OPERATIONS,
            }
            for name, topic_id, error, is_internal, partitions in topics
        ],
        "cluster_authorized_operations": NO_OPERATIONS,
    }
    return control.encode_response(3, version, message)


@pytest.mark.parametrize("cluster_id", ["a-cluster", None])
@pytest.mark.parametrize("version", range(metadata.HIGHEST + 1))
def test_it_is_byte_for_byte_what_kio_writes(version: int, cluster_id: str | None) -> None:
    topics = [
        metadata.topic(version, "clicks", ErrorCode.NONE, PLACES, topic_id=ID.bytes),
        metadata.topic(version, "_internal", ErrorCode.NONE, is_internal=True),
        metadata.topic(version, "x" * 200 if version < 12 else None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    written = metadata.response(version, brokers=BROKERS, cluster_id=cluster_id, controller_id=1, topics=topics)
    assert written == as_kio_writes_it(version, cluster_id)


@pytest.mark.parametrize("version", range(metadata.HIGHEST + 1))
def test_an_answer_without_topics_is_what_kio_writes(version: int) -> None:
    written = metadata.response(version, brokers={}, cluster_id="c", controller_id=-1, topics=[])
    answer = control.decode_response(3, version, written)
    assert (list(answer.brokers), list(answer.topics)) == ([], [])
