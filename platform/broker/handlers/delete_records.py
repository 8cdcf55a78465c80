"""DeleteRecords, key 21, versions 0-2: the head of a partition goes, up to an offset; -1 says up to the high watermark.

Whole segments before the new start are deleted, the rest of the first one that stays is not shown. Answered when the new start
is on disk. Trap: what is not yet shown to consumers cannot be deleted, so the bound is the high watermark, not the log end."""

from collections.abc import Mapping
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..later import Later
from ..log import DeletedSegment, LogError, LogUnusable, erase_now
from ..log.start_job import StartJob
from ..partitions import Partition
from .context import Context, required
from .gathering import Gathering

KEY = 21

TO_THE_HIGH_WATERMARK = -1
NOT_KNOWN = -1

Position = tuple[str, int]
Outcome = tuple[ErrorCode, int]
"""The error, and where the log starts now."""


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return each partition's new start."""
    request = control.decode_request(KEY, version, body)
    results: dict[Position, Outcome] = {}
    jobs: dict[Position, tuple[Partition, StartJob]] = {}
    for topic in required(request.topics):
        for wanted in required(topic.partitions):
            position = (str(topic.name), int(wanted.partition_index))
            outcome = _begun(context, position, int(wanted.offset))
            if isinstance(outcome, StartJob):
                partition = context.partitions.get(*position)
                assert partition is not None
                jobs[position] = (partition, outcome)
            else:
                results[position] = outcome
    if not jobs:
        return _answer(version, results)
    gathering = Gathering[Position, Outcome](
        context,
        jobs,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda position: (ErrorCode.REQUEST_TIMED_OUT, NOT_KNOWN),
        answer=lambda done: _answer(version, {**results, **done}),
    )
    return gathering.start(lambda position: _run(context, gathering, position, *jobs[position]))


def _begun(context: Context, position: Position, offset: int) -> StartJob | Outcome:
    """Return what is left to do, or what has become of it already."""
    partition = context.partitions.get(*position)
    if partition is None:
        entry = context.topics.catalog.topics.get(position[0])
        is_elsewhere = entry is not None and position[1] in entry.partitions
        return (ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), NOT_KNOWN
    if offset == TO_THE_HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE, NOT_KNOWN
    try:
        job = partition.log.start_job(offset)
    except LogError:
        return ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN
    return (ErrorCode.NONE, partition.log.log_start_offset) if job is None else job


def _run(
    context: Context, gathering: Gathering[Position, Outcome], position: Position, partition: Partition, job: StartJob
) -> None:
    log = partition.log

    def done(_: None) -> None:
        if partition.is_gone:
            gathering.put(position, (ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_KNOWN))
            return
        try:
            log.start_done(job, context.now_ms(), erase=lambda deleted: _erase(context, deleted))
        except LogError:
            gathering.put(position, (ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN))
            return
        if job.flush is not None:
            partition.flushed()
        gathering.put(position, (ErrorCode.NONE, log.log_start_offset))

    def failed(error: Exception) -> None:
        if not partition.is_gone:
            fault = log.start_failed(job, error if isinstance(error, OSError) else OSError(0, str(error)))
            if isinstance(fault, LogUnusable):
                partition.flush_failed(str(fault))
        gathering.put(position, (ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN))

    if not context.disk.submit(job.run, done, failed):
        gathering.put(position, (ErrorCode.REQUEST_TIMED_OUT, NOT_KNOWN))


def _erase(context: Context, deleted: DeletedSegment) -> None:
    """Delete the file off the loop; one that no room is left for goes at the next start."""
    context.disk.submit(lambda: erase_now(deleted), lambda _: None, lambda _: None)


def _answer(version: int, results: Mapping[Position, Outcome]) -> bytes:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), (error, low_watermark) in results.items():
        partition = {"partition_index": index, "low_watermark": low_watermark, "error_code": error}
        topics.setdefault(topic, []).append(partition)
    message = {
        "throttle_time_ms": 0,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    return control.encode_response(KEY, version, message)
