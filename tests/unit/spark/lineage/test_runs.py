"""Events of real runs, through the official client's own transports: a file, and HTTP to servers that answer, hang or are away.

`schema/` holds the structure of OpenLineage's schemas, without their words (Apache-2.0, its repository's `spec/` at 8f02abfb7).
"""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from headrace.spark.lineage import datasets, emitter
from headrace.spark.lineage.datasets import HourFact, TableDataset, TopicDataset
from headrace.spark.lineage.runs import observed_run

HERE = Path(__file__).parent
FACET = Path(datasets.__file__).with_name("completeness_facet.json")
SCHEMAS = [json.loads(path.read_text()) for path in (*sorted((HERE / "schema").glob("*.json")), FACET)]
REGISTRY: Registry[Any] = Registry().with_resources([(one["$id"], Resource.from_contents(one)) for one in SCHEMAS])
TOPIC = TopicDataset(bootstrap="127.0.0.1:9192,127.0.0.1:9193", topic="clicks")
HOUR = HourFact(hour="2015-05-17T10", verdict="COMPLETE", revision=2, row_count=3)
PUBLISHED = TableDataset(
    location="file:///w/tables/clicks", branch="main", snapshot_id=7, row_count=3, size_bytes=900, file_count=1, topic="clicks",
    hours=[HOUR],
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a file transport, configured as a user would."""
    path = tmp_path / "events.jsonl"
    (tmp_path / "openlineage.yml").write_text(f"transport: {{type: file, log_file_path: {path}, append: true}}\n")
    return path


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def check(schema: str, words: Any) -> None:
    jsonschema.Draft202012Validator({"$ref": schema}, registry=REGISTRY).validate(words)


def lost(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [getattr(one, "fields", {}) for one in caplog.records if "lineage_not_sent" in one.getMessage()]


def test_a_publish_is_told_with_rows_bytes_and_proven_hours_as_the_schemas_ask(file: Path) -> None:
    with observed_run("publish", "clicks", inputs=[TOPIC]) as run:
        run.wrote(lambda: PUBLISHED)
    start, complete = events(file)
    for event in (start, complete):
        check("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent", event)
        check(event["job"]["facets"]["jobType"]["_schemaURL"], event["job"]["facets"]["jobType"])
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("headrace", "publish.clicks")
    assert [(one["namespace"], one["name"]) for one in complete["inputs"]] == [("kafka://127.0.0.1:9192", "clicks")]
    (output,) = complete["outputs"]
    assert (output["namespace"], output["name"]) == ("file", "/w/tables/clicks")
    counts, facet = output["outputFacets"]["outputStatistics"], output["facets"][datasets.COMPLETENESS]
    for one in (counts, facet, output["facets"]["version"]):
        check(one["_schemaURL"], one)
    assert (counts["rowCount"], counts["size"], counts["fileCount"]) == (3, 900, 1)
    assert output["facets"]["version"]["datasetVersion"] == "7"
    proven = {"hour": "2015-05-17T10", "verdict": "COMPLETE", "missing": 0, "doubled": 0, "altered": 0}
    assert facet["hours"] == [{**proven, "rowCount": 3, "proofRevision": 2}]
    assert (facet["topic"], facet["more"]) == ("clicks", 0)


def test_the_facets_schema_refuses_an_hour_without_its_revision(file: Path) -> None:
    with observed_run("publish", "clicks", inputs=[]) as run:
        run.wrote(lambda: PUBLISHED)
    facet = events(file)[1]["outputs"][0]["facets"][datasets.COMPLETENESS]
    del facet["hours"][0]["proofRevision"]
    with pytest.raises(jsonschema.ValidationError, match="proofRevision"):
        check(facet["_schemaURL"], facet)


def test_a_run_that_fails_is_told_as_fail_and_raises_its_own_error(file: Path) -> None:
    with pytest.raises(ArithmeticError, match="no room"):
        with observed_run("load", "clicks", inputs=[TOPIC]):
            raise ArithmeticError("no room")
    start, fail = events(file)
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    message = fail["run"]["facets"]["errorMessage"]
    check(message["_schemaURL"], message)
    assert message["message"] == "ArithmeticError: no room"


def test_an_output_that_cannot_be_described_costs_its_event_and_not_the_run(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    def unknown() -> TableDataset:
        raise OSError("the catalog is away")

    with observed_run("load", "clicks", inputs=[]) as run:
        run.wrote(unknown)
    assert [event["eventType"] for event in events(file)] == ["START"]
    assert [line["reason"] for line in lost(caplog)] == ["OSError: the catalog is away"]


def test_many_hours_are_bounded_and_the_rest_counted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "MAX_HOURS", 2)
    hours = [HourFact(hour=f"2015-05-17T{at:02}", verdict="COMPLETE", revision=1, row_count=at) for at in (5, 3, 4)]
    with observed_run("publish", "clicks", inputs=[]) as run:
        run.wrote(lambda: TableDataset(location="/w", branch="main", topic="clicks", hours=hours))
    facet = events(file)[1]["outputs"][0]["facets"][datasets.COMPLETENESS]
    assert ([one["hour"] for one in facet["hours"]], facet["more"]) == (["2015-05-17T04", "2015-05-17T05"], 1)


def test_without_a_transport_the_client_is_not_even_imported() -> None:
    code = (
        "import sys\nfrom headrace.spark.lineage.runs import observed_run\n"
        "with observed_run('load', 'clicks', inputs=[]) as run: pass\n"
        "print([name for name in sys.modules if name.startswith('openlineage')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("environment", "answer"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://127.0.0.1:1"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_URL": "http://127.0.0.1:1", "OPENLINEAGE_DISABLED": "True"}, False),
        ({"OPENLINEAGE_CONFIG": "/nowhere/openlineage.yml"}, False),
    ],
)
def test_a_transport_is_looked_for_where_the_client_looks(environment: dict[str, str], answer: bool) -> None:
    assert emitter.is_configured(environment) is answer


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """A server that keeps what is sent to it: its URL, and the list of paths and events."""
    found: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}", found
        finally:
            httpd.shutdown()
            thread.join()


def test_events_go_to_the_url_of_the_environment(
    server: tuple[str, list[tuple[str, dict[str, Any]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", server[0])
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    with observed_run("load", "clicks", inputs=[TOPIC]) as run:
        run.wrote(
            lambda: TableDataset(location="file:///w/tables/clicks", branch="loads", row_count=1, size_bytes=2, file_count=1)
        )
    assert [(path, event["eventType"]) for path, event in server[1]] == [
        ("/api/v1/lineage", "START"),
        ("/api/v1/lineage", "COMPLETE"),
    ]
    assert server[1][1][1]["job"]["namespace"] == "shop"
    assert server[1][1][1]["outputs"][0]["name"] == "/w/tables/clicks@loads"


def test_a_server_that_is_away_costs_a_bounded_wait_and_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{port}")
    run_to_end_despite_the_transport(monkeypatch, caplog)


def test_a_server_that_never_answers_costs_a_bounded_wait_and_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        run_to_end_despite_the_transport(monkeypatch, caplog)


def test_a_transport_that_does_not_exist_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "nowhere.Transport")
    reason = run_to_end_despite_the_transport(monkeypatch, caplog)
    assert "nowhere" in reason


def run_to_end_despite_the_transport(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> str:
    """Run a job whose two events cannot be sent; return the reason in the one line about it."""
    monkeypatch.setattr(emitter, "CLOSE_MS", 500)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        with observed_run("load", "clicks", inputs=[TOPIC]) as run:
            run.wrote(lambda: PUBLISHED)
            done = True
    assert done
    assert [one.name for one in caplog.records if not one.name.startswith("headrace")] == []
    assert time.monotonic() - began < 5, "the end of the run waited for the transport"
    (line,) = lost(caplog)
    assert (line["sent"], line["lost"]) == (0, 2)
    reason: str = line["reason"]
    return reason


@pytest.mark.parametrize(
    ("dataset", "named"),
    [
        (TopicDataset(bootstrap="h:9092", topic="a.b"), ("kafka://h:9092", "a.b")),
        (TableDataset(location="file:///w/t", branch="main"), ("file", "/w/t")),
        (TableDataset(location="/w/t", branch="loads"), ("file", "/w/t@loads")),
        (TableDataset(location="s3://bucket/w/t", branch="main"), ("s3://bucket", "w/t")),
    ],
)
def test_datasets_are_named_as_openlineage_names_them(dataset: TopicDataset | TableDataset, named: tuple[str, str]) -> None:
    assert datasets.name_of(dataset) == named
