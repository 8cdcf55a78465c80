"""Reads ranges of partitions of one cluster, a request ahead of whoever compares them, and checks each batch's CRC.

Without threads: two of them would hold each other up at every batch (the interpreter's lock), at a third of the pace. The next
request is on its way before a result is handed out, so the broker and the network work while the other side is read and compared.
Damage and what retention deletes meanwhile are part of the result. Restarts of a broker are waited out.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...client.connection.cluster import Cluster
from ...client.errors import OffsetOutOfRange, ReadStalled
from ...client.fetch.committed import data_batches
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.fetcher import Fetcher, PendingFetch
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...wire.batch.record_batch import BatchHeader

FETCH_BYTES = 4 << 20
"""Of one request. Of each cluster one result is held, and one is on its way."""
TIMEOUT_MS = 60_000
"""How long a broker may be away."""

Batch = tuple[BatchHeader, memoryview]


class Job(NamedTuple):
    """One range of one partition."""

    name: TopicPartition
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one fetch brought."""

    batches: Sequence[Batch] = ()
    unreadable: Sequence[tuple[int, int]] = field(default=())
    """Offset ranges whose bytes are damaged."""
    without_data: Sequence[tuple[int, int]] = field(default=())
    """Offset ranges of transaction markers and of aborted batches."""
    expired: tuple[int, int] | None = None
    """Offsets that retention deleted while the comparison ran."""
    to_offset: int = 0


class ReadAhead:
    """Reads the jobs one after another. `chunks` hands out the current one; each must be read to its end."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], *, are_transactions: bool, timeout_ms: int = TIMEOUT_MS) -> None:
        """`are_transactions`: only committed records count as batches (Apache Kafka)."""
        self._jobs = iter(jobs)
        self._are_transactions = are_transactions
        self._timeout_ms = timeout_ms
        self._fetcher = Fetcher(
            cluster,
            max_wait_ms=100,
            max_bytes=FETCH_BYTES,
            partition_max_bytes=FETCH_BYTES,
            is_read_committed=are_transactions,
        )

    def stop(self) -> None:
        """Close the connections."""
        self._fetcher.close()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the next job's chunks. Raises ClientError when a broker was away for too long, and `ReadStalled`."""
        job = next(self._jobs)
        offset, attempt, moved_at, backoff = job.from_offset, 0, time.monotonic(), Backoff()
        pending: PendingFetch | None = None
        while offset < job.to_offset:
            try:
                begun = pending or self._fetcher.begin({job.name: offset})
                pending = None
                (fetched,) = self._fetcher.finish(begun)
            except OffsetOutOfRange as error:
                if error.log_start_offset <= offset:
                    return  # the log has lost its tail since it was asked for its end: what is missing shows
                to_offset = min(error.log_start_offset, job.to_offset)
                yield Chunk(expired=(offset, to_offset), to_offset=to_offset)
                offset = error.log_start_offset
                continue
            except HeadraceError as error:
                if not error.retriable or _waited_ms(moved_at) > self._timeout_ms:
                    raise
                time.sleep(backoff.wait_ms(attempt) / 1000)
                attempt += 1
                continue
            if fetched.next_offset > offset:
                offset, attempt, moved_at = fetched.next_offset, 0, time.monotonic()
                if offset < job.to_offset:
                    pending = self._begun(job.name, offset)
                yield self._chunk(fetched, job)
            elif _end(fetched) <= offset:
                return
            elif _waited_ms(moved_at) > self._timeout_ms:
                raise ReadStalled(*job.name, offset, fetched.high_watermark, self._timeout_ms)
            else:
                time.sleep(backoff.wait_ms(attempt) / 1000)
                attempt += 1

    def _begun(self, name: TopicPartition, offset: int) -> PendingFetch | None:
        try:
            return self._fetcher.begin({name: offset})
        except HeadraceError:
            return None  # the next attempt tells why

    def _chunk(self, fetched: FetchedPartition, job: Job) -> Chunk:
        batches: Sequence[Batch] = fetched.batches
        without_data: list[tuple[int, int]] = []
        if self._are_transactions:
            batches = data_batches(fetched.batches, fetched.aborted)
            kept = {header.base_offset for header, _ in batches}
            without_data = [
                (header.base_offset, header.next_offset)
                for header, _ in fetched.batches
                if header.base_offset not in kept and header.base_offset < job.to_offset
            ]
        if batches and batches[-1][0].base_offset >= job.to_offset:
            batches = [one for one in batches if one[0].base_offset < job.to_offset]
        unreadable = [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt if bad.from_offset < job.to_offset]
        return Chunk(batches, unreadable, without_data, to_offset=min(fetched.next_offset, job.to_offset))


def _end(fetched: FetchedPartition) -> int:
    return fetched.high_watermark if fetched.last_stable_offset < 0 else min(fetched.high_watermark, fetched.last_stable_offset)


def _waited_ms(since: float) -> int:
    return int((time.monotonic() - since) * 1000)
