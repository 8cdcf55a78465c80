"""Writes sidecars as logs grow, so that the next start is fast, and verifies in the background what this start took on trust.

Decisions and bookkeeping run on the loop thread, in short turns; writing and reading on the worker's. Knows the log's jobs, not
their content."""

from collections import deque
from collections.abc import Callable

from ...runtime.logs import get_logger
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..log import BadRange, LogError, ScrubJob
from .partition import Partition, PartitionTable

log = get_logger(__name__)

CHECKPOINT_EVERY_MS = 1_000
UNINDEXED_BYTES = 64 << 20
"""Bound for all logs together of the bytes that a start after kill -9 would have to walk (30 ms in batches of 10 KB, 0.7 s in
batches of 250 bytes). What is appended in one interval comes on top."""
LEAST_BYTES = 64 << 10
"""Less than this in one log is not worth a sidecar: 10,000 such logs are 640 MB, walked in 0.3 s."""
CHECKPOINTS_A_PASS = 100
"""About 0.2 ms of work each."""
SCRUB_EVERY_MS = 100
SCRUB_BYTES = 4 << 20
"""Verified in one such interval. 40 MB/s take 5 % of a core in batches of 10 KB, measured on 10 GB."""
SCRUBS_A_TURN = 50
PARTITIONS_A_TURN = 500
LOOK_AGAIN_MS = 60_000
"""How often all logs are checked again for something to verify."""


class Checkpoints:
    """Lives on the loop thread."""

    def __init__(self, loop: Loop, worker: Worker) -> None:
        self._loop = loop
        self._worker = worker
        self._table = PartitionTable()
        self._changed: dict[Partition, None] = {}
        """Partitions to weigh at the next pass."""
        self._unindexed: dict[Partition, int] = {}
        self._total_bytes = 0
        """The sum of `_unindexed`."""
        self._writing: set[Partition] = set()
        self._is_failing = False
        self._to_verify: deque[Partition] = deque()
        self._allowance_bytes = 0
        self._logged: dict[Partition, set[BadRange]] = {}
        """Damage that has been logged already, when the log was opened or here. A scrub or a read has found it."""

    def start(self, table: PartitionTable) -> None:
        """Begin the skips this table's partitions. Call it before the loop runs."""
        self._table = table
        self._changed = table.follow()
        self._worker.start()
        self._to_verify.extend(table.kept())
        self._logged = {partition: set(known) for partition in table.kept() if (known := partition.log.bad_ranges)}
        self._loop.call_at(self._loop.now_ms + CHECKPOINT_EVERY_MS, self._begin_pass)
        self._loop.call_at(self._loop.now_ms + SCRUB_EVERY_MS, self._verify)

    def stop(self) -> None:
        self._worker.stop()

    def run_behind(self, job: Callable[[], None], done: Callable[[None], None], failed: Callable[[Exception], None]) -> bool:
        """Run `job` on the worker, behind what is under way for any log: it then has a log for itself that no partition uses any
        more. Return False when too much waits already.
        """
        return self._worker.submit(job, done, failed)

    # -- sidecars ----------------------------------------------------------------------------------

    def _begin_pass(self) -> None:
        self._table.tell_followers()
        self._weigh(list(self._changed), 0, [], [])

    def _weigh(self, partitions: list[Partition], at: int, closed: list[Partition], heavy: list[tuple[int, Partition]]) -> None:
        """Weigh some of the partitions that have changed now, the rest in later turns; then write the sidecars that are due."""
        for partition in partitions[at : at + PARTITIONS_A_TURN]:
            unindexed = 0 if partition.is_gone else partition.log.unindexed_bytes
            self._total_bytes += unindexed - self._unindexed.pop(partition, 0)
            if unindexed:
                self._unindexed[partition] = unindexed
            if not partition.is_gone and partition.log.needs_sidecars:
                closed.append(partition)
            elif unindexed >= LEAST_BYTES:
                heavy.append((unindexed, partition))
            elif partition.is_gone or not partition.log.awaits_sidecars:
                self._changed.pop(partition, None)
        at += PARTITIONS_A_TURN
        if at < len(partitions):
            self._loop.post(lambda: self._weigh(partitions, at, closed, heavy))
            return
        for partition in due(self._total_bytes, closed, heavy):
            self._write(partition)
        self._loop.call_at(self._loop.now_ms + CHECKPOINT_EVERY_MS, self._begin_pass)

    def _write(self, partition: Partition) -> None:
        if partition in self._writing:
            return
        try:
            job = partition.log.checkpoint_job()
        except LogError as error:
            self._failed(partition, error)
            return
        if job is None:
            return

        def done(_: None) -> None:
            self._writing.discard(partition)
            self._is_failing = False
            job.done()

        def failed(error: Exception) -> None:
            self._writing.discard(partition)
            self._failed(partition, error)

        if self._worker.submit(job.run, done, failed):
            self._writing.add(partition)

    def _failed(self, partition: Partition, error: Exception) -> None:
        """Log the first failure of several: the write is tried again every interval."""
        if not self._is_failing:
            self._is_failing = True
            log.warning("sidecar_not_written", topic=partition.topic, partition=partition.index, why=str(error))

    # -- verifying ---------------------------------------------------------------------------------

    def _verify(self) -> None:
        self._allowance_bytes = SCRUB_BYTES
        self._verify_next(SCRUBS_A_TURN)

    def _verify_next(self, jobs_left: int) -> None:
        for _ in range(PARTITIONS_A_TURN):
            if not self._to_verify:
                self._loop.call_at(self._loop.now_ms + LOOK_AGAIN_MS, self._look_again)
                return
            if self._allowance_bytes <= 0 or jobs_left <= 0:
                break
            partition = self._to_verify[0]
            if partition.is_gone:  # its log may be in use elsewhere: a replica's goes on under another object
                self._to_verify.popleft()
                continue
            job = partition.log.scrub_job()
            if job is not None:
                if self._run(partition, job, jobs_left):
                    return
                break
            self._log_damage(self._to_verify.popleft())
        self._loop.call_at(self._loop.now_ms + SCRUB_EVERY_MS, self._verify)

    def _log_damage(self, partition: Partition) -> None:
        for bad in partition.log.bad_ranges:
            logged = self._logged.setdefault(partition, set())
            if bad not in logged:
                logged.add(bad)
                log.error(
                    "damage_found",
                    topic=partition.topic,
                    partition=partition.index,
                    from_offset=bad.from_offset,
                    to_offset=bad.to_offset,
                    why=bad.reason,
                )

    def _run(self, partition: Partition, job: ScrubJob, jobs_left: int) -> bool:
        begun_at = job.work.position

        def done(_: None) -> None:
            job.done()
            self._log_damage(partition)
            self._allowance_bytes -= job.work.position - begun_at
            self._verify_next(jobs_left - 1)

        def failed(error: Exception) -> None:
            why = str(job.failed(error))
            log.error("segment_not_verified", topic=partition.topic, partition=partition.index, why=why)
            self._verify_next(jobs_left - 1)

        return self._worker.submit(job.run, done, failed)

    def _look_again(self) -> None:
        self._to_verify.extend(self._table.kept())
        self._logged = {partition: logged for partition, logged in self._logged.items() if not partition.is_gone}
        self._verify()


def due(total_bytes: int, closed: list[Partition], heavy: list[tuple[int, Partition]]) -> list[Partition]:
    """Return the partitions whose sidecars to write now: those with a closed segment that has none, then those with the most
    unindexed bytes, until the others together hold half the bound. Pure.
    """
    chosen = closed[:CHECKPOINTS_A_PASS]
    if total_bytes > UNINDEXED_BYTES:
        for unindexed, partition in sorted(heavy, key=lambda entry: -entry[0]):
            if total_bytes <= UNINDEXED_BYTES // 2 or len(chosen) >= CHECKPOINTS_A_PASS:
                break
            chosen.append(partition)
            total_bytes -= unindexed
    return chosen
