"""A topic's id: 16 bytes that no other topic has, and no earlier or later topic of the same name. Pure.

It is made of the name and of what ZooKeeper notes once, when the topic's node is created: the number of the transaction and the
time. So every broker reads the same id, topics of earlier releases have one, and none is written anywhere. A topic that is
copied into another ZooKeeper is another topic there, with another id."""

import hashlib
from uuid import UUID


def topic_id(topic: str, *, created_zxid: int, created_ms: int) -> UUID:
    """Return the id of the topic whose node was created so.

    The first bit is 0. Kafka's tools write ids in base64, and one that began with `-` would be read as a flag; nor is it one of
    Kafka's reserved ids (0 and 1).
    """
    digest = hashlib.sha256(f"{created_zxid} {created_ms} {topic}".encode()).digest()
    return UUID(int=int.from_bytes(digest[:16], "big") & (1 << 127) - 1 | 1 << 126)
