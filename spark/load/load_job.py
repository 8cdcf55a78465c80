"""The load: all new records of one topic, from the offline cluster into its Iceberg table, in one commit.

    what is new     the table's offsets against the log's ends, in plain Python: if nothing is new, no JVM starts
    Spark           splits in parallel -> rows -> one hour a file -> the run's own folder; rejects -> quarantine, acknowledged
    one commit      files, offset ranges, new columns, and the record of digests and quarantined records, on the branch `loads`

A crash before the commit leaves a folder that no reader sees. After a crash after the commit, the next run finds nothing new. Of
two loads at once, one commits; the other deletes its files and starts again. This module does not decide when to load (the DAG
does) or which hours are open (the gate does).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...audit.model.messages import Skipped
from ...errors import HeadraceError
from ...runtime import failpoints, logs
from ...runtime.layout import Layout
from ..errors import LeaseLost, LoadSuperseded, LoadUnproven
from ..lineage.datasets import TableDataset, TopicDataset
from ..lineage.runs import observed_run
from ..source import task_reports
from ..source.log_ends import check_still_there, log_ends
from ..source.offset_ranges import OffsetRange, new_ranges, ranges_to_json
from ..warehouse.hours import hours_of_names
from ..warehouse.load_record import LoadRecord
from ..warehouse.settings import WarehouseSettings
from ..warehouse.store import StorePath, below, fetched, uri_of
from ..warehouse.topic_table import LOADS, TopicTable
from ..warehouse.warehouse import Warehouse
from .reload_job import ReloadJob
from .row_writer import RowWriter
from .settings import SPLITS, LoadSettings
from .staging import StagingFolder, sweep

log = logs.get_logger(__name__)

ROUNDS = 3
"""How often a load starts again because another one committed first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """The result of one load."""

    topic: str
    run: str | None = None
    """None: nothing was new."""
    snapshot_id: int | None = None
    row_count: int = 0
    file_count: int = 0
    size_bytes: int = 0
    """Of the files."""
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Code → quarantined records or ranges."""
    ranges: tuple[OffsetRange, ...] = ()


class LoadJob:
    """One load of one topic; `run` may be called once."""

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings
        self._warehouse = Warehouse(settings.warehouse)
        self._writer = RowWriter(settings)

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
            read = TopicDataset(bootstrap=self._settings.bootstrap, topic=topic)
            with observed_run("load", topic, inputs=[read]) as observed:
                outcome = self._load(table, ranges, loaded)
                if outcome is not None:
                    observed.wrote(partial(_written, outcome, self._warehouse))
                    return outcome
            log.info("load_superseded", topic=topic)
        raise LoadSuperseded(topic, ROUNDS)

    def _load(self, table: TopicTable | None, ranges: Sequence[OffsetRange], loaded: Mapping[int, int]) -> LoadOutcome | None:
        """Write and commit `ranges`; return None if another load committed first."""
        settings = self._settings
        folder = StagingFolder(self._warehouse, settings.topic).open()
        is_ours_to_discard, is_decided = True, False
        try:
            sweep(self._warehouse, settings.topic)
            log.info("load_began", topic=settings.topic, run=folder.name, ranges=ranges_to_json(ranges))
            columns, files, total = self._write(table, ranges, folder)
            check_still_there(settings.topic, ranges, log_ends(settings.bootstrap, settings.topic))
            if table is None:
                table = self._warehouse.table_with(settings.topic, columns)
            failpoints.reach("load.before_commit", settings.home)
            checksums, size_bytes = self._looked_at(files, total.row_count)
            folder.check()
            # The commit may have succeeded before the error. The sweep then decides about the files: it knows which ones a
            # snapshot names.
            is_ours_to_discard = False
            record = LoadRecord(
                run=folder.name,
                ranges=tuple(ranges),
                row_count=total.row_count,
                digests=total.digests,
                quarantined=total.quarantined,
                skipped=_skipped(ranges, loaded, total.skipped),
                files={below(path, folder.path): checksums[path] for path in files},
            )
            is_committed = table.commit_load(record=record, files=files, event_columns=columns)
            is_decided = True
            if not is_committed:
                is_ours_to_discard = True
                return None
            log.info("load_committed", topic=settings.topic, run=folder.name, rows=total.row_count, files=len(files))
            failpoints.reach("load.after_commit", settings.home)
            return LoadOutcome(
                topic=settings.topic,
                run=folder.name,
                snapshot_id=table.snapshot_id(LOADS),
                row_count=total.row_count,
                file_count=len(files),
                size_bytes=size_bytes,
                quarantined=total.quarantined_by_code,
                ranges=tuple(ranges),
            )
        except LeaseLost:
            log.warning("load_taken_for_dead", topic=settings.topic, run=folder.name)
            return None
        finally:
            self._writer.close()
            folder.close(discard=is_ours_to_discard, is_decided=is_decided)

    def _write(
        self, table: TopicTable | None, ranges: Sequence[OffsetRange], folder: StagingFolder
    ) -> tuple[pa.Schema, list[StorePath], task_reports.Total]:
        columns = table.event_columns() if table is not None else pa.schema([])
        written = self._writer.write(columns, ranges, folder.path, scratch=folder.scratch)
        return written.columns, written.files, written.total

    def _looked_at(self, files: Sequence[StorePath], row_count: int) -> tuple[dict[StorePath, str], int]:
        """Return each file's SHA-256, and all bytes, as the store gives them back.

        Raises LoadUnproven if they do not hold so many rows.
        """
        found: dict[StorePath, str] = {}
        written = size_bytes = 0
        for path in files:
            with fetched(path) as here:
                found[path] = here.sha256
                written += pq.read_metadata(here.path).num_rows
                size_bytes += here.path.stat().st_size
        if written != row_count:
            raise LoadUnproven(self._settings.topic, f"{row_count} rows were read and {written} stand in the files")
        return found, size_bytes


def _written(outcome: LoadOutcome, warehouse: Warehouse) -> TableDataset:
    return TableDataset(
        location=uri_of(warehouse.data_folder(outcome.topic).parent),
        branch=LOADS,
        snapshot_id=outcome.snapshot_id,
        row_count=outcome.row_count,
        size_bytes=outcome.size_bytes,
        file_count=outcome.file_count,
    )


def _skipped(
    ranges: Sequence[OffsetRange], loaded: Mapping[int, int], unreadable: Mapping[int, Sequence[Skipped]]
) -> dict[int, list[Skipped]]:
    """Return the offsets that this load passed over, by partition: those that had expired, and those that could not be read."""
    found = {partition: list(some) for partition, some in unreadable.items()}
    for one in ranges:
        begin = loaded.get(one.partition, 0)
        if begin < one.from_offset:
            found.setdefault(one.partition, []).insert(0, Skipped(begin, one.from_offset, "expired"))
    return found


def _warn_of_expired(topic: str, loaded: Mapping[int, int], new: Sequence[OffsetRange]) -> None:
    for one in new:
        if one.from_offset > loaded.get(one.partition, 0):
            log.warning(
                "offsets_expired_before_load",
                topic=topic,
                partition=one.partition,
                from_offset=loaded.get(one.partition, 0),
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
    parser.add_argument("--warehouse", type=Path, help="a local warehouse's folder (default: what the settings name)")
    parser.add_argument("--pieces", type=int, default=SPLITS, help="about how many tasks read (default %(default)s)")
    parser.add_argument(
        "--reload", action="append", default=[], metavar="HOUR[..HOUR]", help="read these hours again, and load nothing new"
    )
    arguments = parser.parse_args(words)
    logs.configure("load")
    settings = LoadSettings(
        topic=arguments.topic,
        bootstrap=arguments.bootstrap,
        quarantine_bootstrap=arguments.quarantine,
        registry_url=arguments.registry,
        warehouse=arguments.warehouse or WarehouseSettings.of(layout),
        home=layout.home,
        master=arguments.master,
        splits=arguments.pieces,
    )
    try:
        if arguments.reload:
            again = ReloadJob(settings, hours_of_names(arguments.reload)).run()
            log.info("reload_ended", topic=again.topic, rows=again.row_count, hours=list(again.hours))
            return 0
        outcome = LoadJob(settings).run()
    except HeadraceError as error:
        print(f"load: {error}", file=sys.stderr)  # noqa: T201
        return 1
    log.info("load_ended", topic=outcome.topic, run=outcome.run, rows=outcome.row_count, quarantined=dict(outcome.quarantined))
    return 0


if __name__ == "__main__":
    sys.exit(main())
