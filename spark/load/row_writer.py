"""Lets Spark read ranges of a topic and write their rows, one hour a file."""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...runtime import logs
from ...schema_registry.client.registry_client import RegistryClient
from ..errors import LoadUnproven, SparkFailed
from ..source import task_reports
from ..source.columns import HOUR_FIELD, SYSTEM_COLUMNS
from ..source.log_density import bytes_per_offset
from ..source.offset_ranges import OffsetRange, ranges_to_json, split_ranges
from ..source.subject_schemas import event_columns, schemas_by_id, subject_schemas
from ..warehouse.hours import BEFORE_1970
from .settings import LoadSettings
from .staging import SCRATCH

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
    files: list[Path]
    total: task_reports.Total
    """What the tasks read: of all hours."""


class RowWriter:
    """One Spark session, started with the first write. `close` stops it."""

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings
        self._session: SparkSession | None = None

    def write(
        self, columns: pa.Schema, ranges: Sequence[OffsetRange], folder: Path, *, hours: Collection[int] | None = None
    ) -> Written:
        """Write the rows of `ranges` into the folder, with these event columns and those of the topic's schemas.

        `hours`: only rows of these hours are written; all are read. Raises SparkFailed, LoadUnproven, RegistryError.
        """
        settings = self._settings
        registry = RegistryClient(settings.registry_url)
        columns = event_columns(columns, subject_schemas(registry, settings.topic).values())
        density = bytes_per_offset(settings.bootstrap, settings.topic, ranges)
        splits = split_ranges(ranges, splits=settings.splits, max_span=settings.max_split_span, bytes_per_offset=density)
        for number in range(SCHEMA_ROUNDS):
            target, counted = folder / f"rows-{number}", folder / f"receipts-{number}"
            self._spark_writes(columns, splits, target, counted, hours)
            total, absent = task_reports.read_all(counted, splits)
            if absent:
                raise LoadUnproven(settings.topic, f"{len(absent)} of {len(splits)} splits left no report in {counted}")
            if not total.missing_schema_ids:
                files = sorted(target.glob(f"{HOUR_FIELD}=*/*.parquet"))
                return Written(columns=columns, files=files, total=total)
            wider = event_columns(columns, schemas_by_id(registry, total.missing_schema_ids).values())
            log.info("load_reads_again", topic=settings.topic, schema_ids=sorted(total.missing_schema_ids))
            if wider == columns:
                raise LoadUnproven(
                    settings.topic, f"schemas {sorted(total.missing_schema_ids)} ask for columns that they do not name"
                )
            columns = wider
            shutil.rmtree(target, ignore_errors=True)
        raise LoadUnproven(settings.topic, f"new schemas were met in {SCHEMA_ROUNDS} readings, each time others")

    def _spark_writes(
        self,
        columns: pa.Schema,
        splits: Sequence[OffsetRange],
        target: Path,
        counted: Path,
        only_hours: Collection[int] | None,
    ) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.types import from_arrow_schema

        from .session import start_session

        settings = self._settings
        if self._session is None:
            self._session = start_session(f"headrace load {settings.topic}", target.with_name(SCRATCH), master=settings.master)
        schema = from_arrow_schema(pa.schema([*columns, *SYSTEM_COLUMNS]))
        options = {
            "bootstrap": settings.bootstrap,
            "topic": settings.topic,
            "registry": settings.registry_url,
            "ranges": ranges_to_json(splits),
            "quarantine": settings.quarantine_bootstrap,
            "receipts": str(counted),
        }
        try:
            rows = self._session.read.format("headrace").schema(schema).options(**options).load()
            hours = rows.withColumn(HOUR_FIELD, F.expr("cast(floor(unix_seconds(_timestamp) / 3600) as bigint)"))
            hour = F.col(f"`{HOUR_FIELD}`")
            if only_hours is not None:
                hours = hours.where(F.greatest(hour, F.lit(BEFORE_1970)).isin(*only_hours))
            # Rebalance: the rows of one hour come together, so that files are few; a huge hour is still split over tasks.
            sorted_hours = hours.hint("rebalance", hour).sortWithinPartitions(hour, "_timestamp")
            sorted_hours.write.partitionBy(HOUR_FIELD).parquet(str(target))
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


def _first_lines(error: Exception) -> str:
    """Return the useful part of Spark's message: the end of a Python traceback if there is one, else the first lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error" in line.split(":")[0] or line.startswith("headrace.")]
    return " | ".join(causes[-2:] or lines[:3])[:600]
