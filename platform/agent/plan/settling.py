"""What is to be done about a planned batch: after a broker's answer, after a restart, after the log was read back. Pure.

A batch keeps its numbers (producer id, epoch, sequence) for as long as it may be in the log under them. Only the log itself can
say that it is not: a broker that has forgotten a producer takes any sequence, and so the same batch twice. Source: KIP-98,
KIP-360.
"""

from enum import Enum, auto

from ...client.producer.delivery import DeliveryOutcome, outcome_of
from ...wire.errors import ErrorCode

LOOK_AFTER_MS = 300_000
"""A batch that may have been sent longer ago than this is looked for in the log before it is sent again.

Until then the broker knows its number: it remembers the last five batches of each of the last thousands of producers of a
partition, and here a producer has one batch in flight to a partition.
"""


class Step(Enum):
    """What comes next for a batch."""

    ACKNOWLEDGED = auto()
    SEND = auto()
    """Send it (again) under its numbers."""
    LOOK = auto()
    """Read the partition back first."""
    SEND_ANEW = auto()
    """Send what is there of its records under other numbers: it is not in the log under these."""
    SPLIT = auto()
    """Send it in two halves: the broker takes no batch of this size, and has not stored it."""
    REFUSED = auto()
    """Count its records as lost: the broker will never take them, and has not stored them."""
    AMBIGUOUS = auto()
    """Count its records as uncertain: they may be in the log, and this cannot be found out any more."""


class Look(Enum):
    """What reading a partition back has found of a batch."""

    FOUND = auto()
    ABSENT = auto()
    UNKNOWABLE = auto()
    """A part of the log where it could stand is gone, or cannot be read."""


class Cause(Enum):
    """Why a partition is read back for a batch."""

    OLD = auto()
    """It was under way too long ago: the broker may have forgotten its producer."""
    NUMBERS_UNKNOWN = auto()
    """The broker refuses its numbers: they do not follow what it knows."""
    CHANGED = auto()
    """The source no longer gives the same records."""


def after_answer(error_code: int, record_count: int) -> Step:
    """Return what a broker's answer means for the batch that was sent to it."""
    match outcome_of(error_code):
        case DeliveryOutcome.ACKNOWLEDGED:
            return Step.ACKNOWLEDGED
        case DeliveryOutcome.NUMBERS_UNKNOWN:
            return Step.LOOK
        case DeliveryOutcome.REFUSED:
            is_too_large = error_code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
            return Step.SPLIT if is_too_large and record_count > 1 else Step.REFUSED
        case _:
            return Step.SEND


def before_sending(*, may_be_sent_since_ms: int | None, now_ms: int) -> Step:
    """Return whether a batch may go out as it is. `may_be_sent_since_ms`: when it may have been sent first; None: never."""
    if may_be_sent_since_ms is None or 0 <= now_ms - may_be_sent_since_ms <= LOOK_AFTER_MS:
        return Step.SEND
    return Step.LOOK


def after_look(look: Look, cause: Cause) -> Step:
    """Return what reading back means for the batch that was looked for."""
    match look:
        case Look.FOUND:
            return Step.ACKNOWLEDGED
        case Look.UNKNOWABLE:
            return Step.AMBIGUOUS
        case Look.ABSENT:
            return Step.SEND if cause is Cause.OLD else Step.SEND_ANEW
