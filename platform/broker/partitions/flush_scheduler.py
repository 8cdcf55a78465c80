"""Decides which log is flushed next. Flushes are requested on the loop thread and run in the kernel or on the disk threads.

Group commit: a log has one flush under way at a time. A flush takes all that is in the log when it begins; requests that arrive
while it runs share the next one. An idle log's flush begins at the end of the loop's turn, so that it takes all that this turn
appended; no timer is involved. The number of partitions bounds what waits. When a flush is needed is decided elsewhere.

Trap: never run two flushes of one log together. The system reports a failed write once, and the other flush would report success
for lost data."""

from collections import OrderedDict
from typing import Protocol

from ...runtime.logs import get_logger
from ..event_loop.loop import Loop
from ..log import FlushJob, LogError, PartitionLog
from ..metrics import Durations, clock_ns
from .flusher import Flusher

log = get_logger(__name__)

RETRY_MS = 1_000
"""How long until a flush that could not begin (no file descriptor left, say) is tried again."""


class Flushable(Protocol):
    """What a flush is asked for and reported to: a partition, or the replica that outlives its partition's role."""

    @property
    def topic(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def log(self) -> PartitionLog: ...

    @property
    def acks_on_disk(self) -> bool: ...

    @property
    def is_gone(self) -> bool: ...

    def flushed(self) -> None: ...

    def flush_failed(self, why: str) -> None: ...


class _Lane:
    """Those that wait for one flusher, in the order of asking."""

    __slots__ = ("due", "flusher", "running_count")

    def __init__(self, flusher: Flusher) -> None:
        self.flusher = flusher
        self.due: OrderedDict[Flushable, None] = OrderedDict()
        self.running_count = 0


class FlushScheduler:
    """Lives on the loop thread. Has at most as many flushes under way as each of its flushers takes at once."""

    def __init__(self, loop: Loop, awaited: Flusher, quiet: Flusher) -> None:
        """`awaited` carries out the flushes that acknowledgements and readers wait for; `quiet` those that nothing waits for."""
        self._loop = loop
        self._awaited = _Lane(awaited)
        self._quiet = _Lane(quiet)
        self._running: dict[Flushable, _Lane | None] = {}
        """Those whose flush is under way, and the lane in which another was requested meanwhile."""
        self._is_arranged = False
        self.durations = Durations()
        self.failed_count = 0
        """Both for metrics."""

    def ask(self, partition: Flushable) -> None:
        """Flush what the partition's log holds now, as soon as a thread is free. Hot: once an append."""
        self._ask(partition, self._awaited)

    def ask_in_background(self, partition: Flushable) -> None:
        """Flush it soon, behind the flushes that somebody waits for."""
        if partition not in self._awaited.due:
            self._ask(partition, self._quiet)

    def forget(self, partition: Flushable) -> None:
        """Begin no flush of it that was asked for before: its log is closed now. One that is under way goes on."""
        for lane in (self._awaited, self._quiet):
            lane.due.pop(partition, None)
        if partition in self._running:
            self._running[partition] = None

    def _ask(self, partition: Flushable, lane: _Lane) -> None:
        if partition in self._running:
            if self._running[partition] is not self._awaited:
                self._running[partition] = lane
            return
        lane.due[partition] = None
        if not self._is_arranged:
            self._is_arranged = True
            self._loop.at_turn_end(self._begin)

    def _begin(self) -> None:
        self._is_arranged = False
        for lane in (self._awaited, self._quiet):
            while lane.due and lane.running_count < lane.flusher.most_at_once:
                partition = lane.due.popitem(last=False)[0]
                if partition in self._running:
                    self._ask(partition, lane)
                elif not partition.is_gone:
                    self._start(partition, lane)

    def _start(self, partition: Flushable, lane: _Lane) -> None:
        failure = partition.log.failure
        if failure is not None:
            # If it were tried again, the system would report success for pages that it has dropped.
            partition.flush_failed(str(failure))
            return
        try:
            job = partition.log.flush_job(more_follow=partition.acks_on_disk)
        except LogError as error:
            self._not_begun(partition, str(error))
            return
        if job is None:
            partition.flushed()
            return

        asked_ns = clock_ns()

        def done(_: object) -> None:
            self.durations.add(clock_ns() - asked_ns)
            self._done(partition, lane, job)

        def failed(error: Exception) -> None:
            self.failed_count += 1
            self._failed(partition, lane, job, error)

        if not lane.flusher.flush(job, done, failed):
            self._not_begun(partition, "too much waits for the disk already")
            return
        self._running[partition] = None
        lane.running_count += 1

    def _done(self, partition: Flushable, lane: _Lane, job: FlushJob) -> None:
        asked_in = self._ended(partition, lane)
        if not partition.is_gone:
            job.done()
            if asked_in is not None:
                self._ask(partition, asked_in)
            partition.flushed()
        self._begin()

    def _failed(self, partition: Flushable, lane: _Lane, job: FlushJob, error: Exception) -> None:
        self._ended(partition, lane)
        if not partition.is_gone:
            why = str(job.failed(error))
            log.error("flush_failed", topic=partition.topic, partition=partition.index, why=why)
            partition.flush_failed(why)
        self._begin()

    def _ended(self, partition: Flushable, lane: _Lane) -> _Lane | None:
        lane.running_count -= 1
        return self._running.pop(partition)

    def _not_begun(self, partition: Flushable, why: str) -> None:
        """Nothing is lost: waiting producers get an error and send again, and the log is flushed a little later."""
        log.error("flush_not_begun", topic=partition.topic, partition=partition.index, why=why)
        partition.flush_failed(why)
        self._loop.call_at(self._loop.now_ms + RETRY_MS, lambda: self.ask(partition))
