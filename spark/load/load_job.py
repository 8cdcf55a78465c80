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
from functools import partial

import pyarrow as pa

from ...errors import HeadraceError
from ...runtime import logs
from ...runtime.layout import Layout
from ..errors import LoadSuperseded
from ..lineage.datasets import TopicDataset
from ..lineage.runs import observed_run
from ..source import task_reports
from ..source.log_ends import check_still_there, log_ends
from ..source.offset_ranges import OffsetRange
from ..warehouse.hours import hours_of_names
from ..warehouse.store import StorePath
from ..warehouse.topic_table import TopicTable
from ..warehouse.warehouse import Warehouse
from .arguments import add_arguments, settings_of
from .reload_job import ReloadJob
from .row_writer import RowWriter
from .settings import LoadSettings
from .topic_load import LoadOutcome, TopicLoad, dataset_of, ranges_to_load

log = logs.get_logger(__name__)

__all__ = ["LoadJob", "LoadOutcome", "main"]

ROUNDS = 3
"""How often a load starts again because another one committed first."""


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
            ranges = ranges_to_load(topic, loaded=loaded, log_start=ends.start, log_end=ends.end)
            if not ranges:
                return LoadOutcome(topic=topic)
            read = TopicDataset(bootstrap=self._settings.bootstrap, topic=topic)
            with observed_run("load", topic, inputs=[read]) as observed:
                outcome = self._load(table, ranges, loaded)
                if outcome is not None:
                    observed.wrote(partial(dataset_of, outcome, self._warehouse))
                    return outcome
            log.info("load_superseded", topic=topic)
        raise LoadSuperseded(topic, ROUNDS)

    def _load(self, table: TopicTable | None, ranges: Sequence[OffsetRange], loaded: Mapping[int, int]) -> LoadOutcome | None:
        """Write and commit `ranges`; return None if another load committed first."""
        settings = self._settings
        with TopicLoad(settings, self._warehouse, table, ranges=ranges, loaded=loaded) as load:
            try:
                columns, files, total = self._write(load)
                check_still_there(settings.topic, ranges, log_ends(settings.bootstrap, settings.topic))
                return load.commit(columns, files, total)
            finally:
                self._writer.close()

    def _write(self, load: TopicLoad) -> tuple[pa.Schema, list[StorePath], task_reports.Total]:
        written = self._writer.write(load.columns, load.ranges, load.path, scratch=load.scratch)
        load.checks = written.checks
        return written.columns, written.files, written.total


def main(words: Sequence[str] | None = None) -> int:
    """Run `python -m headrace.spark.load.load_job TOPIC [...]`; spark-submit runs it too (see `submit.py`).

    Addresses default to the layout's.
    """
    layout = Layout.from_environment()
    parser = argparse.ArgumentParser(
        prog="headrace.spark.load.load_job", description="load what is new of one topic into the warehouse"
    )
    parser.add_argument("topic")
    add_arguments(parser, layout)
    parser.add_argument(
        "--reload", action="append", default=[], metavar="HOUR[..HOUR]", help="read these hours again, and load nothing new"
    )
    arguments = parser.parse_args(words)
    logs.configure("load")
    settings = settings_of(arguments, layout, arguments.topic)
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
