"""OffsetCommit version 1, read by hand: kio begins at 2, and librdkafka wants 1 advertised. Pure.

Source: Kafka's OffsetCommitRequest.json. The answer is version 2's, byte for byte.

    group id string · generation int32 · member id string · topics: count int32, each
        name string · partitions: count int32, each
            partition int32 · offset int64 · commit time int64, ms, not kept · metadata nullable string
"""

import struct
from typing import Any

from .errors import MalformedFrame
from .primitives import INT, Body, read_count, read_name, read_string

ANSWERED_AS = 2
"""The version whose answer is the same."""

_PLACE = struct.Struct(">iqq")
_SMALLEST_PARTITION = _PLACE.size + 2
_SMALLEST_TOPIC = 2 + 4


def decode(body: Body) -> dict[str, Any]:
    """Return the request's fields by Kafka's names, without commit times. Raises `MalformedFrame`."""
    try:
        group_id, at = read_name(body, 0, flexible=False)
        generation, at = INT.unpack_from(body, at)[0], at + 4
        member_id, at = read_name(body, at, flexible=False)
        number, at = read_count(body, at, flexible=False, each=_SMALLEST_TOPIC)
        topics = []
        for _ in range(number):
            topic, at = _topic(body, at)
            topics.append(topic)
    except (struct.error, IndexError):
        raise MalformedFrame(f"an OffsetCommit v1 of {len(body)} bytes is cut") from None
    return {"group_id": group_id, "generation_id_or_member_epoch": generation, "member_id": member_id, "topics": topics}


def _topic(body: Body, at: int) -> tuple[dict[str, Any], int]:
    name, at = read_name(body, at, flexible=False)
    number, at = read_count(body, at, flexible=False, each=_SMALLEST_PARTITION)
    partitions = []
    for _ in range(number):
        index, offset, _commit_time_ms = _PLACE.unpack_from(body, at)
        metadata, at = read_string(body, at + _PLACE.size, flexible=False)
        partitions.append({"partition_index": index, "committed_offset": offset, "committed_metadata": metadata})
    return {"name": name, "partitions": partitions}, at
