"""Lets Spark's tasks read ranges of a topic and write their rows, one hour a file."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...runtime import logs
from ...schema_registry.client.registry_client import RegistryClient
from ..errors import LoadUnproven, SparkFailed
from ..source import task_reports
from ..source.columns import SYSTEM_COLUMNS
from ..source.log_density import bytes_per_offset
from ..source.offset_ranges import OffsetRange, packed, split_ranges
from ..source.split_source import SplitSource
from ..source.subject_schemas import event_columns, schemas_by_id, subject_schemas
from ..warehouse.store import StorePath, files_under, remove_folder
from .settings import LoadSettings
from .split_task import ANSWER, ANSWER_TYPE, SplitsDone, SplitTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logs.get_logger(__name__)

SCHEMA_ROUNDS = 5
"""How often it reads again because records have schemas that the registry's subject does not list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What stands in a folder now."""

    columns: pa.Schema
    """The event columns."""
    files: list[StorePath]
    total: task_reports.Total
    """What the tasks read: of all hours."""


class RowWriter:
    """One Spark session, started with the first write. `close` stops it."""

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings
        self._session: SparkSession | None = None

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

        `scratch`: a folder of this machine, for the session. `hours`: only rows of these are written; all are read.

        Raises SparkFailed, LoadUnproven, RegistryError.
        """
        settings = self._settings
        registry = RegistryClient(settings.registry_url)
        columns = event_columns(columns, subject_schemas(registry, settings.topic).values())
        density = bytes_per_offset(settings.bootstrap, settings.topic, ranges)
        splits = split_ranges(ranges, splits=settings.splits, max_span=settings.max_split_span, bytes_per_offset=density)
        groups = packed(splits, tasks=settings.splits, bytes_per_offset=density)
        for number in range(SCHEMA_ROUNDS):
            target = folder / f"rows-{number}"
            done = self._spark_writes(columns, groups, target, scratch, hours)
            reports = [report for one in done for report in one.reports]
            if sorted(report.split for report in reports) != sorted(splits):
                raise LoadUnproven(settings.topic, f"{len(splits)} splits were to be read, and {len(reports)} are reported")
            total = task_reports.total_of(reports)
            if not total.missing_schema_ids:
                files = sorted(target / path for one in done for path in one.files)
                _delete_others(target, set(files))
                return Written(columns=columns, files=files, total=total)
            wider = event_columns(columns, schemas_by_id(registry, total.missing_schema_ids).values())
            log.info("load_reads_again", topic=settings.topic, schema_ids=sorted(total.missing_schema_ids))
            if wider == columns:
                raise LoadUnproven(
                    settings.topic, f"schemas {sorted(total.missing_schema_ids)} ask for columns that they do not name"
                )
            columns = wider
            remove_folder(target)
        raise LoadUnproven(settings.topic, f"new schemas were met in {SCHEMA_ROUNDS} readings, each time others")

    def _spark_writes(
        self,
        columns: pa.Schema,
        groups: Sequence[Sequence[OffsetRange]],
        target: StorePath,
        scratch: Path,
        only_hours: Collection[int] | None,
    ) -> list[SplitsDone]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from .session import start_session

        settings = self._settings
        if not groups:
            return []
        if self._session is None:
            self._session = start_session(f"headrace load {settings.topic}", scratch, master=settings.master)
        task = SplitTask(
            source=SplitSource(
                bootstrap=settings.bootstrap,
                topic=settings.topic,
                registry=settings.registry_url,
                quarantine=settings.quarantine_bootstrap,
                client_config=None,
                cluster="offline",
            ),
            target=pa.schema([*columns, *SYSTEM_COLUMNS]),
            groups=groups,
            folder=target,
            hours=None if only_hours is None else frozenset(only_hours),
        )
        try:
            # One number a partition: a task for each group.
            numbers = self._session.range(0, len(groups), 1, len(groups))
            return [SplitsDone.of_json(row[ANSWER]) for row in numbers.mapInArrow(task, ANSWER_TYPE).collect()]
        except PySparkException as error:
            raise SparkFailed(settings.topic, _first_lines(error)) from error
        except (Py4JError, OSError, EOFError) as error:
            raise SparkFailed(settings.topic, f"its JVM is gone ({type(error).__name__}: {error})") from error

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.stop()
            except Exception as error:  # its JVM may be gone; that error was raised already
                log.warning("spark_not_stopped", reason=str(error).splitlines()[:1])


def _delete_others(folder: StorePath, files: Collection[StorePath]) -> None:
    """Delete what attempts have left that did not come to their end, or that were repeated."""
    for path in files_under(folder):
        if path not in files:
            path.unlink()


def _first_lines(error: Exception) -> str:
    """Return the useful part of Spark's message: the end of a Python traceback if there is one, else the first lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error" in line.split(":")[0] or line.startswith("headrace.")]
    return " | ".join(causes[-2:] or lines[:3])[:600]
