"""Which batches a log may hold, for both paths of Produce. Pure.

`produce` calls it for each batch, `request_template` once for all batches of one layout. The caller checks size, magic and CRC;
`produce_run` also checks the sequence."""

from ...wire.batch.append_time import LOG_APPEND_TIME
from ...wire.batch.record_batch import HEADER_SIZE
from ...wire.errors import ErrorCode

NO_TRANSACTIONS = "this broker does not support transactions: produce without transactional.id"
SMALLEST_RECORD_BYTES = 7
MOST_RECORDS = 1 << 24
"""In a compressed batch. Its records cannot be counted without opening it, and offsets advance by the count that it claims."""
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_LAST_CODEC = 4
_NO_SEQUENCE = (-1, -1, -1)

Fault = tuple[ErrorCode, str]


def fault_of(
    attributes: int,
    size_bytes: int,
    record_count: int,
    last_offset_delta: int,
    producer: tuple[int, int, int] = _NO_SEQUENCE,
    *,
    of_mirror: bool,
) -> Fault | None:
    """Return why a batch may not be in the log, None for a batch that may. `producer` has its id, epoch and first sequence.

    A mirror's batch (`of_mirror`) may have a time that the source's broker set. Hot: the usual batch takes six comparisons.
    """
    if attributes & (_CODEC | _TRANSACTIONAL | _CONTROL):
        if attributes & (_TRANSACTIONAL | _CONTROL):
            return ErrorCode.INVALID_RECORD, f"control and transactional batches are refused: {NO_TRANSACTIONS}"
        if attributes & _CODEC > _LAST_CODEC:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {attributes & _CODEC} is not known"
        if record_count > MOST_RECORDS:
            return ErrorCode.INVALID_RECORD, f"a batch that claims {record_count} records: at most {MOST_RECORDS} are taken"
    elif record_count * SMALLEST_RECORD_BYTES > size_bytes - HEADER_SIZE:
        return ErrorCode.INVALID_RECORD, f"{record_count} records cannot be in a batch of {size_bytes} bytes"
    if record_count < 1:
        return ErrorCode.INVALID_RECORD, "a batch without records"
    if record_count != last_offset_delta + 1:
        return ErrorCode.INVALID_RECORD, f"last offset delta {last_offset_delta} in a batch of {record_count} records"
    producer_id, epoch, sequence = producer
    if producer_id >= 0 and (sequence < 0 or epoch < 0):
        return ErrorCode.INVALID_RECORD, f"producer {producer_id} sent a batch without sequence or epoch"
    if attributes & LOG_APPEND_TIME and not of_mirror:
        return ErrorCode.INVALID_TIMESTAMP, "the batch says that a broker set its time (LogAppendTime): producers may not"
    return None
