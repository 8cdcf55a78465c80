"""Keeps, topic by topic, where in live producers may have begun to write whose reports are lost. See `model.checks.unheard`."""

import json
from collections.abc import Mapping

from ....client.fetch.fetched import TopicPartition
from ..store.database import Database

UNHEARD = "unheard:"
"""Begins the name of the fact of a topic: partition → [from, to)."""

Range = tuple[int, int]


def unheard_of(database: Database, topic: str) -> dict[int, Range]:
    """Return partition → offsets of the topic."""
    words = database.fact(UNHEARD + topic)
    return {} if words is None else {int(partition): (start, end) for partition, (start, end) in json.loads(words).items()}


def note_unheard(database: Database, ends: Mapping[TopicPartition, int], heard_to: Mapping[TopicPartition, int]) -> set[str]:
    """Note that reports of programs were lost that began to write to live at or above `heard_to` (without one: from the start
    on) and below `ends`; return the topics. The caller has begun a transaction.
    """
    by_topic: dict[str, dict[int, Range]] = {}
    for name, end in ends.items():
        start = heard_to.get(name, 0)
        if start < end:
            by_topic.setdefault(name.topic, {})[name.partition] = (start, end)
    for topic, ranges in by_topic.items():
        known = unheard_of(database, topic)
        for partition, (start, end) in ranges.items():
            before = known.get(partition, (start, end))
            known[partition] = (min(start, before[0]), max(end, before[1]))
        database.put_fact(UNHEARD + topic, json.dumps(known))
    return by_topic.keys() | set()


def forget_unheard(database: Database, topic: str) -> None:
    """Forget it of a topic that was created again: the new log begins at 0 again."""
    database.delete("facts", name=UNHEARD + topic)


def confirmed_positions(database: Database, heard_all_ms: int | None) -> dict[TopicPartition, int]:
    """Return how far live was read when everything was last heard, of partitions that have not moved since: an id that had
    written there and was not announced then is not an announced producer's.
    """
    confirmed = {}
    rows = database.rows("SELECT topic, partition, position, words FROM logs WHERE tier = 'live'")
    for topic, partition, position, words in rows:
        if heard_all_ms is not None and json.loads(words)["moved_ms"] < heard_all_ms:
            confirmed[TopicPartition(topic, partition)] = position
    return confirmed
