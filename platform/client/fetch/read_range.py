"""Read a whole range of one partition, across restarts of the broker."""

import time
from collections.abc import Callable, Iterator

from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...wire.batch.record_batch import BatchHeader
from ..connection.cluster import Cluster
from ..errors import CorruptRead, ReadStalled
from .fetched import CorruptRange, TopicPartition
from .fetcher import Fetcher


def read_range(
    cluster: Cluster,
    topic: str,
    partition: int,
    from_offset: int,
    to_offset: int,
    *,
    on_corrupt: Callable[[CorruptRange], None] | None = None,
    timeout_ms: int = 60_000,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield every sound, committed batch that overlaps [from_offset, to_offset), in order; end there or at the log's end.

    The first and the last batch may reach beyond the range. Take only the records inside it: then adjacent ranges hold each
    record exactly once. Broker restarts are waited out for `timeout_ms`. A range that fails its check goes to `on_corrupt`;
    without it `CorruptRead` is raised. Raises `OffsetOutOfRange` if the log begins after `from_offset`.
    """
    name = TopicPartition(topic, partition)
    fetcher = Fetcher(cluster, max_wait_ms=100, partition_max_bytes=4 << 20, hides_aborted=True)
    backoff = Backoff()
    try:
        offset, attempt, moved_at = from_offset, 0, time.monotonic()
        while offset < to_offset:
            try:
                fetched = fetcher.fetch({name: offset})[0]
            except HeadraceError as error:
                if not error.retriable or _waited_ms(moved_at) > timeout_ms:
                    raise
                time.sleep(backoff.wait_ms(attempt) / 1000)
                attempt += 1
                continue
            for bad in fetched.corrupt:
                if bad.from_offset < to_offset:
                    if on_corrupt is None:
                        raise CorruptRead(topic, partition, bad.from_offset, bad.to_offset, bad.reason)
                    on_corrupt(bad)
            begin = offset
            for header, batch in fetched.batches:
                begin = max(begin, header.position)
                if begin >= to_offset:
                    return
                if header.next_offset > begin:
                    yield header, batch
                    begin = header.next_offset
            if fetched.next_offset > offset:
                offset, attempt, moved_at = fetched.next_offset, 0, time.monotonic()
            elif fetched.high_watermark <= offset:
                return
            elif _waited_ms(moved_at) > timeout_ms:
                raise ReadStalled(topic, partition, offset, fetched.high_watermark, timeout_ms)
            else:
                time.sleep(backoff.wait_ms(attempt) / 1000)
                attempt += 1
    finally:
        fetcher.close()


def _waited_ms(since: float) -> int:
    return int((time.monotonic() - since) * 1000)
