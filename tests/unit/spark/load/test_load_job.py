"""What a load does around Spark: it begins again when another came first, and never deletes what may have been committed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.errors import LoadSuperseded, LogMoved, WarehouseError
from headrace.spark.load import load_job
from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.task_reports import Total
from headrace.spark.warehouse.topic_table import TopicTable
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import EVENT, span, store, write_rows

Between = Callable[[], None]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "PretendLoad":
    return PretendLoad(tmp_path, monkeypatch)


class PretendLoad:
    """A load whose cluster and Spark are pretended: the log ends at `end`, and two rows are written for what is new."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warehouse = Warehouse(folder)
        self.ends = [LogEnds(start={0: 0}, end={0: 100})]
        self.written: list[Sequence[Any]] = []
        self.between: Between = lambda: None
        monkeypatch.setattr(
            load_job, "log_ends", lambda bootstrap, topic: self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        )
        monkeypatch.setattr(LoadJob, "_write", lambda _, load: self._write(load.ranges, load.path))
        self._job = LoadJob(
            LoadSettings(
                topic="clicks",
                bootstrap="-",
                quarantine_bootstrap="-",
                registry_url="-",
                warehouse=folder,
                home=None,
            )
        )
        self.run = self._job.run

    def _write(self, ranges: Sequence[Any], path: Path) -> tuple[Any, list[Path], Total]:
        self.written.append(ranges)
        begin = ranges[0].from_offset
        files = write_rows(path / "rows-0", [(0, begin, 5), (0, begin + 1, 6)])
        self.between()
        return EVENT, files, Total(row_count=2)

    def files(self) -> set[Path]:
        return set(self.warehouse.data_folder("clicks").glob("*/rows-*/*/*.parquet"))


def test_a_load_that_was_overtaken_gives_its_files_up_and_loads_what_is_left(job: PretendLoad) -> None:
    def other() -> None:
        if len(job.written) == 1:
            store(job.warehouse, "other", [(0, 0, 5)], [span(0, 0, 60)])

    job.between = other
    done = job.run()
    assert [ranges[0] for ranges in job.written] == [span(0, 0, 100), span(0, 60, 100)]
    assert done.row_count == 2
    table = job.warehouse.existing_table("clicks")
    assert (table.offsets(), table.row_counts_by_hour()) == ({0: 100}, {0: 3})
    assert job.files() <= table.referenced_paths()


def test_a_load_that_is_always_overtaken_ends_with_an_error(job: PretendLoad) -> None:
    def other() -> None:
        store(job.warehouse, f"other-{len(job.written)}", [], [span(0, 10 * (len(job.written) - 1), 10 * len(job.written))])

    job.between = other
    with pytest.raises(LoadSuperseded, match="3 times"):
        job.run()
    assert len(job.written) == load_job.ROUNDS
    assert job.files() == set()


def test_a_log_that_lost_its_end_while_it_was_read_is_not_committed(job: PretendLoad) -> None:
    job.ends = [LogEnds(start={0: 0}, end={0: 100}), LogEnds(start={0: 0}, end={0: 80})]
    with pytest.raises(LogMoved, match="was to be read to 100 and the log now ends at 80"):
        job.run()
    assert job.warehouse.table("clicks") is None
    assert job.files() == set()


def test_a_log_that_lost_its_beginning_while_it_was_read_is_not_committed(job: PretendLoad) -> None:
    job.ends = [LogEnds(start={0: 0}, end={0: 100}), LogEnds(start={0: 30}, end={0: 100})]
    with pytest.raises(LogMoved, match="now begins at 30"):
        job.run()


def test_files_whose_commit_ended_in_an_error_are_kept_because_it_may_have_landed(
    job: PretendLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = TopicTable.commit_load

    def lands_and_fails(table: TopicTable, **words: Any) -> bool:
        assert commit(table, **words)
        raise WarehouseError("the connection broke after the commit")

    monkeypatch.setattr(TopicTable, "commit_load", lands_and_fails)
    with pytest.raises(WarehouseError, match="broke"):
        job.run()
    monkeypatch.undo()
    table = job.warehouse.existing_table("clicks")
    assert table.row_counts_by_hour() == {0: 2}
    assert job.files() == {path for path in table.referenced_paths() if path.suffix == ".parquet"}


def test_every_partition_is_named_in_the_commit_also_those_with_nothing_new(job: PretendLoad) -> None:
    job.ends = [LogEnds(start={0: 0, 1: 7, 2: 0}, end={0: 100, 1: 7, 2: 0})]
    assert job.run().ranges == (span(0, 0, 100), span(1, 7, 7), span(2, 0, 0))
    assert job.run().run is None
