"""Loads and publishes tell OpenLineage what they wrote; the file transport shows what was reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.layout import Layout
from headrace.spark.errors import AuditUnreachable
from headrace.spark.lineage.datasets import COMPLETENESS
from headrace.spark.load import load_job
from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.load.topic_load import TopicLoad
from headrace.spark.publish import publish_job
from headrace.spark.publish.publish_job import run_publish
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.task_reports import Total
from tests.support.stored_rows import EVENT, write_rows
from tests.support.stored_table import Stored


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(path))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return path


def events(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()]


def test_a_load_tells_its_topic_and_what_it_added_to_the_branch_loads(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(job: LoadJob, load: TopicLoad) -> Any:
        return EVENT, write_rows(load.path / "rows-0", [(0, 0, 5), (0, 1, 6)]), Total(row_count=2)

    monkeypatch.setattr(load_job, "log_ends", lambda bootstrap, topic: LogEnds(start={0: 0}, end={0: 100}))
    monkeypatch.setattr(LoadJob, "_write", write)
    settings = LoadSettings(
        topic="clicks", bootstrap="h:9192", quarantine_bootstrap="-", registry_url="-", warehouse=tmp_path / "w", home=None
    )
    done = LoadJob(settings).run()
    assert LoadJob(settings).run().run is None
    start, complete = events(told)
    assert (start["eventType"], complete["eventType"], complete["job"]["name"]) == ("START", "COMPLETE", "load.clicks")
    assert [(one["namespace"], one["name"]) for one in complete["inputs"]] == [("kafka://h:9192", "clicks")]
    (output,) = complete["outputs"]
    assert output["name"] == f"{tmp_path}/w/tables/clicks@loads"
    counts = output["outputFacets"]["outputStatistics"]
    size = sum(path.stat().st_size for path in (tmp_path / "w").rglob("*.parquet"))
    assert (counts["rowCount"], counts["fileCount"], counts["size"]) == (2, 1, size)
    assert output["facets"]["version"]["datasetVersion"] == str(done.snapshot_id)


def test_a_publish_tells_what_it_added_and_the_proofs_that_it_wrote(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(home=tmp_path)
    stored = Stored(layout.warehouse, "clicks")
    monkeypatch.setattr(publish_job, "ask_audit", lambda url: stored.audit.ask)
    monkeypatch.setattr(publish_job, "ask_for_sequences", lambda url: lambda topic, hour: {})
    stored.load(0, 3)
    stored.load(1, 4)
    stored.audit.incomplete = {1}
    stored.count()
    run_publish(layout, "clicks", wait_ms=0)
    run_publish(layout, "clicks", wait_ms=0)
    first, second = [event for event in events(told) if event["eventType"] == "COMPLETE"]
    (output,) = first["outputs"]
    assert output["name"] == f"{layout.warehouse.absolute()}/tables/clicks"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3
    proven = {"hour": "1970-01-01T00", "verdict": "COMPLETE", "rowCount": 3, "proofRevision": 1}
    assert output["facets"][COMPLETENESS]["hours"] == [{**proven, "missing": 0, "doubled": 0, "altered": 0}]
    assert second["outputs"] == []
    assert first["inputs"][0]["name"] == f"{layout.warehouse.absolute()}/tables/clicks@loads"
    stored.audit.altered = {0: 1}
    run_publish(layout, "clicks", wait_ms=0)
    (gone,) = events(told)[-1]["outputs"][0]["facets"][COMPLETENESS]["hours"]
    assert (gone["verdict"], gone["rowCount"], gone["proofRevision"]) == ("WITHDRAWN", 0, 2)


def test_a_publish_without_the_audit_is_told_as_failed(told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(home=tmp_path)
    Stored(layout.warehouse, "clicks").load(0, 1)

    def ask(topic: str) -> Any:
        raise AuditUnreachable("it is away")

    monkeypatch.setattr(publish_job, "ask_audit", lambda url: ask)
    with pytest.raises(AuditUnreachable):
        run_publish(layout, "clicks", wait_ms=0)
    assert "it is away" in events(told)[-1]["run"]["facets"]["errorMessage"]["message"]
