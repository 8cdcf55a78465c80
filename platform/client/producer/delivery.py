"""The end of a batch, and what a broker's response means for it. Pure. Source: KIP-98, Kafka's table of error codes."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from ...wire.errors import ErrorCode
from ..errors import ClientError


class BatchNumbers(NamedTuple):
    """What names a batch in the log: no other batch of this producer is there under these numbers and this CRC."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    """Of its first record; its records take the following ones, and 0 comes after 2^31 - 1."""
    crc: int
    """CRC-32C in the header of the batch as it was sent under these numbers."""


class DeliveryEnd(Enum):
    """What became of a batch."""

    ACKNOWLEDGED = auto()
    UNCERTAIN = auto()
    """Given up; perhaps stored: it was sent, and no response excluded that."""
    REFUSED = auto()
    """Given up; every response said that it was not stored. The next batch of the partition takes its numbers."""
    NEVER_SENT = auto()
    """Given up before it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The end of one batch: acknowledged, or given up with `error`. If the producer has windows, all its records are in one
    window.
    """

    end: DeliveryEnd
    numbers: tuple[BatchNumbers, ...] = ()
    """The numbers under which it may be in the log, oldest first; `end` speaks of the last. Under those before the last it may
    have arrived, too: the broker did not know them any more, and the batch was sent again under the next. Empty if it cannot be
    in the log, and if the producer is not idempotent.
    """
    topic: str
    partition: int
    """-1 for records given up before their partition was chosen."""
    base_offset: int
    """-1 if it was given up, or if the broker knew the batch already and does not report its offset."""
    record_count: int
    first_timestamp_ms: int
    """The lowest timestamp."""
    max_timestamp_ms: int
    error: ClientError | None = None


class DeliveryOutcome(Enum):
    """What a broker's response means for one batch."""

    ACKNOWLEDGED = auto()
    NOT_NOW = auto()
    """Not stored; may be sent again unchanged."""
    PERHAPS = auto()
    """Perhaps stored; may only be sent again with the same sequence."""
    NUMBERS_UNKNOWN = auto()
    """Not stored, and it never can be under this producer id: the broker does not know the batches before it."""
    REFUSED = auto()
    """Not stored, permanently."""


_PERHAPS = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_NUMBERS_UNKNOWN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def outcome_of(code: int) -> DeliveryOutcome:
    """Return what the broker's error code means for a batch that was sent to it."""
    known = ErrorCode.of(code)
    if known in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return DeliveryOutcome.ACKNOWLEDGED
    if known in _PERHAPS:
        return DeliveryOutcome.PERHAPS
    if known in _NUMBERS_UNKNOWN:
        return DeliveryOutcome.NUMBERS_UNKNOWN
    return DeliveryOutcome.NOT_NOW if known.retriable else DeliveryOutcome.REFUSED
