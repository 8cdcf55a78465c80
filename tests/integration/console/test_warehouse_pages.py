"""The warehouse's pages over a real table: what loads and publishes commit, read by the console's own child process.

The folder with its SQLite catalog is the cheapest warehouse that there is; no Spark runs. `stored_table` commits as a load does.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headrace.console.answers import Answers
from headrace.console.warehouse_asking import Asking
from headrace.console.web import application
from headrace.runtime.clock import SystemClock
from headrace.runtime.layout import Layout
from headrace.spark.warehouse.settings import WarehouseSettings
from tests.support.processes import eventually
from tests.support.stored_table import Stored

HOUR = 400_000
"""2015-08-19 16:00."""
TOPIC = "clicks"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Of two hours the first is published, and got a late row since; the audit says that the second lacks records."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    layout = Layout.from_environment()
    table = Stored(WarehouseSettings.of(layout), TOPIC)
    table.audit.incomplete.add(HOUR + 1)
    table.load(HOUR, 3)
    table.load(HOUR + 1, 2)
    table.publish()
    table.load(HOUR, 1)
    clock = SystemClock()
    answers, asking = Answers(layout, clock, is_read_only=False), Asking(layout, clock)
    yield TestClient(application(answers, asking), raise_server_exceptions=False)
    asking.close()
    answers.close()


def read(console: TestClient, path: str) -> str:
    """Return the page once the warehouse has answered."""

    def page() -> str:
        answer = console.get(path)
        assert answer.status_code == 200, answer.text
        return "" if "is being read" in answer.text else answer.text

    return eventually(page, within_ms=60_000, every_ms=200, what=f"{path} is read")


def rows(page: str) -> list[list[str]]:
    """Return the words of each row of the page's first table."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.sub(r"<[^>]*>", "|", line).strip("|").split("||") for line in body.splitlines() if "<tr>" in line]


def test_tables_hours_and_proofs_are_those_of_the_table_and_the_query_reads_what_it_says(console: TestClient) -> None:
    assert "this takes some seconds" in console.get("/warehouse").text
    (only,) = rows(read(console, "/warehouse"))
    assert [one.strip("|") for one in only] == [TOPIC, "2", "1", "6", "3", "3"]
    page = read(console, f"/warehouse?topic={TOPIC}")
    newest, oldest = rows(page)
    assert [one.strip("|") for one in newest[:5]] == ["2015-08-19 17:00", "2", "not proven", "not published", "0"]
    assert [one.strip("|") for one in oldest[:5]] == ["2015-08-19 16:00", "4", "COMPLETE, revision 1", "3", "1"]
    proof = read(console, f"/proof?topic={TOPIC}&hour={HOUR}")
    for words in ("Revision 1", "COMPLETE", "3 rows", "part-0.parquet"):
        assert words in proof
    assert rows(proof) == [["0", "0", "3", "3", "5"]]
    assert "has no proof yet" in read(console, f"/proof?topic={TOPIC}&hour={HOUR + 1}")
    query = re.search(r"<code>(headrace query .*?)</code>", page)
    assert query is not None
    command = shlex.split(query[1].replace("&#34;", '"').replace("&#39;", "'").replace("&gt;", ">").replace("&lt;", "<"))
    done = subprocess.run([sys.executable, "-m", "headrace.cli.main", *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path for path in ("/0", "/1", "/2", "/3") if path in done.stdout.split()] == ["/0", "/1", "/2"], done.stdout


def test_a_topic_without_a_table_is_named(console: TestClient) -> None:
    page = read(console, "/warehouse?topic=nobody")
    assert "The warehouse cannot be read" in page
    assert "nobody" in page
