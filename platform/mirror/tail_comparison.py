"""Compares both logs where the copy continues: their ends, and the destination's last batch with the source's at that offset.

A source that lost its tail and was written to again may end after the destination. Only the bytes show the difference. Costs six
requests for any number of partitions, each time copying begins.
"""

from collections.abc import Iterator, Mapping

from ..client.connection.cluster import Cluster
from ..client.errors import ClientError, OffsetOutOfRange
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.fetcher import Fetcher
from ..client.fetch.log_offsets import EARLIEST, LATEST, log_offsets_or_errors
from ..client.fetch.read_range import read_range
from ..errors import HeadraceError
from ..wire.batch.record_batch import BatchHeader
from .partition_copy import Ends, TailComparison

LOOK_BACK_BYTES = 256 * 1024
TIMEOUT_MS = 5_000
TAIL_BYTES = 64 * 1024
"""Of one partition's last batch, where many are read at once."""
MOST_TAIL_BYTES = 8 << 20
"""Of all of them. What does not fit in is read one by one."""


class TailComparer:
    """Two clusters. Used by one thread."""

    def __init__(self, source: Cluster, destination: Cluster) -> None:
        self._source = source
        self._destination = destination
        self._fetchers = tuple(
            Fetcher(cluster, max_wait_ms=0, max_bytes=MOST_TAIL_BYTES, partition_max_bytes=TAIL_BYTES, hides_aborted=True)
            for cluster in (source, destination)
        )

    def ends(self, there: Mapping[TopicPartition, TopicPartition]) -> dict[TopicPartition, Ends | ClientError]:
        """Read where both logs begin and end; `there`: partition → its name in the destination. Four requests for each leader.

        Raises ClientError if a cluster does not answer.
        """
        for cluster, names in ((self._destination, there.values()), (self._source, there.keys())):
            cluster.learn({name.topic for name in names})
        # The destination first. A late request of a dead mirror may append meanwhile; in the other order that would look like a
        # source that lost its tail.
        destination_end = log_offsets_or_errors(self._destination, dict.fromkeys(there.values(), LATEST))
        destination_start = log_offsets_or_errors(self._destination, dict.fromkeys(there.values(), EARLIEST))
        source_start = log_offsets_or_errors(self._source, dict.fromkeys(there, EARLIEST))
        source_end = log_offsets_or_errors(self._source, dict.fromkeys(there, LATEST))
        found: dict[TopicPartition, Ends | ClientError] = {}
        for here, name in there.items():
            offsets = []
            for one in (source_start[here], source_end[here], destination_start[name], destination_end[name]):
                if isinstance(one, ClientError):
                    found[here] = one
                    break
                offsets.append(one)
            else:
                found[here] = Ends(
                    source_start=offsets[0],
                    source_end=offsets[1],
                    destination_start=offsets[2],
                    destination_end=offsets[3],
                )
        return found

    def compare(
        self, wanted: Mapping[TopicPartition, tuple[TopicPartition, Ends]]
    ) -> dict[TopicPartition, TailComparison | HeadraceError]:
        """Compare each destination's last batch with the source's; `wanted`: partition → its name in the destination, both ends.

        One fetch of each cluster brings nearly all of them. Those of which it does not bring the whole batch are read one by one.
        """
        found: dict[TopicPartition, TailComparison | HeadraceError] = {}
        filled = {}
        for name, (there, ends) in wanted.items():
            if ends.destination_start >= ends.destination_end:
                found[name] = TailComparison.UNKNOWN
            else:
                filled[name] = there, ends
        last = {
            name: header
            for name, header in self._tails(
                self._fetchers[1], {there: (name, ends.destination_end - 1) for name, (there, ends) in filled.items()}
            ).items()
            if header.next_offset == filled[name][1].destination_end
        }
        ours = self._tails(
            self._fetchers[0],
            {name: (name, header.position) for name, header in last.items() if header.position >= filled[name][1].source_start},
        )
        for name, (there, ends) in filled.items():
            if name in ours:
                found[name] = _compared(last[name], ours[name])
                continue
            try:
                found[name] = self.compare_one(name, there, start=ends.destination_start, end=ends.destination_end)
            except HeadraceError as error:
                found[name] = error
        return found

    def _tails(
        self, fetcher: Fetcher, wanted: Mapping[TopicPartition, tuple[TopicPartition, int]]
    ) -> dict[TopicPartition, BatchHeader]:
        """Return the first batch at each offset, if one fetch brings it. `wanted`: partition → key in the result, offset."""
        if not wanted:
            return {}
        try:
            fetched = fetcher.fetch({name: offset for name, (_, offset) in wanted.items()})
        except HeadraceError:
            return {}  # each is read by itself, and tells what is wrong with it
        found = {}
        for one in fetched:
            if one.error is None and not one.corrupt and one.batches:
                found[wanted[TopicPartition(one.topic, one.partition)][0]] = one.batches[0][0]
        return found

    def compare_one(self, name: TopicPartition, there: TopicPartition, *, start: int, end: int) -> TailComparison:
        """Compare the destination's last batch in [start, end) with the source's. Raises ClientError."""
        if start >= end:
            return TailComparison.UNKNOWN
        last = _last_batch(self._destination, *there, start, end)
        if last is None:
            return TailComparison.UNKNOWN
        try:
            found = next(_headers(self._source, *name, last.position, last.next_offset), None)
        except OffsetOutOfRange:
            return TailComparison.UNKNOWN
        if found is None:
            # The source cannot serve the range: this proves nothing.
            return TailComparison.UNKNOWN
        return _compared(last, found)


def _compared(last: BatchHeader, found: BatchHeader) -> TailComparison:
    if found.position >= last.next_offset:
        return TailComparison.UNKNOWN
    same = (found.base_offset, found.size_bytes, found.crc) == (last.base_offset, last.size_bytes, last.crc)
    return TailComparison.SAME if same else TailComparison.DIFFERENT


def _last_batch(cluster: Cluster, topic: str, partition: int, start: int, end: int) -> BatchHeader | None:
    """Return the last readable batch before `end`. It nearly always ends there; if not, look further back each time."""
    reach = 1
    while True:
        begin = max(start, end - reach)
        last = None
        for header in _headers(cluster, topic, partition, begin, end):
            last = header
        if last is not None or begin == start:
            return last
        reach = max(LOOK_BACK_BYTES, reach * 8)


def _headers(cluster: Cluster, topic: str, partition: int, begin: int, end: int) -> Iterator[BatchHeader]:
    # Batches that fail their check are skipped: other parts report damage, and it does not show that the logs differ.
    for header, _ in read_range(cluster, topic, partition, begin, end, on_corrupt=lambda bad: None, timeout_ms=TIMEOUT_MS):
        yield header
