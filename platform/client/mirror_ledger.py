"""Reads a mirror's ledger: which offsets of the source are at which offsets of the destination, as far as it is committed."""

from collections.abc import Iterator

from ..wire.batch.record_batch import iter_records
from ..wire.mirror_ledger import LedgerEntry, OriginMap, ledger_topic
from .connection.cluster import Cluster
from .errors import BadAnswer, UnknownTopic
from .fetch.committed import data_batches
from .fetch.fetched import TopicPartition
from .fetch.fetcher import Fetcher
from .fetch.log_offsets import log_range

_MOST_EMPTY = 200
"""Fetches without anything new before the end is there: a transaction of the ledger is being ended."""


class LedgerReader:
    """Reads one mirror's ledger from its beginning on, as often as asked. Not for two threads at once."""

    def __init__(self, cluster: Cluster, mirror: str) -> None:
        self._cluster = cluster
        self._name = TopicPartition(ledger_topic(mirror), 0)
        self._next_offset: int | None = None

    def read(self) -> Iterator[LedgerEntry]:
        """Yield the entries since the last call, up to the ledger's present end; none if there is no ledger yet.

        Entries of a transaction that is not committed are not among them, nor will be what was aborted. Raises ClientError, and
        `NotALedgerEntry`; the next call then continues behind the last message that was yielded whole.
        """
        try:
            start, end = log_range(self._cluster, self._name)
        except UnknownTopic:
            return
        offset = start if self._next_offset is None else max(start, self._next_offset)
        if offset >= end:
            self._next_offset = offset
            return
        fetcher = Fetcher(self._cluster, max_wait_ms=100, partition_max_bytes=4 << 20, is_read_committed=True)
        empty = 0
        try:
            while offset < end:
                (fetched,) = fetcher.fetch({self._name: offset})
                for header, batch in data_batches(fetched.batches, fetched.aborted):
                    for record in iter_records(batch):
                        if record.offset >= offset:
                            yield LedgerEntry.from_json(record.value or b"")
                    self._next_offset = header.next_offset
                if fetched.next_offset > offset:
                    offset, empty = fetched.next_offset, 0
                    self._next_offset = offset
                    continue
                empty += 1
                if empty > _MOST_EMPTY:
                    raise BadAnswer(self._cluster.bootstrap, "Fetch", f"the ledger is at {offset} and ends at {end}")
        finally:
            fetcher.close()


class Origins:
    """Where every batch of a mirror's copies came from, read from its ledger. Not for two threads at once."""

    def __init__(self, cluster: Cluster, mirror: str) -> None:
        self._reader = LedgerReader(cluster, mirror)
        self._maps: dict[TopicPartition, OriginMap] = {}
        self.copied_to: dict[TopicPartition, int] = {}
        """Up to which offset of the *source* each source partition is copied."""
        self.destination_to: dict[TopicPartition, int] = {}
        """Behind the last record copied, by partition of the destination."""

    def refresh(self) -> None:
        """Take in what the mirror has committed since the last call. Raises as `LedgerReader.read`."""
        for entry in self._reader.read():
            name = TopicPartition(entry.destination_topic, entry.partition)
            found = self._maps.setdefault(name, OriginMap())
            for batch in entry.batches:
                found.add(batch)
            self.copied_to[TopicPartition(entry.topic, entry.partition)] = entry.to_offset
            self.destination_to[name] = entry.destination_end

    def of(self, topic: str, partition: int) -> OriginMap:
        """Return the map of a partition of the destination; empty if the mirror wrote nothing there."""
        return self._maps.get(TopicPartition(topic, partition)) or OriginMap()


__all__ = ["LedgerReader", "Origins"]
