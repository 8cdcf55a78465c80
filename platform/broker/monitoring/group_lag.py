"""How far consumer groups are behind in the partitions of this broker, read when a scrape asks for it.

What groups have committed is in ZooKeeper, read on the worker thread in chunks, so that commits run in between. Where the logs
end is known here, and is compared when the last chunk is read. Bounded: `MOST_POSITIONS` are read, the rest is counted, and a
scrape that comes within `FRESH_MS` gets the numbers of the last one.
"""

import threading
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from ...coordination.group_progress import Position
from ...runtime.logs import get_logger
from ..event_loop.chunked_job import submit_in_chunks
from ..event_loop.loop import Loop, monotonic_ms
from ..event_loop.worker import Worker
from ..partitions.partition import PartitionTable

log = get_logger(__name__)

MOST_POSITIONS = 10_000
"""Read for one scrape: about a second of the worker's time."""
CHUNK = 200
"""Positions read in one job: about 20 ms, for which a commit waits."""
FRESH_MS = 5_000


class LagReading(NamedTuple):
    """One group in one partition. Offsets are positions in bytes, so is the lag."""

    group: str
    topic: str
    partition: int
    lag_bytes: int


class LagSnapshot(NamedTuple):
    """One reading."""

    lags: list[LagReading]
    left_out: int
    """Positions that were not read, because there are too many."""


class Progress(Protocol):
    """The part of `coordination.group_progress.GroupProgress` that is used here."""

    def positions(self, among: Container[tuple[str, int]], most: int) -> tuple[list[Position], int]: ...

    def read(self, positions: Sequence[Position]) -> Mapping[Position, int]: ...


class GroupLag:
    """One a broker. `take` may be called on any thread except the loop's; everything else runs on the loop thread."""

    def __init__(
        self, loop: Loop, worker: Worker, progress: Progress, partitions: PartitionTable, *, most: int = MOST_POSITIONS
    ) -> None:
        self._loop, self._worker, self._progress, self._partitions, self._most = loop, worker, progress, partitions, most
        self._taken = LagSnapshot([], 0)
        self._taken_ms: int | None = None
        self._is_reading = False
        self._is_failing = False
        self._waiting: list[Callable[[], None]] = []

    def take(self, within_ms: int) -> LagSnapshot:
        """Return the lags of now, or those of the last reading where this one takes longer than `within_ms`."""
        done = threading.Event()
        self._loop.post(lambda: self._ask(done.set))
        done.wait(within_ms / 1000)
        return self._taken

    def _ask(self, done: Callable[[], None]) -> None:
        if not self._is_reading and self._taken_ms is not None and monotonic_ms() - self._taken_ms < FRESH_MS:
            done()
            return
        self._waiting.append(done)
        if self._is_reading:
            return
        self._is_reading = True
        ours = {(one.topic, one.index) for one in self._partitions}
        if not self._worker.submit(lambda: self._progress.positions(ours, self._most), self._listed, self._failed):
            self._end()  # too much waits for ZooKeeper already, and nothing here is urgent

    def _listed(self, found: tuple[list[Position], int]) -> None:
        positions, left_out = found
        if not positions:
            self._read({}, left_out)
        elif not submit_in_chunks(
            self._worker,
            positions,
            self._progress.read,
            lambda committed: self._read(committed, left_out),
            self._failed,
            chunk_size=CHUNK,
        ):
            self._end()

    def _read(self, committed: Mapping[Position, int | Exception], left_out: int) -> None:
        lags = []
        for (group, topic, index), offset in committed.items():
            partition = self._partitions.get(topic, index)
            if partition is not None and isinstance(offset, int):
                read_to = max(offset, partition.log.log_start_offset)
                lags.append(LagReading(group, topic, index, max(0, partition.high_watermark - read_to)))
        self._taken, self._taken_ms, self._is_failing = LagSnapshot(sorted(lags), left_out), monotonic_ms(), False
        self._end()

    def _failed(self, error: Exception) -> None:
        if not self._is_failing:
            log.warning("group_lag_not_read", why=str(error))
        self._is_failing = True
        self._taken = LagSnapshot([], 0)  # old numbers would look like a group that makes no progress
        self._end()

    def _end(self) -> None:
        self._is_reading = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()
