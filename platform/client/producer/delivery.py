"""The end of a batch, and what a broker's response means for it. Pure. Source: KIP-98, Kafka's table of error codes."""

from dataclasses import dataclass
from enum import Enum, auto

from ...wire.errors import ErrorCode
from ..errors import ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The end of one batch: acknowledged, or given up with `error`. If the producer has windows, all its records are in one
    window.
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
