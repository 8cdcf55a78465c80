"""A proxy repeats a commit's request: the catalog takes the first, and refuses the second, which is what the client hears of."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.load.topic_load import TopicLoad
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.task_reports import Total
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.stored_rows import EVENT, write_rows
from tests.support.stored_table import Stored

TOPIC = "clicks"


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every commit to a table reach the catalog twice; what the second was answered is listed."""
    once = SqlCatalog.commit_table
    answers: list[str] = []

    def twice(catalog: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
        once(catalog, table, requirements, updates)
        try:
            return once(catalog, table, requirements, updates)
        except Exception as error:
            answers.append(type(error).__name__)
            raise

    monkeypatch.setattr(SqlCatalog, "commit_table", twice)
    return answers


def test_a_load_whose_commit_is_refused_the_second_time_keeps_its_files_and_its_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeated: list[str]
) -> None:
    """Fault: pyiceberg deleted the manifests that the landed commit names, and the load deleted its files."""

    def write(job: LoadJob, load: TopicLoad) -> object:
        rows = [(0, offset, offset) for one in load.ranges for offset in range(one.from_offset, one.to_offset)]
        return EVENT, write_rows(load.path / "rows-0", rows), Total(row_count=len(rows))

    end = [0]
    monkeypatch.setattr("headrace.spark.load.load_job.log_ends", lambda *_: LogEnds(start={0: 0}, end={0: end[0]}))
    monkeypatch.setattr(LoadJob, "_write", write)
    settings = LoadSettings(topic=TOPIC, bootstrap="-", quarantine_bootstrap="-", registry_url="-", warehouse=tmp_path, home=None)
    for end[0] in (3, 5):
        assert LoadJob(settings).run().row_count == (3 if end[0] == 3 else 2)
        assert Stored(tmp_path, TOPIC).rows(LOADS) == list(range(end[0]))
    assert repeated.count("CommitFailedException") >= 2, repeated


def test_a_publish_whose_commit_is_refused_the_second_time_has_published(tmp_path: Path, repeated: list[str]) -> None:
    """Fault: as for loads, and the proofs were taken back with it."""
    stored = Stored(tmp_path, TOPIC)
    stored.load(0, 2)
    stored.load(1, 3)
    assert len(stored.publish().published) == 2
    assert stored.rows(MAIN) == list(range(5))
    again = stored.publish()
    assert again.withdrawn == ()
    assert stored.rows(MAIN) == list(range(5))
    assert "CommitFailedException" in repeated
