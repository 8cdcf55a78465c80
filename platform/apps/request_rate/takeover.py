"""Takes a partition over: computes where its counts begin, from the group's offset, the state file and the audit positions."""

from ...audit.publisher import RangeReporter
from ...client.consumer.stream_consumer import StreamConsumer
from ...client.fetch.fetched import TopicPartition
from ...reader.patience import patiently
from ...runtime.logs import get_logger
from .partition import PartitionCounts
from .state import PartitionState, StateError, StateFolder

log = get_logger(__name__)


def take_over(
    name: TopicPartition, start: int, *, consumer: StreamConsumer, folder: StateFolder, reporter: RangeReporter
) -> PartitionCounts:
    """Return the partition's counts, and move the consumer to where they begin; `start` is the group's offset.

    Raises an error that lasts longer than the patience of `patiently`.
    """
    state = _state_of(name, consumer, folder)
    begin = start
    if state is None:
        # There are no counts: begin where the log does, whatever was committed. Otherwise earlier minutes would be missing for
        # good.
        begin = min(start, patiently(lambda: consumer.log_range(name))[0])
    elif state.offset < start:
        begin = state.offset
    if begin != start:
        log.warning("counted_again", topic=name.topic, partition=name.partition, from_offset=begin, committed=start)
        consumer.seek(name, begin)
    counts = PartitionCounts(
        name.topic,
        name.partition,
        begin=begin,
        state_offset=begin if state is None else max(begin, state.offset),
        minutes={} if state is None else state.minutes,
        reported_to=patiently(lambda: reporter.reported(*name)),
    )
    log.info("partition_taken", topic=name.topic, partition=name.partition, begin=begin, reported_to=counts.reported_to)
    return counts


def _state_of(name: TopicPartition, consumer: StreamConsumer, folder: StateFolder) -> PartitionState | None:
    """Return the partition's state; None if there is none. A file that does not belong to this log is set aside."""
    try:
        state = folder.load(*name)
        if state is None:
            return None
        end = patiently(lambda: consumer.log_range(name))[1]
        if state.offset <= end:
            return state
        reason = f"the state stands at {state.offset}, the log ends at {end}: another log's state, or the log lost its end"
    except StateError as error:
        reason = str(error)
    aside = folder.set_aside(*name)
    log.error("state_set_aside", topic=name.topic, partition=name.partition, now_at=str(aside), reason=reason)
    return None
