"""A topic's id: 16 bytes. No other topic has the same id, and no earlier or later topic of the same name. Pure.

The id is a hash of the name and of what ZooKeeper stores when the topic's node is created: the transaction's number and the time.
So every broker computes the same id, topics of earlier releases have one, and no id is stored. A topic that is copied into
another ZooKeeper has another id there."""

import hashlib
from uuid import UUID


def topic_id(topic: str, *, created_zxid: int, created_ms: int) -> UUID:
    """Return the id of a topic, from the creation of its node.

    The first bit is 0: Kafka's tools write ids in base64, and would read one that begins with `-` as a flag. The id is never one
    of Kafka's reserved ids (0 and 1).
    """
    digest = hashlib.sha256(f"{created_zxid} {created_ms} {topic}".encode()).digest()
    return UUID(int=int.from_bytes(digest[:16], "big") & (1 << 127) - 1 | 1 << 126)
