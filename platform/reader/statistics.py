"""What one process has read. Every record that was read is in exactly one of the other numbers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..runtime.logs import get_logger
from .reading_loop import ReadingLoop

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatistics:
    """Counts of records since the start: `read` = `handled` + `quarantined` + `redelivered` + `given_back` + `in_work`."""

    read: int
    handled: int
    """Done, and flushed."""
    quarantined: int
    redelivered: int
    """Met again, though they were done before: nothing was called for them."""
    given_back: int
    """Handled or in hand, and not committed, when other members took their partitions: they are read again there."""
    in_work: int
    """In hand, or handled and not flushed yet; 0 after an orderly end."""
    skipped_offsets: int
    """Offsets (no records) that were skipped: unreadable, expired, or skipped by a seek. No part of the sum."""

    @property
    def is_balanced(self) -> bool:
        return self.read == self.handled + self.quarantined + self.redelivered + self.given_back + self.in_work


def statistics_of(loops: Sequence[ReadingLoop]) -> ReaderStatistics:
    """Return the sum over the members of one process."""
    return ReaderStatistics(
        read=sum(one.read for one in loops),
        handled=sum(one.written for one in loops),
        quarantined=sum(one.refused for one in loops),
        redelivered=sum(one.repeated for one in loops),
        given_back=sum(one.given_back for one in loops),
        in_work=sum(one.in_work for one in loops),
        skipped_offsets=sum(one.skipped_offsets for one in loops),
    )


def log_end(loops: Sequence[ReadingLoop], group: str) -> None:
    """Log the closing line of one process."""
    log.info("reader_stopped", group=group, **asdict(statistics_of(loops)))
