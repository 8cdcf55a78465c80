"""Lets Spark's tasks read ranges of topics and write their rows, one hour a file: one Spark job for one topic, or for many."""

import heapq
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...runtime import logs
from ..errors import ClusterUnfit, LoadUnproven, SparkFailed, WarehouseError
from ..source.offset_ranges import OffsetRange
from ..warehouse.store import StorePath
from .cluster import executors_expected, unfit
from .reading import Reading, Written
from .settings import LoadSettings
from .split_task import ANSWER, ANSWER_TYPE, SplitsDone, SplitTask, TopicsTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logs.get_logger(__name__)

SCHEMA_ROUNDS = 5
"""How often it reads again because records have schemas that the registry's subject does not list."""
TOPIC_BYTES = 256 << 10
"""What a group costs besides its bytes, in bytes: connections, its schemas, its file."""
MOST_FAILED_JOBS = 24
"""How many Spark jobs of several topics may fail in one application before those topics are given up."""

Result = Written | Exception
"""What became of one topic."""


class RowWriter:
    """One Spark session, started with the first write. `close` stops it."""

    def __init__(self, settings: LoadSettings, *, scratch: Path | None = None) -> None:
        """`scratch`: a folder of this machine, where Spark spills; None: that of the first `write`."""
        self._settings = settings
        self._scratch = scratch
        self._session: SparkSession | None = None
        self._failed_jobs = 0

    def write(
        self,
        columns: pa.Schema,
        ranges: Sequence[OffsetRange],
        folder: StorePath,
        *,
        scratch: Path,
        hours: Collection[int] | None = None,
    ) -> Written:
        """Write the rows of `ranges` into the folder, with these event columns and those of the topic's schemas.

        `hours`: only rows of these hours are written; all are read. Raises SparkFailed, LoadUnproven, RegistryError.
        """
        self._scratch = self._scratch or scratch
        reading = Reading(self._settings, columns, ranges, folder, hours=hours)
        found = self.write_all([reading])[reading.topic]
        if isinstance(found, Exception):
            raise found
        return found

    def write_all(self, readings: Sequence[Reading]) -> dict[str, Result]:
        """Write the rows of different topics, in as few Spark jobs as they take. A topic's fault is its own result."""
        found: dict[str, Result] = {}
        left = list(readings)
        for _ in range(SCHEMA_ROUNDS):
            if not left:
                return found
            answers = self._read(left)
            again = []
            for one in left:
                try:
                    answer = answers[one.topic]
                    if isinstance(answer, Exception):
                        raise answer
                    written = one.written(answer)
                except Exception as error:  # one topic's registry, columns or files: the others continue
                    found[one.topic] = error
                    continue
                if written is None:
                    again.append(one)
                else:
                    found[one.topic] = written
            left = again
        for one in left:
            reason = f"new schemas were met in {SCHEMA_ROUNDS} readings, each time others"
            found[one.topic] = LoadUnproven(one.topic, reason)
        return found

    def _read(self, readings: Sequence[Reading]) -> dict[str, list[SplitsDone] | WarehouseError]:
        """Return the answers by topic. A Spark job that fails as a whole is tried again in two halves, down to single topics: so
        the one that kills its worker stops no other.
        """
        found: dict[str, list[SplitsDone] | WarehouseError] = {one.topic: [] for one in readings}
        waiting = [[one for one in readings if one.group_bytes]]
        while waiting:
            some = waiting.pop()
            if not some:
                continue
            try:
                for done in self._spark_writes([one.task() for one in some], self._shares(some)):
                    mine = found[done.topic]
                    assert not isinstance(mine, WarehouseError)
                    mine.append(done)
            except ClusterUnfit as error:
                # Whatever it is asked for, it would fail alike.
                waiting.append(some)
                found.update({one.topic: ClusterUnfit(one.topic, error.reason) for part in waiting for one in part})
                return found
            except SparkFailed as error:
                self._failed_jobs += 1
                if len(some) == 1 or self._failed_jobs >= MOST_FAILED_JOBS:
                    found.update({one.topic: SparkFailed(one.topic, error.reason) for one in some})
                    continue
                log.warning("spark_job_failed", topics=len(some), reason=error.reason)
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
        return found

    def _shares(self, readings: Sequence[Reading]) -> list[list[tuple[int, int]]]:
        costs = {(topic, group): size for topic, one in enumerate(readings) for group, size in enumerate(one.group_bytes)}
        return even_shares(costs, shares=self._settings.splits) if len(readings) > 1 else [[one] for one in sorted(costs)]

    def _spark_writes(self, tasks: Sequence[SplitTask], shares: Sequence[Sequence[tuple[int, int]]]) -> list[SplitsDone]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from .session import forget_jvm, start_session

        topic = self._settings.topic
        missing: list[str] = []
        try:
            if self._session is None:
                assert self._scratch is not None, "write_all wants the scratch folder of the constructor"
                self._session = start_session(f"headrace load {topic}", self._scratch, master=self._settings.master)
            # One number a partition: a task for each share.
            numbers = self._session.range(0, len(shares), 1, len(shares))
            with executors_expected(self._session.sparkContext) as missing:
                answers = numbers.mapInArrow(TopicsTask(topics=tasks, shares=shares), ANSWER_TYPE).collect()
            return [SplitsDone.of_json(row[ANSWER]) for row in answers]
        except PySparkException as error:
            reason = "".join(missing) or unfit(str(error))
            raise (ClusterUnfit(topic, reason) if reason else SparkFailed(topic, _first_lines(error))) from error
        except (Py4JError, OSError, EOFError) as error:
            reason = "".join(missing) or unfit(_words(error))
            if reason:  # the JVM's own error, and no end of the JVM: as of a Python that is not there
                raise ClusterUnfit(topic, reason) from error
            words = f"{type(error).__name__}: {_words(error)}"
            self.close()
            forget_jvm()
            raise SparkFailed(topic, f"its JVM is gone ({words[:600]})") from error

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.stop()
            except Exception as error:  # its JVM may be gone; that error was raised already
                log.warning("spark_not_stopped", reason=str(error).splitlines()[:1])


def even_shares(costs: Mapping[tuple[int, int], int], *, shares: int) -> list[list[tuple[int, int]]]:
    """Return the groups (number of the topic, number of its group) in at most `shares` parts of about the same cost, each part in
    the groups' order; none is empty. `costs` are bytes, to which each group's own `TOPIC_BYTES` are added.
    """
    count = min(shares, len(costs))
    lightest = [(0, number) for number in range(count)]
    found: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for group, cost in sorted(costs.items(), key=lambda one: (-one[1], one[0])):
        weight, number = lightest[0]
        found[number].append(group)
        heapq.heapreplace(lightest, (weight + cost + TOPIC_BYTES, number))
    return [sorted(one) for one in found]


def _words(error: Exception) -> str:
    """Return an error's words; those of an error of Java are asked of the JVM, which may be gone."""
    try:
        return str(error)
    except Exception as gone:
        return f"{type(gone).__name__}: {gone}"


def _first_lines(error: Exception) -> str:
    """Return the useful part of Spark's message: the end of a Python traceback if there is one, else the first lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error" in line.split(":")[0] or line.startswith("headrace.")]
    return " | ".join(causes[-2:] or lines[:3])[:600]
