"""Counts records per minute, as a `Processor` of the reader: minutes and offset are in one file of each partition (`state`).

The file says which records are in the minutes already, whatever the group committed: no kill between its rename and the group's
commit loses a record or counts it twice. A partition without a usable file is counted again, from where its log begins.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ...client.fetch.fetched import TopicPartition
from ...reader.patience import patiently
from ...reader.processor import PartitionsTaken, ProcessorAway, RefusedRecord
from ...reader.record import EventRecord
from ...runtime.logs import get_logger
from .state import MinuteCounts, Overtaken, PartitionState, StateError, StateFolder

log = get_logger(__name__)

LogRange = Callable[[TopicPartition], tuple[int, int]]
"""Where a partition's log begins and ends now."""


@dataclass(slots=True)
class _Partition:
    minutes: MinuteCounts
    counted_to: int
    """Every record before it is in the minutes."""
    saved_to: int


class Minutes:
    """The minutes of the partitions of one member."""

    is_full = False

    def __init__(self, folder: StateFolder, log_range: LogRange) -> None:
        self._folder = folder
        self._log_range = log_range
        self._partitions: dict[TopicPartition, _Partition] = {}

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return where each partition's file stands. Raises an error that lasts longer than the patience of `patiently`."""
        begins: dict[TopicPartition, int] = {}
        for name, start in starts.items():
            log_start, log_end = patiently(lambda name=name: self._log_range(name))  # type: ignore[misc]
            state = self._state_of(name, log_end)
            # Without a file the minutes of records before the group's offset would be missing permanently.
            begin = min(start, log_start) if state is None else state.offset
            if begin < start:
                log.warning("counted_again", topic=name.topic, partition=name.partition, from_offset=begin, committed=start)
            log.info("partition_taken", topic=name.topic, partition=name.partition, begin=begin)
            self._partitions[name] = _Partition(MinuteCounts({} if state is None else state.minutes), begin, begin)
            begins[name] = begin
        return begins

    def take(self, record: EventRecord) -> None:
        """Count the record. One before `counted_to` comes again, because the log no longer held the reader's position."""
        one = self._partitions.get(record.of)
        if one is not None and record.offset >= one.counted_to:
            one.minutes.add(record.timestamp_ms)
            one.counted_to = record.message.next_offset

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        """Write the files. Raises PartitionsTaken for those that another process has written further."""
        overtaken: dict[TopicPartition, Overtaken] = {}
        for name, one in self._partitions.items():
            offset = max(positions.get(name, 0), one.counted_to)
            if name not in positions or offset <= one.saved_to:
                continue
            try:
                self._folder.save(
                    PartitionState(topic=name.topic, partition=name.partition, offset=offset, minutes=one.minutes.as_dict())
                )
            except Overtaken as error:
                log.warning("partition_overtaken", error=str(error))
                overtaken[name] = error
                continue
            except StateError as error:
                raise ProcessorAway(str(error)) from error
            one.counted_to = one.saved_to = offset
        if overtaken:
            self.end(overtaken)
            raise PartitionsTaken(overtaken, "; ".join(map(str, overtaken.values())))
        return []

    def end(self, partitions: Collection[TopicPartition]) -> None:
        for name in partitions:
            self._partitions.pop(name, None)

    def close(self) -> None:
        return

    def _state_of(self, name: TopicPartition, log_end: int) -> PartitionState | None:
        """Return the partition's state; None if there is none. A file that does not belong to this log is set aside."""
        try:
            state = self._folder.load(*name)
            if state is None or state.offset <= log_end:
                return state
            reason = f"the state is at {state.offset}, the log ends at {log_end}: another log's state, or the log lost its end"
        except StateError as error:
            reason = str(error)
        aside = self._folder.set_aside(*name)
        log.error("state_set_aside", topic=name.topic, partition=name.partition, now_at=str(aside), reason=reason)
        return None
