"""Reads the loop's state (partitions, connections, groups) for another thread, which waits a bounded time.

The loop owns this state, so the reading runs on the loop thread, a part each turn. A partition takes one or two microseconds."""

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ..event_loop.loop import Loop, monotonic_ms
from ..partitions.partition import Partition, PartitionTable

PARTITIONS_A_TURN = 100


class PartitionReading(NamedTuple):
    """One partition at the moment of the reading."""

    topic: str
    partition: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    size_bytes: int
    start_offset: int
    end_offset: int
    high_watermark: int
    flushed_offset: int
    bad_ranges: int
    cut_bytes: int
    """Bytes that recovery cut off when the log was opened."""
    has_failed: bool


class Snapshot(NamedTuple):
    """One reading."""

    partitions: list[PartitionReading]
    connections: int
    input_bytes: int
    output_bytes: int
    groups: list[tuple[str, int]]
    """State and number of members of each consumer group."""


class Connections(Protocol):
    """The part of the server that is used here."""

    @property
    def connection_count(self) -> int: ...

    @property
    def input_bytes(self) -> int: ...

    @property
    def output_bytes(self) -> int: ...


Groups = Callable[[], Iterable[tuple[str, int]]]


def take(loop: Loop, table: PartitionTable, server: Connections, groups: Groups, *, within_ms: int) -> Snapshot | None:
    """Return a snapshot, None when the loop does not finish in time. Call it on any thread except the loop's."""
    taken: list[Snapshot] = []
    done = threading.Event()
    asked_ms = monotonic_ms()
    readings: list[PartitionReading] = []

    def read_next(partitions: list[Partition]) -> None:
        readings.extend(map(_reading, partitions[:PARTITIONS_A_TURN]))
        if rest := partitions[PARTITIONS_A_TURN:]:
            if monotonic_ms() - asked_ms <= within_ms:  # the caller waits no longer
                loop.post(lambda: read_next(rest))
            return
        taken.append(Snapshot(readings, server.connection_count, server.input_bytes, server.output_bytes, list(groups())))
        done.set()

    loop.post(lambda: read_next(list(table)))
    return taken[0] if done.wait(within_ms / 1000) else None


def _reading(partition: Partition) -> PartitionReading:
    log = partition.log
    return PartitionReading(
        partition.topic,
        partition.index,
        partition.messages_in,
        partition.bytes_in,
        partition.bytes_out,
        log.size_bytes,
        log.log_start_offset,
        log.log_end_offset,
        partition.high_watermark,
        log.flushed_offset,
        len(log.bad_ranges),
        log.recovery.cut_bytes,
        log.failure is not None,
    )
