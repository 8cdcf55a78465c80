"""What one process has read. Every record that was read is in one of the other numbers once it is settled."""

from collections.abc import Sequence
from dataclasses import dataclass

from .reading_loop import ReadingLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatistics:
    """Counts of records since the start: `read` = `done` + `in_work` + `quarantined` + `done_before`."""

    read: int
    done: int
    """Handled, and flushed."""
    in_work: int
    """Handled or in hand, and not flushed yet."""
    quarantined: int
    done_before: int
    """Met again, though they were done before: nothing was called for them."""


def statistics_of(loops: Sequence[ReadingLoop]) -> ReaderStatistics:
    """Return the sum over the members of one process."""
    read, done = sum(one.read for one in loops), sum(one.written for one in loops)
    quarantined, before = sum(one.refused for one in loops), sum(one.repeated for one in loops)
    return ReaderStatistics(
        read=read, done=done, in_work=read - done - quarantined - before, quarantined=quarantined, done_before=before
    )
