"""The counts of one owned partition between two flushes: per minute for users, per window for the audit. Pure.

Two offsets decide what a record still counts for. Below `state_offset` it is in the minutes already. Below `reported_to` the
audit has it already, and it is reported as redelivered; from there on it is new.
"""

from collections.abc import Mapping

from ...audit.model.windows import window_start_ms
from .state import MinuteCounts, PartitionState


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
        self.counts: dict[int, int] = {}
        self.quarantined: dict[int, int] = {}
        self.redelivered: dict[int, int] = {}

    def is_news(self, offset: int) -> bool:
        """Return whether a record at `offset` still counts for anything; if not, it need not even be decoded."""
        return offset >= self.state_offset or offset >= self.reported_to

    def count(self, offset: int, next_offset: int, timestamp_ms: int, *, is_usable: bool) -> bool:
        """Count one record; return whether it is new to the audit."""
        window = window_start_ms(timestamp_ms)
        is_first_time = offset >= self.position  # the stream goes back when the log no longer holds the position
        is_new = is_first_time and offset >= self.reported_to
        into = self.redelivered if not is_new else self.counts if is_usable else self.quarantined
        into[window] = into.get(window, 0) + 1
        if is_usable and is_first_time and offset >= self.state_offset:
            self._minutes.add(timestamp_ms)
        self.position = max(self.position, next_offset)
        return is_new

    def pass_over(self, to_offset: int) -> None:
        """Continue after a range that holds nothing readable."""
        self.position = max(self.position, to_offset)

    @property
    def window_count(self) -> int:
        """Windows that wait to be reported."""
        return len(self.counts) + len(self.quarantined) + len(self.redelivered)

    def take_tallies(self) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """Return counts, quarantined, redelivered by window since the last call, and reset them."""
        taken = (self.counts, self.quarantined, self.redelivered)
        self.counts, self.quarantined, self.redelivered = {}, {}, {}
        return taken

    def state(self) -> PartitionState:
        """Return the state to be written: the minutes, and the offset up to which they count."""
        offset = max(self.position, self.state_offset)
        return PartitionState(topic=self.topic, partition=self.partition, offset=offset, minutes=self._minutes.as_dict())
