"""Fetch, key 1, versions 4-12: bytes of the log, whole batches, by sendfile. Topic ids (13 and later) are not served.

Traps, each found with real clients:
- An answer that is empty although data should follow, because all of it up to the end is damaged, reports high watermark = the
fetch offset, else who reads to a known end waits for it for ever.
- At least one whole batch is answered, whatever max_bytes says; session id 0 always, as no sessions are kept; no made-up
empty batches."""

from collections.abc import Sequence
from typing import NamedTuple

from ...wire import fetch
from ...wire.errors import ErrorCode
from ...wire.fetch_one import FetchOne, offset_in
from ..known_fetches import LARGEST_BYTES
from ..later import Chunks, Later, Slice
from ..log import FolderFault
from ..partitions import Partition
from ..refusal import FrameRefused
from .context import Answer, Context

KEY = fetch.API_KEY
COPIED_BYTES = 16 * 1024
"""Up to here records are copied into the answer, which then leaves in one send and wakes its reader once: for so few, sendfile's
three calls cost more than the copy."""
MOST_PARTITIONS = 20_000
"""In one request: a frame could name 150,000, and keep the loop for seconds. One partition named twice counts twice."""


_Asked = fetch.FetchRequest | tuple[FetchOne, int]
"""A request; or what is known of it, and its offset."""


class _Collected(NamedTuple):
    response: fetch.FetchResponse
    size_bytes: int
    must_go: bool
    """An error is in it: waiting would only hide that."""
    taken_from: list[tuple[Partition, int]]
    """Who gives how many bytes."""


def handle(context: Context, version: int, body: memoryview, peer: str) -> Answer:
    """Return what the partitions have; a Later while that is less than min_bytes and there is time, or while what they have is
    being brought into memory. Hot: once a fetch.
    """
    asked: _Asked
    if len(body) <= LARGEST_BYTES and version <= fetch.MAX_VERSION:
        raw = bytes(body)
        known = context.known_fetches.get(version, raw)
        if known is not None:
            offset = offset_in(version, raw)
            answer = _answer_one(context, known, offset) or _wait_at_end(context, version, known, offset)
            if answer is not None:
                return answer
            request, asked = known.at(offset), (known, offset)
        else:
            request = asked = fetch.decode_request(version, body)
            context.known_fetches.learn(version, raw, request)
    else:
        request = asked = fetch.decode_request(version, body)
        _check_count(request)
    wait_ms = min(request.max_wait_ms, context.settings.fetch_max_wait_ms)
    cold = _cold(context, request)
    if cold:
        parked = _Parked(context, version, asked, request.min_bytes, wait_ms)
        if parked.bring(cold):
            return parked.later
    collected = _collect(context, request)
    if collected.size_bytes >= request.min_bytes or collected.must_go or wait_ms <= 0 or not request.topics:
        return _chunks(context, version, collected)
    parked = _Parked(context, version, asked, request.min_bytes - collected.size_bytes, wait_ms)
    return parked.later if parked.wait() else _chunks(context, version, collected)


def _answer_one(context: Context, known: FetchOne, offset: int) -> Chunks | None:
    """Return the answer to a fetch that has come before at other offsets, None when it is not simply data that is in memory."""
    partition = context.partitions.get(known.topic, known.index)
    if partition is None:
        return None
    log, high_watermark = partition.log, partition.high_watermark
    log_start_offset = log.log_start_offset
    if not log_start_offset <= offset < high_watermark:
        return None
    request = known.request
    most_bytes = min(known.partition_max_bytes, request.max_bytes, context.settings.fetch_max_bytes)
    if most_bytes < 0:
        return None
    cold_reads = context.cold_reads
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


def _wait_at_end(context: Context, version: int, known: FetchOne, offset: int) -> Later | None:
    """Return the answer to come of a fetch that has come before and is at the end, None when it is not simply that."""
    partition = context.partitions.get(known.topic, known.index)
    if partition is None or offset != partition.high_watermark:
        return None
    request = known.request
    wait_ms = min(request.max_wait_ms, context.settings.fetch_max_wait_ms)
    if wait_ms <= 0 or request.min_bytes <= 0:
        return None
    parked = _Parked(context, version, (known, offset), request.min_bytes, wait_ms)
    return parked.later if parked.wait_at(1, (partition,)) else None


class _Parked:
    """A fetch that waits at its partitions until enough more has been shown, or for what it wants to be in memory.

    It is looked at again once at the end of the loop's turn in which that happened, however many appends there were.
    """

    def __init__(
        self,
        context: Context,
        version: int,
        asked: _Asked,
        missing_bytes: int,
        wait_ms: int,
    ) -> None:
        self._context = context
        self._version = version
        self._asked = asked
        self._missing_bytes = missing_bytes
        self._is_due = self._is_cold = self._must_go = False
        self._waits_at: Sequence[Partition] = ()
        self._counts_for: int | None = None
        deadline_ms = context.loop.now_ms + max(0, wait_ms)
        self.later = Later(deadline_ms=deadline_ms, at_deadline=self._give_up, abandoned=self._leave)

    @property
    def _request(self) -> fetch.FetchRequest:
        asked = self._asked
        return asked if isinstance(asked, fetch.FetchRequest) else asked[0].at(asked[1])

    def wait(self) -> bool:
        """Wait at the partitions; return False when too many are waited at already."""
        find = self._context.partition_to_read
        named = [find(topic, wanted.index) for topic, partitions in self._request.topics for wanted in partitions]
        return self.wait_at(len(named), [partition for partition in named if partition is not None])

    def wait_at(self, count: int, partitions: Sequence[Partition]) -> bool:
        """Wait at `partitions`, those that are here of `count` that are named; return False when too many are waited at already.

        Hot: once a fetch of who reads along.
        """
        context = self._context
        if context.known_fetches.parked_partitions + count > context.settings.parked_partitions_max:
            return False
        context.metrics.parked_fetches += 1
        context.known_fetches.parked_partitions += count
        self._counts_for = count
        self._waits_at = partitions
        for partition in partitions:
            partition.wait(self)
        return True

    def bring(self, cold: Sequence[Slice]) -> bool:
        """Have `cold` brought into memory and then look; return False when that cannot be had."""
        cold_reads = self._context.cold_reads
        self._is_cold = cold_reads is not None and cold_reads.bring(cold, self._is_warm)
        return self._is_cold

    def shown(self, bytes_more: int) -> None:
        self._missing_bytes -= bytes_more
        if self._missing_bytes <= 0:
            self._look_again()

    def gone(self) -> None:
        self._look_again()

    def _is_warm(self) -> None:
        self._is_cold = False
        if self.later.ended:
            return
        request = self._request
        collected = _collect(self._context, request)
        deadline_ms = self.later.deadline_ms or 0
        is_late = self._must_go or self._context.loop.now_ms >= deadline_ms
        if is_late or collected.size_bytes >= request.min_bytes or collected.must_go:
            self.later.complete(_chunks(self._context, self._version, collected))
        else:
            self._missing_bytes = request.min_bytes - collected.size_bytes
            if not self.wait():
                self.later.complete(_chunks(self._context, self._version, collected))

    def _look_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._context.loop.at_turn_end(self._look)

    def _look(self) -> None:
        self._is_due = False
        if self.later.ended:
            return
        asked = self._asked
        answer = None if isinstance(asked, fetch.FetchRequest) else _answer_one(self._context, *asked)
        if answer is None:
            request = self._request
            collected = _collect(self._context, request)
            if collected.size_bytes < request.min_bytes and not collected.must_go:
                # What was shown lies beyond what this fetch may take, or belongs to others' offsets.
                self._missing_bytes = request.min_bytes - collected.size_bytes
                return
            answer = _chunks(self._context, self._version, collected)
        self._leave()
        self.later.complete(answer)

    def _give_up(self) -> Chunks | None:
        if self._is_cold:
            self._must_go = True
            return None
        self._leave()
        return _chunks(self._context, self._version, _collect(self._context, self._request))

    def _leave(self) -> None:
        for partition in self._waits_at:
            partition.wait_no_more(self)
        self._waits_at = ()
        if self._counts_for is not None:
            self._context.metrics.parked_fetches -= 1
            self._context.known_fetches.parked_partitions -= self._counts_for
            self._counts_for = None


def _check_count(request: fetch.FetchRequest) -> None:
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > MOST_PARTITIONS:
        raise FrameRefused(f"a fetch from {count} partitions where {MOST_PARTITIONS} are taken: split it", "size")


def _cold(context: Context, request: fetch.FetchRequest) -> list[Slice]:
    """Return the parts of files that answering would have to wait for."""
    cold_reads = context.cold_reads
    found: list[Slice] = []
    if cold_reads is None:
        return found
    left = min(request.max_bytes, context.settings.fetch_max_bytes)
    for name, partitions in request.topics:
        for wanted in partitions:
            partition = context.partition_to_read(name, wanted.index)
            if partition is None or left <= 0:
                continue
            log, offset = partition.log, wanted.fetch_offset
            if log.log_start_offset <= offset < partition.high_watermark:
                try:
                    stretch = log.region(offset, max(0, min(wanted.partition_max_bytes, left)))
                except FolderFault:
                    continue
                if stretch is not None:
                    left -= len(stretch)
                    if cold_reads.is_cold(stretch):
                        found.append(stretch)
    return found


def _chunks(context: Context, version: int, collected: _Collected) -> Chunks:
    for partition, length in collected.taken_from:
        partition.bytes_out += length
    if collected.must_go:
        for topic in collected.response.topics:
            for answer in topic.partitions:
                if answer.error_code:
                    context.metrics.api(KEY).error(answer.error_code)
    return fetch.encode_response(version, collected.response)  # type: ignore[return-value]  # bytes, and the log's own slices


def _collect(context: Context, request: fetch.FetchRequest) -> _Collected:
    left = min(request.max_bytes, context.settings.fetch_max_bytes)
    size_bytes, must_go = 0, False
    taken_from = []
    topics = []
    for name, partitions in request.topics:
        answers = []
        for wanted in partitions:
            partition = context.partition_to_read(name, wanted.index)
            answer = _refusal(context, name, wanted) if partition is None else _read(partition, wanted, left, size_bytes == 0)
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
        end = min(offset, high_watermark)  # Less than the high watermark: what follows is damaged up to there.
        return fetch.FetchResponsePartition(wanted.index, 0, end, end, log_start)
    if not is_first and len(records) > left:
        return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start)
    return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start, records)


def _refusal(context: Context, topic: str, wanted: fetch.FetchPartition) -> fetch.FetchResponsePartition:
    return fetch.FetchResponsePartition(wanted.index, context.not_here(topic, wanted.index), -1)
