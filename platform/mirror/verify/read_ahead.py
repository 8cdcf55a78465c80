"""Reads ranges of partitions of one cluster on a thread of its own, a bounded part ahead of whoever compares them.

The thread checks each batch's CRC, which lets the other side's thread run. Damage and what retention deletes meanwhile are part
of the result. Restarts of a broker are waited out.
"""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...client.connection.cluster import Cluster
from ...client.errors import BrokerUnreachable, OffsetOutOfRange, ReadStalled
from ...client.fetch.committed import data_batches
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.fetcher import Fetcher
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...wire.batch.record_batch import BatchHeader

FETCH_BYTES = 4 << 20
CHUNKS_AHEAD = 2
"""Fetches that wait to be compared. With the one being read and the one being compared, 16 MiB a cluster."""
TIMEOUT_MS = 60_000
"""How long a broker may be away."""
_POLL_S = 0.2

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
    expired: tuple[int, int] | None = None
    """Offsets that retention deleted while the comparison ran."""
    to_offset: int = 0


class ReadAhead:
    """Reads the jobs one after another. `chunks` hands out the current one; each must be read to its end."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], *, are_transactions: bool, timeout_ms: int = TIMEOUT_MS) -> None:
        """`are_transactions`: only committed records count as batches (Apache Kafka)."""
        self._jobs = jobs
        self._are_transactions = are_transactions
        self._timeout_ms = timeout_ms
        self._fetcher = Fetcher(
            cluster,
            max_wait_ms=100,
            max_bytes=FETCH_BYTES,
            partition_max_bytes=FETCH_BYTES,
            is_read_committed=are_transactions,
        )
        self._read: queue.Queue[Chunk | BaseException | None] = queue.Queue(CHUNKS_AHEAD)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"verify-{cluster.bootstrap}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._is_stopping.set()
        self._fetcher.close()
        if self._thread.ident is not None:
            self._thread.join(5)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the next job's chunks. Raises what the reading raised."""
        while (found := self._read.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found

    def _run(self) -> None:
        try:
            for job in self._jobs:
                for chunk in self._chunks_of(job):
                    self._put(chunk)
                self._put(None)
        except BaseException as error:  # raised where the chunks are read
            if not self._is_stopping.is_set():
                self._put(error)

    def _put(self, one: Chunk | BaseException | None) -> None:
        while not self._is_stopping.is_set():
            try:
                self._read.put(one, timeout=_POLL_S)
                return
            except queue.Full:
                continue
        raise BrokerUnreachable(self._fetcher.cluster.bootstrap, "Fetch", "the comparison was ended", was_sent=False)

    def _chunks_of(self, job: Job) -> Iterator[Chunk]:
        offset, attempt, moved_at, backoff = job.from_offset, 0, time.monotonic(), Backoff()
        while offset < job.to_offset:
            try:
                (fetched,) = self._fetcher.fetch({job.name: offset})
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
                self._is_stopping.wait(backoff.wait_ms(attempt) / 1000)
                attempt += 1
                continue
            if fetched.next_offset > offset:
                yield self._chunk(fetched, job)
                offset, attempt, moved_at = fetched.next_offset, 0, time.monotonic()
            elif _end(fetched) <= offset:
                return
            elif _waited_ms(moved_at) > self._timeout_ms:
                raise ReadStalled(*job.name, offset, fetched.high_watermark, self._timeout_ms)
            else:
                self._is_stopping.wait(backoff.wait_ms(attempt) / 1000)
                attempt += 1

    def _chunk(self, fetched: FetchedPartition, job: Job) -> Chunk:
        batches: Sequence[Batch] = fetched.batches
        if self._are_transactions:
            batches = data_batches(fetched.batches, fetched.aborted)
        if batches and batches[-1][0].base_offset >= job.to_offset:
            batches = [one for one in batches if one[0].base_offset < job.to_offset]
        unreadable = [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt if bad.from_offset < job.to_offset]
        return Chunk(batches, unreadable, to_offset=min(fetched.next_offset, job.to_offset))


def _end(fetched: FetchedPartition) -> int:
    return fetched.high_watermark if fetched.last_stable_offset < 0 else min(fetched.high_watermark, fetched.last_stable_offset)


def _waited_ms(since: float) -> int:
    return int((time.monotonic() - since) * 1000)
