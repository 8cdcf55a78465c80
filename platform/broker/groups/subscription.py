"""What consumers send each other through a group: the subscription and the assignment, as far as a broker reads them. Pure.

The group protocol itself treats both as opaque. DescribeGroups, OffsetDelete and a static member's return read the topics.
Source: Kafka's ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json.

    subscription   version int16 · topics: count int32, each a string · user data: int32 length, -1 for none · (later: more)
    assignment     version int16 · count int32, each: topic string, partitions: count int32, each int32 · user data
"""

import struct
from collections.abc import Collection, Mapping

from ...wire.errors import MalformedFrame
from ...wire.primitives import INT, SHORT, count, read_count, read_name, string

CONSUMER = "consumer"
"""The protocol type whose metadata has this layout."""

_VERSION_0 = SHORT.pack(0)
_NO_USER_DATA = INT.pack(-1)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription, None when the bytes are not one."""
    try:
        number, at = read_count(metadata, 2, flexible=False, each=2)
        topics = []
        for _ in range(number):
            topic, at = read_name(metadata, at, flexible=False)
            topics.append(topic)
    except (MalformedFrame, IndexError, struct.error):
        return None
    return frozenset(topics)


def subscription(topics: Collection[str]) -> bytes:
    """Return a subscription to these topics."""
    names = b"".join(string(topic, flexible=False) for topic in sorted(topics))
    return _VERSION_0 + count(len(topics), flexible=False) + names + _NO_USER_DATA


def assignment(partitions: Mapping[str, Collection[int]]) -> bytes:
    """Return an assignment of these partitions by topic."""
    parts = [
        string(topic, flexible=False) + count(len(numbers), flexible=False) + b"".join(map(INT.pack, sorted(numbers)))
        for topic, numbers in sorted(partitions.items())
    ]
    return _VERSION_0 + count(len(parts), flexible=False) + b"".join(parts) + _NO_USER_DATA
