"""Fetch, key 1, versions 4-12: bytes of the log, whole batches, by sendfile. Topic ids (13 and later) are not served.

Traps, each found with real clients (facts/byte_offsets_on_the_kafka_wire.md):
- An answer that is empty because nothing visible exists at or after the fetch offset reports high watermark = the fetch
offset, else librdkafka
  never sees the end of a partition (offsets are bytes: it continues at last record + 1, short of the true end).
- One that is empty because other partitions used up max_bytes reports the true high watermark, else `kcat -e` stops early.
- At least one whole batch is answered, whatever max_bytes says; session id 0 always, as no sessions are kept; no made-up
empty batches."""

from typing import NamedTuple

from ...wire import fetch
from ...wire.errors import ErrorCode
from ..later import Chunks, Later
from ..log import FolderFault
from ..partitions import Partition
from .context import Answer, Context

KEY = fetch.API_KEY


class _Collected(NamedTuple):
    response: fetch.FetchResponse
    size_bytes: int
    must_go: bool
    """An error is in it: waiting would only hide that."""


def handle(context: Context, version: int, body: memoryview, peer: str) -> Answer:
    """Return what the partitions have; a Later while that is less than min_bytes and there is time. Hot: once a fetch."""
    request = fetch.decode_request(version, body)
    collected = _collect(context, request)
    wait_ms = min(request.max_wait_ms, context.settings.fetch_max_wait_ms)
    if collected.size_bytes >= request.min_bytes or collected.must_go or wait_ms <= 0 or not request.topics:
        return _chunks(version, collected)
    return _Parked(context, version, request, collected.size_bytes, context.loop.now_ms + wait_ms).later


class _Parked:
    """A fetch that waits at its partitions until enough more has been shown.

    It is looked at again once at the end of the loop's turn in which that happened, however many appends there were.
    """

    def __init__(self, context: Context, version: int, request: fetch.FetchRequest, has_bytes: int, deadline_ms: int) -> None:
        self._context = context
        self._version = version
        self._request = request
        self._missing_bytes = request.min_bytes - has_bytes
        self._is_due = False
        self._waits_at: list[Partition] = []
        for name, partitions in request.topics:
            for wanted in partitions:
                partition = context.partitions.get(name, wanted.index)
                if partition is not None:
                    partition.wait(self)
                    self._waits_at.append(partition)
        self.later = Later(deadline_ms=deadline_ms, at_deadline=self._give_up, abandoned=self._leave)

    def shown(self, bytes_more: int) -> None:
        self._missing_bytes -= bytes_more
        if self._missing_bytes <= 0:
            self._look_again()

    def gone(self) -> None:
        self._look_again()

    def _look_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._context.loop.at_turn_end(self._look)

    def _look(self) -> None:
        self._is_due = False
        if self.later.ended:
            return
        collected = _collect(self._context, self._request)
        if collected.size_bytes < self._request.min_bytes and not collected.must_go:
            # What was shown lies beyond what this fetch may take, or belongs to others' offsets.
            self._missing_bytes = self._request.min_bytes - collected.size_bytes
            return
        self._leave()
        self.later.complete(_chunks(self._version, collected))

    def _give_up(self) -> Chunks:
        self._leave()
        return _chunks(self._version, _collect(self._context, self._request))

    def _leave(self) -> None:
        for partition in self._waits_at:
            partition.wait_no_more(self)
        self._waits_at.clear()


def _chunks(version: int, collected: _Collected) -> Chunks:
    return fetch.encode_response(version, collected.response)  # type: ignore[return-value]  # bytes, and the log's own slices


def _collect(context: Context, request: fetch.FetchRequest) -> _Collected:
    left = min(request.max_bytes, context.settings.fetch_max_bytes)
    size_bytes, must_go = 0, False
    topics = []
    for name, partitions in request.topics:
        answers = []
        for wanted in partitions:
            partition = context.partitions.get(name, wanted.index)
            answer = _refusal(context, name, wanted) if partition is None else _read(partition, wanted, left, size_bytes == 0)
            if answer.error_code:
                must_go = True
            elif answer.records is not None and (length := len(answer.records)) > 0:
                size_bytes += length
                left -= length
            answers.append(answer)
        topics.append(fetch.FetchResponseTopic(name, answers))
    return _Collected(fetch.FetchResponse(topics), size_bytes, must_go)


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
        return fetch.FetchResponsePartition(wanted.index, 0, offset, offset, log_start)
    if not is_first and len(records) > left:
        return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start)
    return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start, records)


def _refusal(context: Context, topic: str, wanted: fetch.FetchPartition) -> fetch.FetchResponsePartition:
    entry = context.topics.catalog.topics.get(topic)
    is_elsewhere = entry is not None and wanted.index in entry.partitions
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return fetch.FetchResponsePartition(wanted.index, error, -1)
