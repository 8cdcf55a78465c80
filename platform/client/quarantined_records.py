"""Reads quarantined records back from the quarantine topics, each one once. Knows nothing of printing."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..runtime.layout import QUARANTINE_SUFFIX
from ..wire.batch.record_batch import iter_records
from ..wire.errors import CorruptBatch
from ..wire.quarantine_record import NotAQuarantineRecord, QuarantineRecord, quarantine_topic
from .connection.cluster import Cluster
from .fetch.fetched import CorruptRange, TopicPartition
from .fetch.log_offsets import log_range
from .fetch.read_range import read_range

REMEMBERED_KEYS = 1_000_000
"""How many origins are remembered, to return each once. A repetition further back than this is returned again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A record in a quarantine topic that is not a quarantine record."""

    topic: str
    partition: int
    offset: int
    reason: str


class SeenKeys:
    """The last `limit` keys that were seen."""

    def __init__(self, limit: int = REMEMBERED_KEYS) -> None:
        self._limit = limit
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def is_new(self, key: bytes) -> bool:
        """Return whether the key is new, and remember it."""
        digest = hashlib.blake2b(key, digest_size=16).digest()
        if digest in self._digests:
            return False
        self._digests[digest] = None
        if len(self._digests) > self._limit:
            self._digests.popitem(last=False)
        return True


def quarantine_topics(cluster: Cluster, topic: str | None = None) -> list[str]:
    """Return the existing quarantine topics: of `topic`, or all."""
    return [
        name
        for name in cluster.topics()
        if (name == quarantine_topic(topic) if topic is not None else name.endswith(QUARANTINE_SUFFIX))
    ]


def read_quarantine(
    cluster: Cluster, topic: str | None = None, *, on_unreadable: Callable[[Unreadable], None]
) -> Iterator[QuarantineRecord]:
    """Yield each quarantined record once, topic by topic, in the order it was written."""
    for name in quarantine_topics(cluster, topic):
        seen = SeenKeys()
        for partition in cluster.partitions(name):
            at = TopicPartition(name, partition)
            # The end at this moment: the next call returns records that arrive later.
            start, end = log_range(cluster, at)
            yield from _of_partition(cluster, at, start, end, seen, on_unreadable)


def _of_partition(
    cluster: Cluster, at: TopicPartition, start: int, end: int, seen: SeenKeys, on_unreadable: Callable[[Unreadable], None]
) -> Iterator[QuarantineRecord]:
    def report(offset: int, reason: str) -> None:
        on_unreadable(Unreadable(topic=at.topic, partition=at.partition, offset=offset, reason=reason))

    def report_range(bad: CorruptRange) -> None:
        report(bad.from_offset, bad.reason)

    for header, batch in read_range(cluster, at.topic, at.partition, start, end, on_corrupt=report_range):
        try:
            for record in iter_records(batch):
                if not start <= record.offset < end:
                    continue
                try:
                    parsed = QuarantineRecord.from_json(record.value or b"")
                except NotAQuarantineRecord as error:
                    report(record.offset, str(error))
                    continue
                if seen.is_new(bytes(record.key) if record.key is not None else parsed.key()):
                    yield parsed
        except CorruptBatch as error:
            report(header.base_offset, str(error))
