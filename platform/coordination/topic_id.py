"""A topic's id: 16 bytes. No other topic has the same id, and no earlier or later topic of the same name. Pure.

The id is a hash of the name and of what ZooKeeper stores when the topic's node is created: the transaction's number and the time.
So every broker computes the same id, topics of earlier releases have one, and no id is stored. Only a topic that was brought into
another ZooKeeper (`backup.py`) has the id that it had in its node, in base64 as in Kafka's: it is the same topic."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def topic_id(topic: str, *, created_zxid: int, created_ms: int) -> UUID:
    """Return the id of a topic, from the creation of its node.

    The first bit is 0: Kafka's tools write ids in base64, and would read one that begins with `-` as a flag. The id is never one
    of Kafka's reserved ids (0 and 1).
    """
    digest = hashlib.sha256(f"{created_zxid} {created_ms} {topic}".encode()).digest()
    return UUID(int=int.from_bytes(digest[:16], "big") & (1 << 127) - 1 | 1 << 126)


def id_word(one: UUID) -> str:
    """Return the id as Kafka's tools write it: 22 characters."""
    return urlsafe_b64encode(one.bytes).decode().rstrip("=")


def id_of_word(word: str) -> UUID | None:
    """Return the id that is written so, None where it is none."""
    try:
        return UUID(bytes=urlsafe_b64decode(f"{word}=="))
    except ValueError:
        return None
