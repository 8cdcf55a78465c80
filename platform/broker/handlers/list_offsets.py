"""ListOffsets, key 2, versions 0-7: where a partition begins, where it ends, and where a time is found (0: in which segment).

A partition that one request names twice is refused, as in Kafka: the search for a time may open a batch, which costs a thousand
times what the request costs. The search pauses, so that the loop can serve others.

Trap: while the leader is not known, or a new leader does not know its high watermark yet, the response is the retriable error.
With offset 0 or -1 clients would begin again. An offset that is found has the epoch of its batch. For a time that no record
reaches, the response is offset -1 without an error.

Version 0 knows no records' times. It lists the offsets where segments begin that were last written at or before a time, the
latest first, as Kafka did until 3.x. librdkafka before 1.6 asks it for begin and end."""

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control, list_offsets_v0
from ...wire.messages.list_offsets_v0 import Wanted
from ...wire.primitives import Body
from ..event_loop.response_generators import ResponseGenerator
from ..log import FolderFault
from ..partitions.partition import Partition
from . import offset_for_leader_epoch
from .broker import Broker, required
from .request import Request

KEY = 2
FIRST_WITH_EPOCH = 4
FIRST_NOT_AVAILABLE = 5
"""The version from which a client knows OFFSET_NOT_AVAILABLE (KIP-207)."""

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
NOT_FOUND = -1

Result = dict[str, Any]


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return one offset and its timestamp for each partition asked about."""
    version = request.version
    if version == 0:
        return (yield from _handle_v0(broker, request.body))
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    named = Counter[tuple[str, int]]()
    for topic in required(decoded.topics):
        for one in required(topic.partitions):
            named[str(topic.name), int(one.partition_index)] += 1
            yield
    # Generators, not lists: the search for a time runs when its turn to be written has come.
    topics = (
        {
            "name": topic.name,
            "partitions": (
                _partition(broker, name, wanted, version)
                if named[name, int(wanted.partition_index)] == 1
                else _result(int(wanted.partition_index), ErrorCode.INVALID_REQUEST)
                for name in (str(topic.name),)
                for wanted in topic.partitions
            ),
        }
        for topic in decoded.topics
    )
    return (yield from control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "topics": topics}))


def _partition(broker: Broker, topic: str, wanted: Any, version: int) -> Result | Generator[None, None, Result]:
    index = int(wanted.partition_index)
    partition = broker.partitions.get(topic, index)
    if partition is None:
        return _result(index, broker.not_here(topic, index))
    if version >= FIRST_WITH_EPOCH:
        fault = offset_for_leader_epoch.fault_of(int(wanted.current_leader_epoch), partition.leader_epoch)
        if fault is not None:
            return _result(index, fault)
    if not partition.knows_high_watermark:
        return _result(
            index, ErrorCode.OFFSET_NOT_AVAILABLE if version >= FIRST_NOT_AVAILABLE else ErrorCode.LEADER_NOT_AVAILABLE
        )
    timestamp_ms = int(wanted.timestamp)
    if timestamp_ms == LATEST:
        end = partition.high_watermark
        return _result(index, ErrorCode.NONE, end, epoch=offset_for_leader_epoch.epoch_at(partition, end))
    if timestamp_ms == EARLIEST:
        start = partition.log.log_start_offset
        return _result(index, ErrorCode.NONE, start, epoch=offset_for_leader_epoch.epoch_at(partition, start))
    if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
        return _result(index, ErrorCode.UNSUPPORTED_VERSION)  # later versions ask for tiers of storage
    return _at_time(partition, index, timestamp_ms)


def _at_time(partition: Partition, index: int, timestamp_ms: int) -> Generator[None, None, Result]:
    log = partition.log
    try:
        found = yield from log.largest_timestamp() if timestamp_ms == MAX_TIMESTAMP else log.offset_for_time(timestamp_ms)
    except FolderFault:
        return _result(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if found is None or found[0] >= partition.high_watermark:
        return _result(index, ErrorCode.NONE)
    return _result(index, ErrorCode.NONE, *found, epoch=offset_for_leader_epoch.epoch_at(partition, found[0]))


def _result(
    index: int,
    error: ErrorCode,
    offset: int = NOT_FOUND,
    timestamp_ms: int = -1,
    *,
    epoch: int = offset_for_leader_epoch.NOT_KNOWN,
) -> Result:
    return {
        "partition_index": index,
        "error_code": error,
        "timestamp": timestamp_ms,
        "offset": offset,
        "leader_epoch": epoch,
    }


def _handle_v0(broker: Broker, body: Body) -> Generator[None, None, bytes]:
    now_ms = broker.now_ms()
    asked = yield from list_offsets_v0.decode_in_steps(body)
    topics = (
        {"name": name, "partitions": (_found_v0(broker, topic, one, now_ms) for topic in (name,) for one in wanted)}
        for name, wanted in asked
    )
    return (yield from control.encode_in_steps(KEY, 0, {"topics": topics}))


def _found_v0(broker: Broker, topic: str, wanted: Wanted, now_ms: int) -> Result:
    index = wanted.partition
    partition = broker.partitions.get(topic, index)
    if partition is None:
        return _result_v0(index, broker.not_here(topic, index))
    if wanted.timestamp_ms < EARLIEST:
        return _result_v0(index, ErrorCode.INVALID_REQUEST)
    if not partition.knows_high_watermark:
        return _result_v0(index, ErrorCode.LEADER_NOT_AVAILABLE)
    log, high_watermark = partition.log, partition.high_watermark
    starts = [(max(one.base_offset, log.log_start_offset), one.last_append_ms) for one in log.segments]
    if starts[-1][0] < log.log_end_offset:
        starts.append((log.log_end_offset, now_ms))
    if wanted.timestamp_ms == EARLIEST:
        del starts[1:]
    elif wanted.timestamp_ms != LATEST:
        while starts and starts[-1][1] > wanted.timestamp_ms:
            starts.pop()
    offsets = [min(offset, high_watermark) for offset, _ in reversed(starts)]
    return _result_v0(index, ErrorCode.NONE, list(dict.fromkeys(offsets))[: max(wanted.most_offsets, 0)])


def _result_v0(index: int, error: ErrorCode, offsets: Sequence[int] = ()) -> Result:
    return {"partition_index": index, "error_code": error, "old_style_offsets": offsets}
