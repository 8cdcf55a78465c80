"""Fetch, key 1, versions 4-12: bytes of the log, whole batches, by sendfile. Topic ids (13 and later) are not served.

Traps, each found with real clients:
- Where all data from the fetch offset to the end is damaged, the response is empty and its high watermark is the fetch offset.
With the true one, a client that reads to a known end would wait for ever.
- The response has at least one whole batch, whatever max_bytes says.
- The session id is always 0, as no sessions are kept.
- No batch is made up, not even an empty one."""

from collections.abc import Sequence
from typing import NamedTuple

from ...wire.errors import ErrorCode
from ...wire.messages import fetch
from ...wire.messages.single_partition_fetch import SinglePartitionFetch, offset_in
from ..errors import FrameRefused
from ..event_loop.deferred_response import Chunks, DeferredResponse, Region
from ..log import FolderFault
from ..partitions.partition import Partition
from .broker import Answer, Broker
from .fetch_request_cache import LARGEST_BYTES
from .request import Request

KEY = fetch.API_KEY
COPIED_BYTES = 16 * 1024
"""Records up to this size are copied into the response. It then leaves in one send and wakes its reader once; sendfile's three
calls would cost more than the copy."""
MOST_PARTITIONS = 20_000
"""Of one request. A frame could name 150,000 and keep the loop for seconds. A partition that is named twice counts twice."""


_Asked = fetch.FetchRequest | tuple[SinglePartitionFetch, int]
"""A decoded request, or a cached one with its offset."""


class _Collected(NamedTuple):
    response: fetch.FetchResponse
    size_bytes: int
    must_go: bool
    """Whether an error is in it. Waiting would only hide the error."""
    taken_from: list[tuple[Partition, int]]
    """Each partition that has records in the response, with their size in bytes."""


def handle(broker: Broker, request: Request) -> Answer:
    """Return what the partitions have. A DeferredResponse while that is less than min_bytes and there is time, or while the disk
    is being read. Hot: once a fetch.
    """
    version, body = request.version, request.body
    asked: _Asked
    if len(body) <= LARGEST_BYTES and version <= fetch.MAX_VERSION:
        raw = bytes(body)
        known = broker.fetch_request_cache.get(version, raw)
        if known is not None:
            offset = offset_in(version, raw)
            answer = _answer_one(broker, known, offset) or _wait_at_end(broker, version, known, offset)
            if answer is not None:
                return answer
            decoded, asked = known.at(offset), (known, offset)
        else:
            decoded = asked = fetch.decode_request(version, body)
            broker.fetch_request_cache.learn(version, raw, decoded)
    else:
        decoded = asked = fetch.decode_request(version, body)
        _check_count(decoded)
    wait_ms = min(decoded.max_wait_ms, broker.settings.fetch_max_wait_ms)
    cold = _cold(broker, decoded)
    if cold:
        parked = _Parked(broker, version, asked, decoded.min_bytes, wait_ms)
        if parked.prefetch(cold):
            return parked.deferred
    collected = _collect(broker, decoded)
    if collected.size_bytes >= decoded.min_bytes or collected.must_go or wait_ms <= 0 or not decoded.topics:
        return _chunks(broker, version, collected)
    parked = _Parked(broker, version, asked, decoded.min_bytes - collected.size_bytes, wait_ms)
    return parked.deferred if parked.wait() else _chunks(broker, version, collected)


def _answer_one(broker: Broker, known: SinglePartitionFetch, offset: int) -> Chunks | None:
    """Return the response to a cached fetch, None unless it is plain data that is in memory."""
    partition = broker.partitions.get(known.topic, known.index)
    if partition is None:
        return None
    log, high_watermark = partition.log, partition.high_watermark
    log_start_offset = log.log_start_offset
    if not log_start_offset <= offset < high_watermark:
        return None
    request = known.request
    most_bytes = min(known.partition_max_bytes, request.max_bytes, broker.settings.fetch_max_bytes)
    if most_bytes < 0:
        return None
    cold_reads = broker.cold_reads
    try:
        records = log.read_on(offset, most_bytes, high_watermark)
        if records is None:
            if cold_reads is not None and cold_reads.is_cold(log.region(offset, most_bytes)):
                return None
            records = log.read(offset, most_bytes, high_watermark)
    except FolderFault:
        return None
    if records is None or (size_bytes := records.length) < request.min_bytes:
        return None
    if cold_reads is not None:
        if size_bytes <= COPIED_BYTES:
            copied = cold_reads.copy(records)
            if copied is None:
                return None
            partition.bytes_out += size_bytes
            return (known.head(high_watermark, log_start_offset, size_bytes) + copied + known.tail,)
        if cold_reads.is_cold(records):
            return None
    partition.bytes_out += size_bytes
    head = known.head(high_watermark, log_start_offset, size_bytes)
    return (head, records, known.tail) if known.tail else (head, records)


def _wait_at_end(broker: Broker, version: int, known: SinglePartitionFetch, offset: int) -> DeferredResponse | None:
    """Return the pending response to a cached fetch at the log's end, None for any other."""
    partition = broker.partitions.get(known.topic, known.index)
    if partition is None or offset != partition.high_watermark:
        return None
    request = known.request
    wait_ms = min(request.max_wait_ms, broker.settings.fetch_max_wait_ms)
    if wait_ms <= 0 or request.min_bytes <= 0:
        return None
    parked = _Parked(broker, version, (known, offset), request.min_bytes, wait_ms)
    return parked.deferred if parked.wait_at(1, (partition,)) else None


class _Parked:
    """A fetch that waits until its partitions have shown enough more bytes, or until the bytes that it wants are in memory.

    It tries again once, at the end of the loop's turn in which that happened, however many appends the turn had.
    """

    def __init__(
        self,
        broker: Broker,
        version: int,
        asked: _Asked,
        missing_bytes: int,
        wait_ms: int,
    ) -> None:
        self._broker = broker
        self._version = version
        self._asked = asked
        self._missing_bytes = missing_bytes
        self._is_due = self._is_cold = self._must_go = False
        self._waits_at: Sequence[Partition] = ()
        self._counts_for: int | None = None
        deadline_ms = broker.loop.now_ms + max(0, wait_ms)
        self.deferred = DeferredResponse(deadline_ms=deadline_ms, at_deadline=self._give_up, cancelled=self._leave)

    @property
    def _request(self) -> fetch.FetchRequest:
        asked = self._asked
        return asked if isinstance(asked, fetch.FetchRequest) else asked[0].at(asked[1])

    def wait(self) -> bool:
        """Wait for the partitions. Return False, and do not wait, when parked fetches wait for too many already."""
        find = self._broker.partition_to_read
        named = [find(topic, wanted.index) for topic, partitions in self._request.topics for wanted in partitions]
        return self.wait_at(len(named), [partition for partition in named if partition is not None])

    def wait_at(self, count: int, partitions: Sequence[Partition]) -> bool:
        """Wait for `partitions`: those kept here, of `count` that the request names. Return False, and do not wait, when parked
        fetches wait for too many already. Hot: once a fetch of a consumer at the log's end.
        """
        broker = self._broker
        if broker.fetch_request_cache.parked_partitions + count > broker.settings.parked_partitions_max:
            return False
        broker.metrics.parked_fetches += 1
        broker.fetch_request_cache.parked_partitions += count
        self._counts_for = count
        self._waits_at = partitions
        for partition in partitions:
            partition.wait(self)
        return True

    def prefetch(self, cold: Sequence[Region]) -> bool:
        """Read `cold` into memory, then try again. Return False when no thread can read it now."""
        cold_reads = self._broker.cold_reads
        self._is_cold = cold_reads is not None and cold_reads.prefetch(cold, self._is_warm)
        return self._is_cold

    def shown(self, bytes_more: int) -> None:
        self._missing_bytes -= bytes_more
        if self._missing_bytes <= 0:
            self._look_again()

    def gone(self) -> None:
        self._look_again()

    def _is_warm(self) -> None:
        self._is_cold = False
        if self.deferred.ended:
            return
        request = self._request
        collected = _collect(self._broker, request)
        deadline_ms = self.deferred.deadline_ms or 0
        is_late = self._must_go or self._broker.loop.now_ms >= deadline_ms
        if is_late or collected.size_bytes >= request.min_bytes or collected.must_go:
            self.deferred.complete(_chunks(self._broker, self._version, collected))
        else:
            self._missing_bytes = request.min_bytes - collected.size_bytes
            if not self.wait():
                self.deferred.complete(_chunks(self._broker, self._version, collected))

    def _look_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._broker.loop.at_turn_end(self._look)

    def _look(self) -> None:
        self._is_due = False
        if self.deferred.ended:
            return
        asked = self._asked
        answer = None if isinstance(asked, fetch.FetchRequest) else _answer_one(self._broker, *asked)
        if answer is None:
            request = self._request
            collected = _collect(self._broker, request)
            if collected.size_bytes < request.min_bytes and not collected.must_go:
                # The new bytes lie beyond what this fetch may take, or at offsets that it did not ask for.
                self._missing_bytes = request.min_bytes - collected.size_bytes
                return
            answer = _chunks(self._broker, self._version, collected)
        self._leave()
        self.deferred.complete(answer)

    def _give_up(self) -> Chunks | None:
        if self._is_cold:
            self._must_go = True
            return None
        self._leave()
        return _chunks(self._broker, self._version, _collect(self._broker, self._request))

    def _leave(self) -> None:
        for partition in self._waits_at:
            partition.wait_no_more(self)
        self._waits_at = ()
        if self._counts_for is not None:
            self._broker.metrics.parked_fetches -= 1
            self._broker.fetch_request_cache.parked_partitions -= self._counts_for
            self._counts_for = None


def _check_count(request: fetch.FetchRequest) -> None:
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > MOST_PARTITIONS:
        raise FrameRefused(f"a fetch from {count} partitions where {MOST_PARTITIONS} are taken: split it", "size")


def _cold(broker: Broker, request: fetch.FetchRequest) -> list[Region]:
    """Return the parts of files that are not in memory and that the response needs."""
    cold_reads = broker.cold_reads
    found: list[Region] = []
    if cold_reads is None:
        return found
    left = min(request.max_bytes, broker.settings.fetch_max_bytes)
    for name, partitions in request.topics:
        for wanted in partitions:
            partition = broker.partition_to_read(name, wanted.index)
            if partition is None or left <= 0:
                continue
            log, offset = partition.log, wanted.fetch_offset
            if log.log_start_offset <= offset < partition.high_watermark:
                try:
                    region = log.region(offset, max(0, min(wanted.partition_max_bytes, left)))
                except FolderFault:
                    continue
                if region is not None:
                    left -= len(region)
                    if cold_reads.is_cold(region):
                        found.append(region)
    return found


def _chunks(broker: Broker, version: int, collected: _Collected) -> Chunks:
    for partition, length in collected.taken_from:
        partition.bytes_out += length
    if collected.must_go:
        for topic in collected.response.topics:
            for answer in topic.partitions:
                if answer.error_code:
                    broker.metrics.api(KEY).error(answer.error_code)
    return fetch.encode_response(version, collected.response)  # type: ignore[return-value]  # bytes, and the log's own slices


def _collect(broker: Broker, request: fetch.FetchRequest) -> _Collected:
    left = min(request.max_bytes, broker.settings.fetch_max_bytes)
    size_bytes, must_go = 0, False
    taken_from = []
    topics = []
    for name, partitions in request.topics:
        answers = []
        for wanted in partitions:
            partition = broker.partition_to_read(name, wanted.index)
            answer = _refusal(broker, name, wanted) if partition is None else _read(partition, wanted, left, size_bytes == 0)
            if answer.error_code:
                must_go = True
            elif partition is not None and answer.records is not None and (length := len(answer.records)) > 0:
                taken_from.append((partition, length))
                size_bytes += length
                left -= length
            answers.append(answer)
        topics.append(fetch.FetchResponseTopic(name, answers))
    return _Collected(fetch.FetchResponse(topics), size_bytes, must_go, taken_from)


def _read(partition: Partition, wanted: fetch.FetchPartition, left: int, is_first: bool) -> fetch.FetchResponsePartition:
    log = partition.log
    high_watermark = partition.high_watermark
    offset = wanted.fetch_offset
    log_start = log.log_start_offset
    if offset < log_start or offset > log.log_end_offset:
        return fetch.FetchResponsePartition(
            wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark, high_watermark, log_start
        )
    try:
        records = log.read(offset, max(0, min(wanted.partition_max_bytes, left)), high_watermark)
    except FolderFault:
        return fetch.FetchResponsePartition(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR, -1)
    if records is None:
        end = min(offset, high_watermark)  # Below the high watermark: everything from here to there is damaged.
        return fetch.FetchResponsePartition(wanted.index, 0, end, end, log_start)
    if not is_first and len(records) > left:
        return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start)
    return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start, records)


def _refusal(broker: Broker, topic: str, wanted: fetch.FetchPartition) -> fetch.FetchResponsePartition:
    return fetch.FetchResponsePartition(wanted.index, broker.not_here(topic, wanted.index), -1)
