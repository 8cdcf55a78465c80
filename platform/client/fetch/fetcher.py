"""Fetch batches from many partitions and brokers at once.

Checks each batch's CRC, once, for all callers. Does not open batches. Works with byte offsets and with dense ones: the next
offset is always `BatchHeader.next_offset`. Keeps no position and no session: the caller does.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from ...wire.errors import ErrorCode, WireError
from ...wire.messages import fetch as wire_fetch
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..errors import BadAnswer, ClientError, OffsetOutOfRange, broker_error
from .committed import visible_end, without_aborted
from .fetched import CorruptRange, FetchedPartition, TopicPartition, parse
from .log_offsets import EARLIEST, log_offsets

LARGEST_PARTITION_BYTES = 64 << 20
"""To find the end of a bad range, a fetch is widened up to this size."""
MOST_PARTITIONS = 10_000
"""Of one request to one broker. Ours takes 20,000, and Kafka's own limit is that of the request's size."""

_lanes = itertools.count()


class _Request(NamedTuple):
    """What one broker was asked, and has not answered yet."""

    leader: Connection
    version: int
    offsets: Mapping[TopicPartition, int]


class PendingFetch(NamedTuple):
    """Requests whose responses were not read yet, one for each leader, and what could not be asked."""

    requests: list[_Request]
    failed: list[FetchedPartition]
    partition_bytes: int
    max_wait_ms: int


class Fetcher:
    """Fetches from any number of partitions, on its own connections. One thread at a time uses it; any thread may `close` it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 8 << 20,
        partition_max_bytes: int = 1 << 20,
        is_read_committed: bool = False,
        hides_aborted: bool = False,
    ) -> None:
        """`is_read_committed`: nothing of open transactions is fetched. What was aborted is, and so are the markers:
        `committed.data_batches` tells them apart. `hides_aborted` (implies it): batches of aborted transactions come as empty
        control batches, and `high_watermark` is where a reader of committed records finds the end.
        """
        self.cluster = cluster
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self.isolation_level = int(is_read_committed or hides_aborted)
        self._hides_aborted = hides_aborted
        self._lane = f"fetch-{next(_lanes)}"
        self._turn = 0

    def fetch(self, wanted: Mapping[TopicPartition, int]) -> list[FetchedPartition]:
        """Return what the brokers hold from each offset on. If they hold nothing, return after about `max_wait_ms`.

        A partition that fails for now (its leader moves) is in the list with its `error` and without batches. If all fail, the
        first error is raised. Raises `OffsetOutOfRange`, and errors that are not retriable, at once. Of more than
        `MOST_PARTITIONS` of one broker, each call reads the next ones in turn, and waits only their share of `max_wait_ms`.
        """
        return self.finish(self.begin(wanted)) if wanted else []

    def begin(self, wanted: Mapping[TopicPartition, int]) -> PendingFetch:
        """Ask and do not wait; `finish` returns what came. One at a time: a later request to the same broker drops this one.
        Raises errors that are not retriable.
        """
        self._turn += 1
        return self._begin(wanted, self.max_wait_ms, self.partition_max_bytes)

    def finish(self, pending: PendingFetch) -> list[FetchedPartition]:
        """Wait for what was begun. Returns and raises as `fetch`."""
        fetched = list(pending.failed)
        for leader, version, offsets in pending.requests:
            try:
                answer = self._answer(leader, version, pending.max_wait_ms)
            except ClientError as error:
                fetched += [self._failed(partition, offset, error) for partition, offset in offsets.items()]
                continue
            fetched += self._partitions_of(leader, answer, offsets, pending.partition_bytes)
        if all(one.error is not None for one in fetched):
            raise next(one.error for one in fetched if one.error is not None)
        return fetched

    def close(self) -> None:
        """Close this fetcher's connections, from any thread; a waiting fetch fails."""
        self.cluster.close_lane(self._lane)

    def _begin(self, wanted: Mapping[TopicPartition, int], max_wait_ms: int, partition_bytes: int) -> PendingFetch:
        pending = PendingFetch([], [], partition_bytes, max_wait_ms)
        by_leader: dict[Connection, dict[TopicPartition, int]] = {}
        for partition, offset in wanted.items():
            try:
                leader = self.cluster.leader(*partition, lane=self._lane)
                by_leader.setdefault(leader, {})[partition] = offset
            except ClientError as error:
                pending.failed.append(self._failed(partition, offset, error))
        # Send to all brokers before waiting for the first, so that their long polls run side by side.
        for leader, all_offsets in by_leader.items():
            offsets = self._next_of(all_offsets)
            try:
                wait_ms = max_wait_ms * len(offsets) // len(all_offsets)
                version = self._ask(leader, offsets, wait_ms, partition_bytes)
                pending.requests.append(_Request(leader, version, offsets))
            except ClientError as error:
                pending.failed.extend(self._failed(partition, offset, error) for partition, offset in offsets.items())
        return pending

    def _next_of(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return what one request may ask for: all, or the part whose turn it is."""
        if len(offsets) <= MOST_PARTITIONS:
            return offsets
        turns = -(-len(offsets) // MOST_PARTITIONS)
        begin = self._turn % turns * MOST_PARTITIONS
        return dict(itertools.islice(offsets.items(), begin, begin + MOST_PARTITIONS))

    def _ask(self, leader: Connection, offsets: Mapping[TopicPartition, int], max_wait_ms: int, partition_bytes: int) -> int:
        by_topic: dict[str, list[wire_fetch.FetchPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(wire_fetch.FetchPartition(partition, offset, partition_bytes))
        request = wire_fetch.FetchRequest(
            max_wait_ms,
            self.min_bytes,
            max(self.max_bytes, partition_bytes),
            [wire_fetch.FetchTopic(topic, partitions) for topic, partitions in by_topic.items()],
            isolation_level=self.isolation_level,
        )
        leader.drop_unanswered()
        version = leader.negotiated(wire_fetch.API_KEY, wire_fetch.MIN_VERSION, wire_fetch.MAX_VERSION)
        leader.begin(wire_fetch.API_KEY, version, wire_fetch.encode_request(version, request))
        return version

    def _answer(self, leader: Connection, version: int, max_wait_ms: int) -> wire_fetch.FetchResponse:
        body = leader.finish(timeout_ms=self.cluster.request_timeout_ms + max_wait_ms)
        try:
            answer = wire_fetch.decode_response(version, body)
        except WireError as error:
            raise BadAnswer(leader.address, "Fetch", str(error)) from error
        if answer.error_code:
            raise broker_error(f"Fetch from {leader.address}", answer.error_code)
        return answer

    def _partitions_of(
        self, leader: Connection, answer: wire_fetch.FetchResponse, offsets: Mapping[TopicPartition, int], partition_bytes: int
    ) -> list[FetchedPartition]:
        fetched = []
        answered = {
            TopicPartition(topic.name, partition.index): partition for topic in answer.topics for partition in topic.partitions
        }
        for name, offset in offsets.items():
            part = answered.get(name)
            if part is None:
                error: ClientError = BadAnswer(leader.address, "Fetch", f"it leaves out {name.topic}-{name.partition}")
                fetched.append(self._failed(name, offset, error))
            elif part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                start = part.log_start_offset if part.log_start_offset >= 0 else log_offsets(self.cluster, {name: EARLIEST})[name]
                raise OffsetOutOfRange(*name, offset, start)
            elif part.error_code:
                error = broker_error(f"Fetch of {name.topic}-{name.partition} from {leader.address}", part.error_code)
                fetched.append(self._failed(name, offset, error))
            else:
                fetched.append(self._partition_of(name, offset, part, partition_bytes))
        return fetched

    def _partition_of(
        self, name: TopicPartition, offset: int, part: wire_fetch.FetchResponsePartition, partition_bytes: int
    ) -> FetchedPartition:
        records = part.records if isinstance(part.records, memoryview) else memoryview(b"")
        batches, corrupt, tail = parse(records, offset)
        end = visible_end(part.high_watermark, part.last_stable_offset) if self._hides_aborted else part.high_watermark
        is_stuck = tail is not None and not batches and not corrupt
        if corrupt or is_stuck:
            is_first_look = partition_bytes == self.partition_max_bytes
            bigger = partition_bytes * 4
            if (is_first_look or (is_stuck and len(records) >= partition_bytes)) and bigger <= LARGEST_PARTITION_BYTES:
                # Fetch again, and further. The damage may have happened on the network and not in the log, and only the bytes
                # after it show where it ends.
                return self.finish(self._begin({name: offset}, 0, bigger))[0]
        if tail is not None and is_stuck:
            believable = tail.from_offset < tail.to_offset <= end
            bad_end = tail.to_offset if believable else max(end, tail.from_offset + 1)
            corrupt = [CorruptRange(from_offset=tail.from_offset, to_offset=bad_end, reason=tail.reason)]
        return FetchedPartition(
            topic=name.topic,
            partition=name.partition,
            requested_offset=offset,
            high_watermark=end,
            log_start_offset=part.log_start_offset,
            batches=without_aborted(batches, part.aborted) if self._hides_aborted else batches,
            corrupt=corrupt,
            last_stable_offset=part.last_stable_offset,
            aborted=tuple(part.aborted or ()),
        )

    def _failed(self, name: TopicPartition, offset: int, error: ClientError) -> FetchedPartition:
        if not error.retriable:
            raise error
        self.cluster.forget(name.topic)
        return FetchedPartition(
            topic=name.topic,
            partition=name.partition,
            requested_offset=offset,
            high_watermark=-1,
            log_start_offset=-1,
            error=error,
        )
