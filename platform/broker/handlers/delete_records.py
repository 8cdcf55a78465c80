"""DeleteRecords, key 21, versions 0-2: deletes a partition's records before an offset; -1 stands for the high watermark.

Whole segments before the new start are deleted. Records before it in the first segment that stays are no longer shown. The
response comes when the new start is on disk. Traps: records that consumers may not see yet cannot be deleted, so the bound is the
high watermark and not the log end. Of two concurrent fdatasyncs of one log, one may report success for bytes that the other lost;
so the flush goes the partition's own way."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..log import DeletedSegment, LogError, StartJob, erase_now
from ..partitions.partition import Fault, Partition
from ..partitions.replicated_partition import ReplicatedPartition
from .broker import Broker, required
from .fan_in import FanIn
from .request import Request

KEY = 21

TO_THE_HIGH_WATERMARK = -1
NOT_KNOWN = -1

Position = tuple[str, int]
Outcome = tuple[ErrorCode, int]
"""The error, and where the log starts now."""


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return each partition's new start."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    results: dict[Position, Outcome] = {}
    wanted_starts: dict[Position, tuple[Partition, int]] = {}
    for topic in required(decoded.topics):
        for wanted in required(topic.partitions):
            yield
            position = (str(topic.name), int(wanted.partition_index))
            partition = broker.partitions.get(*position)
            if partition is None:
                results[position] = (broker.not_here(*position), NOT_KNOWN)
                continue
            offset = int(wanted.offset)
            if offset == TO_THE_HIGH_WATERMARK:
                offset = partition.high_watermark
            if 0 <= offset <= partition.high_watermark:
                wanted_starts[position] = (partition, offset)
            else:
                results[position] = (ErrorCode.OFFSET_OUT_OF_RANGE, NOT_KNOWN)
    timeout = decoded.timeout
    if not wanted_starts:
        return (yield from _answer(version, results))
    fan_in = FanIn[Position, Outcome](
        broker,
        wanted_starts,
        timeout_ms=control.milliseconds(timeout),
        overdue=lambda position: (ErrorCode.REQUEST_TIMED_OUT, NOT_KNOWN),
        answer=lambda done: _answer(version, {**results, **done}),
    )

    def begin(position: Position) -> None:
        partition, offset = wanted_starts[position]
        if isinstance(partition, ReplicatedPartition):
            _move_replicated(partition, offset, control.milliseconds(timeout), lambda outcome: fan_in.put(position, outcome))
            return
        _move_start(broker, partition, offset, lambda outcome: fan_in.put(position, outcome))

    return fan_in.start(begin)


def _move_replicated(partition: ReplicatedPartition, offset: int, timeout_ms: int, put: Callable[[Outcome], None]) -> None:
    """Have every in-sync replica note the new start: none of them brings the records back when it leads."""

    def noted(fault: Fault | None) -> None:
        put((ErrorCode.NONE, partition.log.log_start_offset) if fault is None else (fault[0], NOT_KNOWN))

    partition.replica.delete_records(offset, timeout_ms, noted)


def _move_start(broker: Broker, partition: Partition, offset: int, put: Callable[[Outcome], None]) -> None:
    """Flush the log up to the new start, by the one flush that a log has under way, then write the new start itself."""
    log = partition.log

    def flushed(why_not: str | None) -> None:
        if why_not is not None:
            put((ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN))
            return
        try:
            job = log.start_job(offset, broker.now_ms(), erase=lambda deleted: _erase(broker, deleted))
        except LogError:
            put((ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN))
            return
        if job is None:
            put((ErrorCode.NONE, log.log_start_offset))
        elif not broker.disk.submit(job.run, lambda _: written(job), lambda error: failed(job, error)):
            put((ErrorCode.REQUEST_TIMED_OUT, NOT_KNOWN))

    def written(job: StartJob) -> None:
        if partition.is_gone:
            put((ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_KNOWN))
            return
        try:
            job.done()
        except LogError:
            put((ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN))
            return
        partition.start_moved()
        put((ErrorCode.NONE, log.log_start_offset))

    def failed(job: StartJob, error: Exception) -> None:
        if not partition.is_gone:
            job.failed(error)
        put((ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN))

    partition.when_flushed(offset, flushed)


def _erase(broker: Broker, deleted: DeletedSegment) -> None:
    """Delete the file off the loop. Where the worker's queue is full, the next start of the broker deletes it."""
    broker.disk.submit(lambda: erase_now(deleted), lambda _: None, lambda _: None)


def _answer(version: int, results: Mapping[Position, Outcome]) -> Generator[None, None, bytes]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), (error, low_watermark) in results.items():
        partition = {"partition_index": index, "low_watermark": low_watermark, "error_code": error}
        topics.setdefault(topic, []).append(partition)
        yield
    message = {
        "throttle_time_ms": 0,
        "topics": ({"name": name, "partitions": partitions} for name, partitions in topics.items()),
    }
    return (yield from control.encode_in_steps(KEY, version, message))
