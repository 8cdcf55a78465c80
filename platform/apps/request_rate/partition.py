"""The counts of one owned partition between two flushes: per minute for users, which records per window for the audit. Pure.

Two offsets decide what a record still counts for. Below `state_offset` it is in the minutes already. Below `reported_to` the
audit has it already, and it is reported as redelivered; from there on it is new.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ...audit.model.messages import Skipped, Stretch
from ...audit.model.windows import window_start_ms
from .state import MinuteCounts, PartitionState


class Tallies(NamedTuple):
    """What the audit is to be told, by window start (ms)."""

    held: dict[int, list[Stretch]]
    quarantined: dict[int, list[Stretch]]
    redelivered: dict[int, int]
    skipped: list[Skipped]


class PartitionCounts:
    """Counts of one partition since it was taken over."""

    def __init__(
        self, topic: str, partition: int, *, begin: int, state_offset: int, minutes: Mapping[int, int], reported_to: int | None
    ) -> None:
        self.topic, self.partition = topic, partition
        self.position = begin
        """Every record below it has been counted."""
        self.saved_to = begin
        """The position of the last flush."""
        self.state_offset = state_offset
        self.reported_to = begin if reported_to is None else max(begin, reported_to)
        self._minutes = MinuteCounts(minutes)
        self._tallies = Tallies({}, {}, {}, [])
        self.stretch_count = 0
        """Stretches that wait to be reported."""

    def is_news(self, offset: int) -> bool:
        """Return whether a record at `offset` still counts for anything; if not, it need not even be decoded."""
        return offset >= self.state_offset or offset >= self.reported_to

    def count(self, offset: int, next_offset: int, timestamp_ms: int, *, is_usable: bool) -> bool:
        """Count one record; return whether it is new to the audit."""
        window = window_start_ms(timestamp_ms)
        is_first_time = offset >= self.position  # the stream goes back when the log no longer holds the position
        is_new = is_first_time and offset >= self.reported_to
        if is_new:
            self._add(self._tallies.held if is_usable else self._tallies.quarantined, window, offset)
        else:
            self._tallies.redelivered[window] = self._tallies.redelivered.get(window, 0) + 1
        if is_usable and is_first_time and offset >= self.state_offset:
            self._minutes.add(timestamp_ms)
        self.position = max(self.position, next_offset)
        return is_new

    def pass_over(self, to_offset: int) -> None:
        """Continue after a range that holds nothing readable."""
        self.position = max(self.position, to_offset)

    def skip(self, from_offset: int, to_offset: int, reason: str) -> None:
        """Continue after a range that cannot be read (`reason` as in `Skipped`); tell the audit of what it has not heard yet."""
        told_from = max(from_offset, self.position, self.reported_to)
        if told_from < to_offset:
            self._tallies.skipped.append(Skipped(told_from, to_offset, reason))
            self.stretch_count += 1
        self.pass_over(to_offset)

    def take_tallies(self) -> Tallies:
        """Return what is to be reported since the last call, and begin again from nothing."""
        taken = self._tallies
        self._tallies, self.stretch_count = Tallies({}, {}, {}, []), 0
        return taken

    def _add(self, into: dict[int, list[Stretch]], window: int, offset: int) -> None:
        stretches = into.setdefault(window, [])
        if stretches and stretches[-1].end == offset:
            stretches[-1] = Stretch(stretches[-1].first, stretches[-1].count + 1)
        else:
            stretches.append(Stretch(offset, 1))
            self.stretch_count += 1

    def state(self) -> PartitionState:
        """Return the state to be written: the minutes, and the offset up to which they count."""
        offset = max(self.position, self.state_offset)
        return PartitionState(topic=self.topic, partition=self.partition, offset=offset, minutes=self._minutes.as_dict())
