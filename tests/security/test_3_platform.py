"""The whole platform with both clusters secured: equal to the raw input in every tier, and its secrets nowhere.

Live: SCRAM-SHA-512 over TLS. Offline: client certificates. Everything reads `HEADRACE_CLIENT_CONFIG`, but for Airflow's tasks:
they have two Connections. One platform for all tests, in the order of the file.
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.airflow.runs import _ask, dag_runs
from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger
from tests.security.looking import Watch, in_files, in_text
from tests.security.secured_platform import LIVE, OFFLINE, SecuredPlatform
from tests.support.access_logs import WINDOW_MS, generate, window_counts
from tests.support.processes import eventually
from tests.support.tier_counts import in_cluster, in_warehouse

pytestmark = pytest.mark.whole

TOPIC = "access_log"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPlatform]:
    folder = tmp_path_factory.mktemp("secured")
    running = SecuredPlatform(folder / "home", folder / "outside")
    try:
        yield running.up()
    finally:
        running.down()


@pytest.fixture(scope="module", autouse=True)
def watch(platform: SecuredPlatform) -> Iterator[Watch]:
    watching = Watch(platform.secrets(), besides=b"kafka.tools.StorageTool").start()
    try:
        yield watching
    finally:
        watching.stop()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("raw") / "access.log", lines=3_000, hours=6, seed=61)


def assert_equal_everywhere(platform: SecuredPlatform, raw: Path, topic: str) -> None:
    expected = window_counts(raw)
    assert in_cluster(platform.layout.live_bootstrap, topic, platform.live_words()) == expected
    assert in_cluster(platform.layout.offline_bootstrap, topic, platform.offline_words()) == expected
    assert in_warehouse(platform, topic) == expected
    windows = platform.windows(topic)
    for start, count in expected.items():
        assert windows[start]["verdict"] == "COMPLETE", windows[start]
        assert set(windows[start]["tiers"].values()) == {count}, windows[start]


def test_a_log_is_the_same_in_every_tier_as_in_the_raw_file(platform: SecuredPlatform, raw: Path) -> None:
    """Through the SDK (replay), registry, mirror, audit, consumers, and a load by Airflow."""
    platform.headrace("demo", "--log", str(raw))
    assert_equal_everywhere(platform, raw, TOPIC)
    assert "consumer:request-rate" in platform.windows(TOPIC)[min(window_counts(raw))]["tiers"]


def test_what_the_agent_ships_is_complete(platform: SecuredPlatform, tmp_path: Path) -> None:
    lines = generate(tmp_path / "tailed.log", lines=500, hours=2, seed=62)
    (platform.layout.home / "access_logs" / "web.log").write_bytes(lines.read_bytes())
    at_ms = time.time_ns() // 1_000_000 - 3_600_000
    logger = EventLogger("journaled", ACCESS_LOG_SCHEMA, application="shop", journal=platform.layout.home / "journals")
    for number in range(200):
        assert logger.log({"client_ip": "10.0.0.1", "path": f"/{number}", "status": 200}, event_time_ms=at_ms)
    logger.close()
    expected = {"tailed_access_log": window_counts(lines), "journaled": {at_ms - at_ms % WINDOW_MS: 200}}

    ends = (
        (platform.layout.live_bootstrap, platform.live_words()),
        (platform.layout.offline_bootstrap, platform.offline_words()),
    )

    def is_in_both(topic: str) -> bool:
        found = [topic in platform.topics(*end) and in_cluster(end[0], topic, end[1]) for end in ends]
        return found == [expected[topic]] * 2

    for topic in expected:
        eventually(lambda topic=topic: is_in_both(topic), within_ms=180_000, what=f"{topic} in both clusters")  # type: ignore[misc]
    for topic in expected:
        platform.headrace("load", topic)
        platform.headrace("audit", "report", "--topic", topic, "--wait", "COMPLETE", "300")
        platform.headrace("load", topic, "--step", "publish")
        assert in_warehouse(platform, topic) == expected[topic]


def test_commands_take_the_files_by_their_flag(platform: SecuredPlatform) -> None:
    """Without the variable, and refused without either."""
    bare = {name: value for name, value in platform.environment.items() if name != "HEADRACE_CLIENT_CONFIG"}
    flags = ["--client-config", str(platform.live_file), "--client-config", str(platform.offline_file)]
    for words in (["topic", "list"], ["topic", "describe", TOPIC], ["quarantine", "list"]):
        given = subprocess.run(platform.command(*words, *flags), env=bare, capture_output=True, text=True, timeout=120)
        assert given.returncode == 0, given.stdout + given.stderr
        platform.said += [given.stdout, given.stderr]
    without = subprocess.run(platform.command("topic", "list"), env=bare, capture_output=True, text=True, timeout=120)
    assert without.returncode == 1
    assert "client configuration" in without.stderr, without.stderr


def test_sparks_pages_show_paths_and_no_secret(platform: SecuredPlatform, tmp_path: Path) -> None:
    """A job of a user's own with Spark's UI, which reads the topic with the option `client_config`."""
    script = tmp_path / "job.py"
    script.write_text(_JOB)
    layout = platform.layout
    words = [layout.offline_bootstrap, TOPIC, layout.registry_url, f"{platform.live_file}:{platform.offline_file}"]
    environment = {
        **platform.environment,
        "HEADRACE_CLIENT_CONFIG": "",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, str(script), *words], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["count"] > 0
    assert in_text("Spark's pages and output", done.stdout + done.stderr, platform.secrets()) == []
    assert str(platform.offline_file) in shown["environment"] + shown["sql"], "the pages were not those of this job"
    (tmp_path / "output").write_text(done.stderr)


_JOB = """
import json, sys, urllib.request
from pyspark.sql import SparkSession
from headrace.spark.data_source import TopicDataSource
bootstrap, topic, registry, files = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").appName("job").config("spark.ui.enabled", "true").config("spark.ui.port", "0")
session = builder.config("spark.driver.host", "127.0.0.1").config("spark.executorEnv.HEADRACE_CLIENT_CONFIG", files).getOrCreate()
session.dataSource.register(TopicDataSource)
read = session.read.format("headrace").option("bootstrap", bootstrap).option("topic", topic).option("registry", registry)
rows = read.option("client_config", files).load()
count = rows.count()
url = session.sparkContext.uiWebUrl
pages = {}
api = url + "/api/v1/applications/" + session.sparkContext.applicationId
for name, page in (("page", url + "/environment/"), ("environment", api + "/environment"), ("sql", api + "/sql?details=true"),
                   ("jobs", url + "/jobs/"), ("executors", url + "/executors/"), ("plans", url + "/SQL/")):
    pages[name] = urllib.request.urlopen(page, timeout=30).read().decode(errors="replace")
session.stop()
print(json.dumps({"count": count, **pages}))
"""


def test_airflow_shows_no_secret(platform: SecuredPlatform) -> None:
    """Rendered templates, the tasks' and DAG's own pages, logs by way of its API, and the Connections themselves."""
    layout = platform.layout
    runs = [run for run in dag_runs(layout, "load_events") if run["state"] == "success"]
    assert runs
    shown = [json.dumps(runs)]
    logs = 0
    for run in runs:
        base = f"/api/v2/dags/load_events/dagRuns/{run['dag_run_id']}/taskInstances"
        found = _ask(layout, "GET", base)["task_instances"]
        assert any("headrace load" in json.dumps(one["rendered_fields"]) for one in found), found
        shown.append(json.dumps(found))
        for one in found:
            mapped = f"?map_index={one['map_index']}"
            answer = _ask(layout, "GET", f"{base}/{one['task_id']}/logs/{one['try_number']}{mapped}")
            shown.append(json.dumps(answer))
            logs += "headrace load" in shown[-1]
    assert logs, "no log of a load was seen"
    shown += [json.dumps(_ask(layout, "GET", f"/api/v2/connections/{name}")) for name in (LIVE, OFFLINE)]
    shown.append(json.dumps(_ask(layout, "GET", "/api/v2/dags/load_events/tasks")))
    assert in_text("Airflow's pages", "\n".join(shown), platform.secrets()) == []


def test_the_services_pages_show_no_secret(platform: SecuredPlatform) -> None:
    layout = platform.layout
    agent = f"http://{layout.address(9097)}"
    pages = [f"{layout.audit_url}/", f"{layout.audit_url}/?topic={TOPIC}", f"{layout.audit_url}/metrics", f"{agent}/status"]
    pages += [
        f"{agent}/metrics",
        f"{layout.registry_url}/subjects",
        f"{layout.audit_url}/readyz",
        f"{layout.registry_url}/readyz",
    ]
    text = "\n".join(_page(one) for one in pages)
    assert in_text("pages", text, platform.secrets()) == []


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def test_no_file_and_no_process_shows_a_secret(platform: SecuredPlatform, watch: Watch) -> None:
    """Logs, status files, the audit's store, Airflow's logs and database, Spark's event logs; what commands printed; and what
    processes showed of themselves while all of this ran.
    """
    found, count = in_files([platform.layout.home, platform.event_logs], platform.secrets())
    assert found == []
    assert count > 50
    assert any(
        b"SparkListenerEnvironmentUpdate" in path.read_bytes() for path in platform.event_logs.rglob("*") if path.is_file()
    )
    assert in_text("output", "\n".join(platform.said), platform.secrets()) == []
    assert watch.found == set()
    for program in (b"headrace.cli.main", b"airflow", b"pyspark", b"kafka.Kafka"):
        assert any(program in command for command in watch.commands), f"{program.decode()} was not looked at"
    planted, _ = in_files([platform.outside], platform.secrets())
    assert len(planted) >= 3, "the search finds what is there"
