"""The load: all new records of one topic, from the offline cluster into its Iceberg table, in one commit.

    what is new     the table's offsets against the log's ends, in plain Python: if nothing is new, no JVM starts
    Spark           splits in parallel -> rows -> one hour a file -> the run's own folder; rejects -> quarantine, acknowledged
    one commit      files, offset ranges, quarantine counts, new columns

A crash before the commit leaves a folder that no reader sees. After a crash after the commit, the next run finds nothing new. Of
two loads at once, one commits; the other deletes its files and starts again. This module does not decide when to load (the DAG
does) or which hours are open (the gate does).
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import HeadraceError
from ...runtime import failpoints, logs
from ...runtime.layout import Layout
from ...schema_registry.client.registry_client import RegistryClient
from ..errors import LoadSuperseded, LoadUnproven, SparkFailed
from ..source import task_reports
from ..source.columns import HOUR_FIELD, SYSTEM_COLUMNS
from ..source.log_ends import check_still_there, log_ends
from ..source.offset_ranges import OffsetRange, new_ranges, ranges_to_json, split_ranges
from ..source.subject_schemas import event_columns, schemas_by_id, subject_schemas
from ..warehouse.topic_table import TopicTable
from ..warehouse.warehouse import Warehouse
from .staging import SCRATCH, StagingFolder, sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logs.get_logger(__name__)

SPLITS = 4
"""About how many tasks read at once. More data makes more tasks, and none reads more than `max_split_span`."""
ROUNDS = 3
"""How often a load starts again because another one committed first."""
SCHEMA_ROUNDS = 5
"""How often it reads again because records have schemas that the registry's subject does not list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The addresses and folders of a load."""

    topic: str
    bootstrap: str
    quarantine_bootstrap: str
    registry_url: str
    warehouse: Path
    home: Path | None
    """The folder of the failpoints; None: no failpoints."""
    master: str | None = None
    """Spark's master; None: local[2], or the one given to spark-submit."""
    splits: int = SPLITS
    max_split_span: int = 64 << 20
    """The most offsets (bytes, in a byte-addressed log) of one task."""

    @classmethod
    def of(cls, layout: Layout, topic: str, *, master: str | None = None) -> "LoadSettings":
        """Return the settings of a local platform."""
        return cls(
            topic=topic,
            bootstrap=layout.offline_bootstrap,
            quarantine_bootstrap=layout.live_bootstrap,
            registry_url=layout.registry_url,
            warehouse=layout.warehouse,
            home=layout.home,
            master=master,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """The result of one load."""

    topic: str
    run: str | None = None
    """None: nothing was new."""
    snapshot_id: int | None = None
    row_count: int = 0
    file_count: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Code → quarantined records or ranges."""
    ranges: tuple[OffsetRange, ...] = ()


class LoadJob:
    """One load of one topic; `run` may be called once."""

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings
        self._warehouse = Warehouse(settings.warehouse)
        self._session: SparkSession | None = None

    def run(self) -> LoadOutcome:
        """Load what is new and return the result.

        Raises WarehouseError, ClientError, RegistryError; then nothing was committed.
        """
        topic = self._settings.topic
        for _ in range(ROUNDS):
            table = self._warehouse.table(topic)
            ends = log_ends(self._settings.bootstrap, topic)
            loaded = table.offsets() if table is not None else {}
            new = new_ranges(loaded=loaded, log_start=ends.start, log_end=ends.end, topic=topic)
            if not new:
                return LoadOutcome(topic=topic)
            _warn_of_expired(topic, loaded, new)
            # Partitions with nothing new are listed too: an empty range means that the warehouse has everything up to their end.
            moved = {one.partition: one for one in new}
            ranges = [
                moved.get(partition)
                or OffsetRange(partition=partition, from_offset=max(end, loaded.get(partition, 0)), to_offset=end)
                for partition, end in sorted(ends.end.items())
            ]
            outcome = self._load(table, ranges)
            if outcome is not None:
                return outcome
            log.info("load_superseded", topic=topic)
        raise LoadSuperseded(topic, ROUNDS)

    def _load(self, table: TopicTable | None, ranges: Sequence[OffsetRange]) -> LoadOutcome | None:
        """Write and commit `ranges`; return None if another load committed first."""
        settings = self._settings
        data_folder = self._warehouse.data_folder(settings.topic)
        folder = StagingFolder(data_folder).open()
        is_ours_to_discard = True
        try:
            sweep(data_folder, self._referenced)
            log.info("load_began", topic=settings.topic, run=folder.name, ranges=ranges_to_json(ranges))
            columns, files, total = self._write(table, ranges, folder.path)
            check_still_there(settings.topic, ranges, log_ends(settings.bootstrap, settings.topic))
            if table is None:
                table = self._warehouse.table_with(settings.topic, columns)
            failpoints.reach("load.before_commit", settings.home)
            # The commit may have succeeded before the error. The sweep then decides about the files: it knows which ones a
            # snapshot names.
            is_ours_to_discard = False
            is_committed = table.commit_load(
                run=folder.name,
                files=files,
                ranges=ranges,
                quarantined=total.quarantined,
                row_count=total.row_count,
                event_columns=columns,
            )
            if not is_committed:
                is_ours_to_discard = True
                return None
            log.info("load_committed", topic=settings.topic, run=folder.name, rows=total.row_count, files=len(files))
            failpoints.reach("load.after_commit", settings.home)
            return LoadOutcome(
                topic=settings.topic,
                run=folder.name,
                snapshot_id=table.snapshot_id,
                row_count=total.row_count,
                file_count=len(files),
                quarantined=total.quarantined_by_code,
                ranges=tuple(ranges),
            )
        finally:
            self._stop_session()
            folder.close(discard=is_ours_to_discard)

    def _write(
        self, table: TopicTable | None, ranges: Sequence[OffsetRange], folder: Path
    ) -> tuple[pa.Schema, list[Path], task_reports.Total]:
        """Let Spark write the rows of `ranges`. Return the event columns, the files, and the sum of the tasks' counts."""
        settings = self._settings
        registry = RegistryClient(settings.registry_url)
        columns = table.event_columns() if table is not None else pa.schema([])
        columns = event_columns(columns, subject_schemas(registry, settings.topic).values())
        splits = split_ranges(ranges, splits=settings.splits, max_span=settings.max_split_span)
        for number in range(SCHEMA_ROUNDS):
            target, counted = folder / f"rows-{number}", folder / f"receipts-{number}"
            self._spark_writes(columns, splits, target, counted)
            total, absent = task_reports.read_all(counted, splits)
            if absent:
                raise LoadUnproven(settings.topic, f"{len(absent)} of {len(splits)} splits left no report in {counted}")
            if not total.missing_schema_ids:
                return columns, self._files(target, total.row_count), total
            wider = event_columns(columns, schemas_by_id(registry, total.missing_schema_ids).values())
            log.info("load_reads_again", topic=settings.topic, schema_ids=sorted(total.missing_schema_ids))
            if wider == columns:
                raise LoadUnproven(
                    settings.topic, f"schemas {sorted(total.missing_schema_ids)} ask for columns that they do not name"
                )
            columns = wider
            shutil.rmtree(target, ignore_errors=True)
        raise LoadUnproven(settings.topic, f"new schemas were met in {SCHEMA_ROUNDS} readings, each time others")

    def _spark_writes(self, columns: pa.Schema, splits: Sequence[OffsetRange], target: Path, counted: Path) -> None:
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
            # Rebalance: the rows of one hour come together, so that files are few; a huge hour is still split over tasks.
            sorted_hours = hours.hint("rebalance", hour).sortWithinPartitions(hour, "_timestamp")
            sorted_hours.write.partitionBy(HOUR_FIELD).parquet(str(target))
        except PySparkException as error:
            raise SparkFailed(settings.topic, _first_lines(error)) from error
        except (Py4JError, OSError, EOFError) as error:
            raise SparkFailed(settings.topic, f"its JVM is gone ({type(error).__name__}: {error})") from error

    def _stop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.stop()
            except Exception as error:  # its JVM may be gone; that error was raised already
                log.warning("spark_not_stopped", reason=str(error).splitlines()[:1])

    def _files(self, target: Path, row_count: int) -> list[Path]:
        files = sorted(target.glob(f"{HOUR_FIELD}=*/*.parquet"))
        written = sum(pq.read_metadata(path).num_rows for path in files)
        if written != row_count:
            raise LoadUnproven(self._settings.topic, f"{row_count} rows were read and {written} stand in the files")
        return files

    def _referenced(self) -> set[Path]:
        table = self._warehouse.table(self._settings.topic)
        return set() if table is None else table.referenced_paths()


def _first_lines(error: Exception) -> str:
    """Return the useful part of Spark's message: the end of a Python traceback if there is one, else the first lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error" in line.split(":")[0] or line.startswith("headrace.")]
    return " | ".join(causes[-2:] or lines[:3])[:600]


def _warn_of_expired(topic: str, loaded: Mapping[int, int], new: Sequence[OffsetRange]) -> None:
    for one in new:
        if one.from_offset > loaded.get(one.partition, 0) and one.partition in loaded:
            log.warning(
                "offsets_expired_before_load",
                topic=topic,
                partition=one.partition,
                from_offset=loaded[one.partition],
                to_offset=one.from_offset,
            )


def main(words: Sequence[str] | None = None) -> int:
    """Run `python -m headrace.spark.load.load_job TOPIC [...]`; spark-submit runs it too (see `submit.py`).

    Addresses default to the layout's.
    """
    layout = Layout.from_environment()
    parser = argparse.ArgumentParser(
        prog="headrace.spark.load.load_job", description="load what is new of one topic into the warehouse"
    )
    parser.add_argument("topic")
    parser.add_argument("--master", help="Spark's master (default: local[2], or spark-submit's)")
    parser.add_argument("--bootstrap", default=layout.offline_bootstrap, help="the cluster to load from (default %(default)s)")
    parser.add_argument("--quarantine", default=layout.live_bootstrap, help="the cluster of the quarantine (default %(default)s)")
    parser.add_argument("--registry", default=layout.registry_url, help="the schema registry (default %(default)s)")
    parser.add_argument("--warehouse", type=Path, default=layout.warehouse, help="the warehouse's folder (default %(default)s)")
    parser.add_argument("--pieces", type=int, default=SPLITS, help="about how many tasks read (default %(default)s)")
    arguments = parser.parse_args(words)
    logs.configure("load")
    settings = LoadSettings(
        topic=arguments.topic,
        bootstrap=arguments.bootstrap,
        quarantine_bootstrap=arguments.quarantine,
        registry_url=arguments.registry,
        warehouse=arguments.warehouse,
        home=layout.home,
        master=arguments.master,
        splits=arguments.pieces,
    )
    try:
        outcome = LoadJob(settings).run()
    except HeadraceError as error:
        print(f"load: {error}", file=sys.stderr)  # noqa: T201
        return 1
    log.info("load_ended", topic=outcome.topic, run=outcome.run, rows=outcome.row_count, quarantined=dict(outcome.quarantined))
    return 0


if __name__ == "__main__":
    sys.exit(main())
