"""Decide what happens to a mirrored batch. Pure. Source: the rules of the log on mirrored topics.

A mirror's batch has its own position (`BatchHeader.position`). It is appended there or not at all, so the last request of a dead
mirror does no harm when it arrives after its successor has read the log end.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...wire.batch.record_batch import BatchHeader


class Appended(NamedTuple):
    """The batch is in the log. A named tuple, because one is made for every append."""

    base_offset: int
    """Of its first record."""
    next_offset: int
    """After the batch: the log end."""
    jumped_from: int | None = None
    """The former log end, when the data from there to the batch had expired at the source. These offsets stay empty."""


class AlreadyThere(NamedTuple):
    """The log has the same batch at this place: acknowledge it, append nothing."""

    base_offset: int
    next_offset: int


class RefusedBecause(Enum):
    """Why a mirrored batch has no place."""

    NOT_PLACED = "it has not as many records as offset deltas, so it does not come from a byte-addressed log"
    BEHIND_SOURCE_START = "it lies before the source's own log start"
    AHEAD_OF_LOG_END = "batches before it are missing here, and the source still has them"
    DIFFERENT_BATCH = "another batch, or part of one, is at its offset"
    DAMAGED_HERE = "the batch at its offset is damaged"
    EXPIRED_HERE = "what stood at its offset has expired here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The batch is not in the log and was not appended."""

    because: RefusedBecause
    position: int
    log_start_offset: int
    log_end_offset: int
    source_log_start_offset: int

    def __str__(self) -> str:
        return (
            f"mirrored batch at offset {self.position} refused: {self.because.value} "
            f"(log holds {self.log_start_offset} to {self.log_end_offset}, its source starts at {self.source_log_start_offset}): "
            "read the log end and continue from there"
        )


class Step(Enum):
    """What the log does with a mirrored batch that is not refused."""

    APPEND = "append at the log end"
    START = "let the log, which never held anything, start at the batch"
    JUMP = "leave a gap up to the batch: the source no longer has what would fill it"
    COMPARE = "see what is at the batch's offset"


def decide(header: BatchHeader, *, log_start_offset: int, log_end_offset: int, source_log_start_offset: int) -> Step | Refused:
    """Return what to do with a mirrored batch."""
    position = header.position

    def refused(because: RefusedBecause) -> Refused:
        return Refused(
            because=because,
            position=position,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            source_log_start_offset=source_log_start_offset,
        )

    if position < 0 or not header.is_dense:
        return refused(RefusedBecause.NOT_PLACED)
    if position < log_start_offset:
        return refused(RefusedBecause.EXPIRED_HERE)
    if position < log_end_offset:
        return Step.COMPARE
    if position < source_log_start_offset:
        return refused(RefusedBecause.BEHIND_SOURCE_START)
    if position == log_end_offset:
        return Step.APPEND
    if position == source_log_start_offset:
        return Step.START if log_end_offset == 0 else Step.JUMP
    return refused(RefusedBecause.AHEAD_OF_LOG_END)
