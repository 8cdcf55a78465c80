"""What became of a batch, and what a broker's answer means for it. Pure. Source: KIP-98, Kafka's table of error codes."""

from dataclasses import dataclass
from enum import Enum, auto

from ...wire.errors import ErrorCode
from ..errors import ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The end of one batch: acknowledged, or given up with `error`. Its records lie in one window if the producer has windows."""

    topic: str
    partition: int
    """-1 for records given up before their partition could be chosen."""
    base_offset: int
    """-1 when it was given up, and when the broker knew the batch already and does not say where it is."""
    record_count: int
    first_timestamp_ms: int
    """The lowest timestamp."""
    max_timestamp_ms: int
    error: ClientError | None = None


class DeliveryOutcome(Enum):
    """What a broker's answer to one batch means."""

    ACKNOWLEDGED = auto()
    NOT_NOW = auto()
    """Not stored, and may be sent again as it is."""
    PERHAPS = auto()
    """May be stored; may only be sent again with the same sequence."""
    NUMBERS_UNKNOWN = auto()
    """Not stored, and under this producer id it never can be: the broker does not know what came before."""
    REFUSED = auto()
    """Not stored, for good."""


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
    """Return what the broker's error code means for a batch that it was sent."""
    known = ErrorCode.of(code)
    if known in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return DeliveryOutcome.ACKNOWLEDGED
    if known in _PERHAPS:
        return DeliveryOutcome.PERHAPS
    if known in _NUMBERS_UNKNOWN:
        return DeliveryOutcome.NUMBERS_UNKNOWN
    return DeliveryOutcome.NOT_NOW if known.retriable else DeliveryOutcome.REFUSED
