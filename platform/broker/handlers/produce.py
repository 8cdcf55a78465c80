"""Produce, key 0, versions 3-10: appends batches to their logs. 0-2 are advertised for old librdkafka's sake and answered
with UNSUPPORTED_VERSION.

Checked here: size, magic and CRC; `batch_rules` checks flags and counts; the log checks sequences and gives the batch its offset.
Records are never opened: where the topic says LogAppendTime, only the header has their time.

Traps: acks=0 has no response, so an error closes the connection, as in Kafka; the producer would otherwise never learn of it. A
batch that is in the log already (an idempotent retry, or a mirror's) is acknowledged with its old offset. A mirrored topic takes
only conditional appends."""

import struct
from functools import partial

from ...wire.batch.append_time import stamp
from ...wire.batch.batch_header import MAGIC, MAGIC_AT
from ...wire.batch.record_batch import HEADER_SIZE, BatchHeader, crc_matches, iter_batches, read_header
from ...wire.errors import CorruptBatch, ErrorCode, MalformedFrame
from ...wire.messages import produce
from ...wire.primitives import INT, SHORT, count, read_bytes, read_count, read_name, string
from ..errors import FrameRefused
from ..event_loop.deferred_response import DeferredResponse
from ..log import (
    Appended,
    AppendFailed,
    BatchRefused,
    Duplicate,
    Fenced,
    FolderFault,
    Fresh,
    LogUnusable,
    OutOfOrder,
    Refused,
    RefusedBecause,
    SequenceCheck,
)
from ..log.producer_state import FRESH
from ..partitions.partition import Partition
from ..rights.rule import Operation
from . import current_leaders
from .access.checks import MESSAGES
from .batch_rules import NO_TRANSACTIONS, Fault, fault_of
from .broker import Broker
from .request import Request

KEY = produce.API_KEY

Answer = produce.ProduceResponsePartition


def handle(broker: Broker, request: Request) -> bytes | DeferredResponse | None:
    """Append the batches and return each partition's offset or error. A DeferredResponse where a topic acknowledges only what is
    on disk; None for acks=0. Hot: once a request that is not part of a run (`produce_run`).
    """
    version = request.version
    decoded = produce.decode_request(version, request.body)
    acks = decoded.acks
    refusal = _refusal(decoded)
    now_ms = broker.now_ms()
    find, access = broker.partitions.get, broker.access
    topics: list[produce.ProduceResponseTopic] = []
    waits: list[tuple[Partition, list[Answer], int]] = []
    for name, partitions in decoded.topics:
        answers: list[Answer] = []
        refused = refusal
        if access is not None and refused is None and not access.may(request.peer, KEY, Operation.WRITE, name):
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        for wanted in partitions:
            if refused is not None:
                answers.append(_error(wanted.index, *refused))
                continue
            partition = find(name, wanted.index)
            if partition is None:
                answers.append(_error(wanted.index, broker.not_here(name, wanted.index), None))
            elif partition.is_replicated and (fault := partition.why_no_append(acks)) is not None:
                answers.append(_error(wanted.index, *fault))
            elif partition.settings.is_mirror or wanted.conditional_start is not None:
                answers.append(_append_mirrored(partition, wanted, now_ms))
            else:
                answers.append(_append(partition, wanted.index, wanted.records, now_ms))
            if partition is not None and partition.answers_later and not answers[-1].error_code:
                waits.append((partition, answers, len(answers) - 1))
        topics.append(produce.ProduceResponseTopic(name, answers))
    if acks == 0:
        _close_if_refused(topics)
        return None
    if waits:
        return _when_acknowledged(broker, decoded, request, topics, waits)
    return _encoded(broker, version, request.peer.listener, topics)


def _encoded(broker: Broker, version: int, listener: str, topics: list[produce.ProduceResponseTopic]) -> bytes:
    for _, answers in topics:
        for answer in answers:
            if answer.error_code:
                broker.metrics.api(KEY).error(answer.error_code)
    return produce.encode_response(version, current_leaders.produce_response(broker, version, listener, topics))


def _when_acknowledged(
    broker: Broker,
    decoded: produce.ProduceRequest,
    request: Request,
    topics: list[produce.ProduceResponseTopic],
    waits: list[tuple[Partition, list[Answer], int]],
) -> DeferredResponse:
    """Return the pending response. It is complete when each batch, new or there already, is on disk or with every in-sync
    replica, as its topic asks, or when that has failed.
    """
    version, listener = request.version, request.peer.listener
    deferred = DeferredResponse()
    deferred.expected_bytes = len(produce.encode_response(version, produce.ProduceResponse(topics)))
    waiting_count = len(waits)

    def acknowledged(answers: list[Answer], at: int, fault: Fault | None) -> None:
        nonlocal waiting_count
        if fault is not None:
            answers[at] = _error(answers[at].index, *fault)
        waiting_count -= 1
        if waiting_count == 0:
            deferred.complete((_encoded(broker, version, listener, topics),))

    for partition, answers, at in waits:
        end_offset = partition.log.log_end_offset
        partition.when_acknowledged(end_offset, decoded.acks, decoded.timeout_ms, partial(acknowledged, answers, at))
    return deferred


def _append(partition: Partition, index: int, records: memoryview | bytes | None, now_ms: int) -> Answer:
    """Append one batch of an ordinary producer."""
    if records is None or len(records) == 0:
        return _error(index, ErrorCode.INVALID_RECORD, "no record batch in the request")
    size_bytes = len(records)
    if size_bytes > partition.settings.max_message_bytes:
        return _error(
            index,
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes where max.message.bytes is {partition.settings.max_message_bytes}",
        )
    if size_bytes > MAGIC_AT and records[MAGIC_AT] < MAGIC:
        return _error(
            index, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {records[MAGIC_AT]}: only {MAGIC} is taken"
        )
    try:
        header = read_header(records)
    except CorruptBatch as error:
        return _error(index, ErrorCode.CORRUPT_MESSAGE, str(error))
    if header.size_bytes < size_bytes:
        return _error(index, ErrorCode.INVALID_RECORD, "more than one record batch for a partition in one request")
    if not crc_matches(records, 0, header.size_bytes):
        return _error(index, ErrorCode.CORRUPT_MESSAGE, "the batch is cut or its CRC does not match")
    if (fault := _fault(header, of_mirror=False)) is not None:
        return _error(index, *fault)
    log = partition.log
    if header.producer_id >= 0 and (verdict := log.producers.classify(header)) is not FRESH:
        return _not_fresh(partition, index, verdict)
    appended_ms = -1
    if partition.settings.stamps_append_time:
        appended_ms = now_ms
        header = stamp(records, header, now_ms)  # type: ignore[arg-type]  # a view into the receive buffer
    try:
        base_offset = log.append(records, now_ms, header=header, leader_epoch=partition.leader_epoch)[0]  # type: ignore[arg-type]  # as above
    except (AppendFailed, LogUnusable) as error:
        return _error(index, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    partition.appended(header.record_count, header.size_bytes)
    return Answer(index, 0, base_offset, appended_ms, log.log_start_offset)


def _not_fresh(partition: Partition, index: int, verdict: SequenceCheck) -> Answer:
    match verdict:
        case Duplicate(base_offset):
            return Answer(index, 0, base_offset, _appended_ms(partition, base_offset), partition.log.log_start_offset)
        case OutOfOrder(expected, found):
            return _error(index, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {found} came where {expected} was due")
        case Fenced(current, found):
            return _error(
                index, ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {found} came after epoch {current} of the same producer"
            )
        case Fresh():
            raise AssertionError("a fresh batch is appended")


def _appended_ms(partition: Partition, base_offset: int) -> int:
    """Return the append time of the batch in the log, -1 for none."""
    try:
        header = partition.log.header_of(base_offset)
    except FolderFault:
        return -1
    return header.max_timestamp_ms if header is not None and header.is_log_append_time else -1


def _fault(header: BatchHeader, *, of_mirror: bool) -> Fault | None:
    sequence = (header.producer_id, header.producer_epoch, header.base_sequence)
    return fault_of(
        header.attributes, header.size_bytes, header.record_count, header.last_offset_delta, sequence, of_mirror=of_mirror
    )


def _append_mirrored(partition: Partition, wanted: produce.ProducePartition, now_ms: int) -> Answer:
    """Append a mirror's batches at the offsets that they have in the source. A batch that is there already counts as appended.
    Stop at the first one that is refused.
    """
    index, records, source_start = wanted
    if source_start is None:
        return _error(
            index, ErrorCode.POLICY_VIOLATION, f"{partition.topic} is a mirrored topic: only its mirror may write to it"
        )
    if not partition.settings.is_mirror:
        return _error(
            index,
            ErrorCode.POLICY_VIOLATION,
            f"{partition.topic} is not a mirrored topic (headrace.mirror=true): no conditional append",
        )
    if records is None or len(records) < HEADER_SIZE:
        return _error(index, ErrorCode.INVALID_RECORD, "no record batch in the request")
    first_offset, read_bytes_count = None, 0
    try:
        for header, batch in iter_batches(records):
            read_bytes_count += header.size_bytes
            if not crc_matches(batch, 0, header.size_bytes):
                return _error(index, ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.position}: its CRC does not match")
            if (fault := _fault(header, of_mirror=True)) is not None:
                return _error(index, *fault)
            outcome = partition.log.append_at(batch, source_start, now_ms, header=header, leader_epoch=partition.leader_epoch)
            if isinstance(outcome, Refused):
                return _error(index, _code(outcome), str(outcome))
            if isinstance(outcome, Appended):
                partition.appended(header.record_count, header.size_bytes)
            if first_offset is None:
                first_offset = outcome.base_offset
    except (CorruptBatch, BatchRefused) as error:
        return _error(index, ErrorCode.CORRUPT_MESSAGE, str(error))
    except (AppendFailed, LogUnusable, FolderFault) as error:
        return _error(index, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if first_offset is None or read_bytes_count != len(records):
        return _error(
            index,
            ErrorCode.CORRUPT_MESSAGE,
            f"the last of the batches is cut: {read_bytes_count} of {len(records)} bytes are whole",
        )
    return Answer(index, 0, first_offset, -1, partition.log.log_start_offset)


def _code(refused: Refused) -> ErrorCode:
    match refused.because:
        case RefusedBecause.AHEAD_OF_LOG_END | RefusedBecause.BEHIND_SOURCE_START | RefusedBecause.EXPIRED_HERE:
            return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.INVALID_RECORD


def _refusal(request: produce.ProduceRequest) -> tuple[ErrorCode, str] | None:
    if request.acks not in (-1, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: 0, 1 and -1 (all) are known"
    if request.transactional_id is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS
    return None


def _error(index: int, code: ErrorCode, message: str | None) -> Answer:
    return Answer(index, code, -1, -1, -1, message)


def _close_if_refused(topics: list[produce.ProduceResponseTopic]) -> None:
    for topic, answers in topics:
        for answer in answers:
            if answer.error_code:
                why = answer.error_message or "not here"
                raise FrameRefused(f"produce with acks=0 to {topic}-{answer.index}: error {answer.error_code}: {why}", "acks_0")


def handle_old(broker: Broker, request: Request) -> bytes | None:
    """Refuse versions 0 to 2, whose message formats are not taken, in their own words.

    request   acks int16 · timeout int32 · topics [ name · partitions [ index int32 · records bytes ] ]
    response  topics [ name · partitions [ index · error int16 · base offset int64 · (2) log append time int64 ] ] · (1+)
    throttle int32"""
    version, body = request.version, memoryview(request.body)
    try:
        (acks,) = SHORT.unpack_from(body)
        topic_count, at = read_count(body, 6, flexible=False, each=6)
        left = produce.MOST_ELEMENTS - topic_count
        out = [count(topic_count, flexible=False)]
        for _ in range(topic_count):
            name, at = read_name(body, at, flexible=False)
            partition_count, at = read_count(body, at, flexible=False, each=8)
            left -= partition_count
            if left < 0:
                raise produce.too_many_elements()
            out += (string(name, flexible=False), count(partition_count, flexible=False))
            for _ in range(partition_count):
                (index,) = INT.unpack_from(body, at)
                _, at = read_bytes(body, at + 4, flexible=False)
                out.append(struct.pack(">ihq", index, ErrorCode.UNSUPPORTED_VERSION, -1) + (b"\xff" * 8 if version == 2 else b""))
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Produce v{version} request of {len(body)} bytes is cut") from None
    if acks == 0:
        raise FrameRefused(f"Produce version {version} with acks=0: message formats before 2 are not taken", "not_served")
    if version >= 1:
        out.append(INT.pack(0))
    return b"".join(out)
