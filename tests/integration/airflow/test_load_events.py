"""The real scheduler, dag-processor and api-server run the real DAG against a real offline broker."""

import json
import os
import random
import signal
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.local.airflow import processes
from headrace.local.airflow.runs import AirflowError, AirflowUnreachable, _ask, dag_runs, task_states
from headrace.local.preflight import is_free
from headrace.runtime.layout import Layout
from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import LOWEST_PORT, Process, eventually
from tests.support.stored_table import Stored

USER_DAGS = Path(__file__).with_name("user_dags")
BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
PORTS = (8080, 8081, 8090, 9092, 9192)
RUN_MS = 240_000
"""For a machine that is busy with other work; alone a run takes ten seconds."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Its ports lie below those that other tests take (`free_port`) and that the system gives to clients as their own."""
    shifts = (random.randrange(2_000, LOWEST_PORT - max(PORTS)) for _ in range(100))
    shift = next(shift for shift in shifts if all(is_free(port + shift) for port in PORTS))
    return Layout(home=tmp_path_factory.mktemp("home"), port_shift=shift)


@pytest.fixture(scope="module")
def offline_broker(layout: Layout, zookeeper_address: str) -> Iterator[BrokerProcess]:
    zookeeper = f"{zookeeper_address}/airflow-{uuid.uuid4().hex[:8]}"
    with BrokerProcess(layout.home / "broker-offline", zookeeper, port=layout.port(9192)) as broker:
        yield broker


@pytest.fixture(scope="module")
def running(layout: Layout, offline_broker: BrokerProcess) -> Iterator[Layout]:
    """Airflow's three processes, started as the supervisor starts them and ready by their own status files."""
    started: dict[str, Process] = {}
    bundles = [{"name": "ours", "classpath": BUNDLE, "kwargs": {"path": str(processes.DAGS)}}]
    bundles += [{"name": "users", "classpath": BUNDLE, "kwargs": {"path": str(USER_DAGS)}}]
    own = {**layout.environment(), "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles)}
    try:
        for name in processes.PROCESSES:
            command = [sys.executable, "-m", "headrace.local.airflow.processes", name]
            started[name] = Process(command, layout.logs / f"{name}.log", own).start()
        for name, process in started.items():

            def is_ready(name: str = name, process: Process = process) -> bool:
                assert process.is_running(), process.output()[-3000:]
                status = read_status(layout.run / f"{name}.json")
                return status is not None and status["state"] == "ready" and status["pid"] == process.pid

            eventually(is_ready, within_ms=120_000, what=f"{name} ready")
        yield layout
    finally:
        for process in reversed(started.values()):
            process.kill()


def states(layout: Layout, run_id: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in task_states(layout, "load_events", run_id):
        found.setdefault(task["task_id"], []).append(task["state"])
    return found


def test_secrets_are_kept_and_nobody_else_may_read_them(running: Layout) -> None:
    path = running.airflow_home / "secrets.json"
    assert path.stat().st_mode & 0o777 == 0o600
    name = "AIRFLOW__API_AUTH__JWT_SECRET"
    assert processes.environment(running)[name] == processes.environment(running)[name]


def test_airflow_listens_on_loopback_only(running: Layout) -> None:
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine = {words[1] for words in listening if words[3] == "0A" and words[1].endswith(f":{running.port(8080):04X}")}
    assert mine == {f"0100007F:{running.port(8080):04X}"}


@pytest.mark.whole
def test_a_run_without_topics_and_one_with_an_empty_topic_succeed(running: Layout, offline_broker: BrokerProcess) -> None:
    lines: list[str] = []
    run_id = processes.trigger(running, "load_events")
    assert processes.wait(running, "load_events", run_id, timeout_ms=RUN_MS, progress=lines.append) == "success", lines
    admin = AdminClient({"bootstrap.servers": offline_broker.address})
    admin.create_topics([NewTopic("clicks", 3, 1)])["clicks"].result(20)
    run_id = processes.trigger(running, "load_events", {"why": "test"})
    assert processes.wait(running, "load_events", run_id, timeout_ms=RUN_MS, progress=lines.append) == "success", lines
    steps = ("load", "count", "publish", "settled", "announce", "announced")
    assert states(running, run_id) == {**{name: ["success"] for name in steps}, "at_fault": ["skipped"]}
    assert any("settled" in line for line in lines)


@dataclass(frozen=True)
class Caught:
    """A task that waits for the stopped broker, and who watches over it."""

    run_id: str
    try_number: int
    supervisor: int


def caught(layout: Layout) -> Caught | None:
    """Return the task `load` that runs now, of whichever run."""
    with suppress(AirflowUnreachable):
        for run in dag_runs(layout, "load_events"):
            if run["state"] != "running":
                continue
            for task in task_states(layout, "load_events", run["dag_run_id"]):
                if (task["task_id"], task["state"]) == ("load", "running") and task["pid"] is not None:
                    # Airflow names the task's own process. Its parent, a worker of the executor, watches over it and sends its
                    # heartbeats.
                    supervisor = int(Path(f"/proc/{task['pid']}/stat").read_text().rpartition(")")[2].split()[1])
                    assert b"LocalExecutor" in Path(f"/proc/{supervisor}/cmdline").read_bytes(), "the task has just ended"
                    return Caught(run["dag_run_id"], task["try_number"], supervisor)
    return None


def is_idle(layout: Layout) -> bool:
    with suppress(AirflowUnreachable):
        return all(run["state"] in ("success", "failed") for run in dag_runs(layout, "load_events"))
    return False


@pytest.mark.whole
def test_a_task_whose_supervisor_is_killed_is_tried_again_by_itself(running: Layout, offline_broker: BrokerProcess) -> None:
    """Fault of the test: the schedule's own run, every ten minutes, took the only place, and waited for the stopped broker while
    the test waited for the run that it had triggered. So the task is that of whichever run has the place.
    """
    eventually(lambda: is_idle(running), within_ms=RUN_MS, what="no run that needs the broker in the midst of it")
    # The broker is stopped, so the task's request to it waits and the task is provably running when the kill lands.
    os.kill(offline_broker.pid, signal.SIGSTOP)
    try:
        triggered = processes.trigger(running, "load_events")
        found = eventually(lambda: caught(running), within_ms=60_000, what="the task runs")
        os.kill(found.supervisor, signal.SIGKILL)
    finally:
        os.kill(offline_broker.pid, signal.SIGCONT)
    began = time.monotonic()
    assert processes.wait(running, "load_events", found.run_id, timeout_ms=RUN_MS) == "success"
    (load,) = [task for task in task_states(running, "load_events", found.run_id) if task["task_id"] == "load"]
    assert load["try_number"] > found.try_number, f"tried once, done after {time.monotonic() - began:.0f} s"
    assert processes.wait(running, "load_events", triggered, timeout_ms=RUN_MS) == "success"


@pytest.fixture
def tables(running: Layout, offline_broker: BrokerProcess) -> Iterator[Mapping[str, Stored]]:
    """Two topics that are loaded to their logs' ends, and an audit service that answers for them."""
    stored = {topic: Stored(running.warehouse, topic) for topic in ("orders", "returns")}
    admin = AdminClient({"bootstrap.servers": offline_broker.address})
    for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in stored]).values():
        made.result(20)

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            asked = urllib.parse.parse_qs(url.query)
            table = stored.get(asked["topic"][0])
            # Nothing is old enough for a day, and no producer named its batches.
            has_none = table is None or "after" in asked or asked.get("by") == ["day"] or url.path == "/api/sequences"
            words = [] if table is None or has_none else [window.words for window in table.audit.ask(table.topic)]
            body = json.dumps(words).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", running.port(8090)), Service) as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        try:
            yield stored
        finally:
            service.shutdown()
            thread.join()


def load(table: Stored, hour: int, broker: BrokerProcess) -> None:
    """Append records to the topic, and have its table hold rows of the hour up to the log's end, counted for the audit."""
    producer = Producer({"bootstrap.servers": broker.address})
    for _ in range(5):
        producer.produce(table.topic, b"x" * 10, partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(TopicPartition(table.topic, 0), timeout=20)
    consumer.close()
    found = table.warehouse.table(table.topic)
    table.load(hour, end - (0 if found is None else found.offsets()[0]))
    table.count()


def run_load_events(layout: Layout) -> None:
    lines: list[str] = []
    run_id = processes.trigger(layout, "load_events")
    assert processes.wait(layout, "load_events", run_id, timeout_ms=RUN_MS, progress=lines.append) == "success", lines


def shown(layout: Layout) -> list[list[Any]]:
    """Return what the users' DAGs have written: their id, the hour, and the events' extras."""
    path = layout.home / "shown.jsonl"
    return sorted(map(json.loads, path.read_text().splitlines()), key=str) if path.exists() else []


def test_each_published_hour_starts_the_dags_that_wait_for_it(
    running: Layout, offline_broker: BrokerProcess, tables: Mapping[str, Stored]
) -> None:
    for table in tables.values():
        load(table, 10, offline_broker)
        load(table, 11, offline_broker)
    run_load_events(running)
    hours, day = ["1970-01-01T10", "1970-01-01T11"], "1970-01-01"
    both = {"revisions": dict.fromkeys(hours, 1)}
    expected = [["each_day", day, [both, both]]]
    expected += [["each_hour", hour, [both]] for hour in hours]
    expected += [["each_hour_of_both", hour, [both, both]] for hour in hours]
    eventually(lambda: shown(running) == sorted(expected, key=str), within_ms=RUN_MS, what=f"first runs: {shown(running)}")
    # Late records: the hour is published again, as revision 2, and starts its DAG again. Nothing else is told twice.
    load(tables["orders"], 10, offline_broker)
    run_load_events(running)
    expected += [["each_hour", hours[0], [{"revisions": {hours[0]: 2}}]]]
    eventually(lambda: shown(running) == sorted(expected, key=str), within_ms=RUN_MS, what=f"the second run: {shown(running)}")
    assert [len(dag_runs(running, dag)) for dag in ("each_hour", "each_hour_of_both", "each_day")] == [3, 2, 1]
    # A backfill over a range of dates: runs that load, publish and announce nothing a second time.
    before = {topic: table.warehouse.existing_table(topic).snapshot_id("loads") for topic, table in tables.items()}
    backfill(running, "load_events", "1970-01-03T00:00:00Z", "1970-01-03T00:10:00Z")
    eventually(
        lambda: list(backfilled(running, "load_events").values()) == ["success"] * 2,
        within_ms=2 * RUN_MS,
        what=f"runs of old dates: {backfilled(running, 'load_events')}",
    )
    assert before == {topic: table.warehouse.existing_table(topic).snapshot_id("loads") for topic, table in tables.items()}
    assert [len(dag_runs(running, dag)) for dag in ("each_hour", "each_hour_of_both", "each_day")] == [3, 2, 1]


DAY_MS = 86_400_000


class AuditOfDays(BaseHTTPRequestHandler):
    """Answers with a window for each day that it is asked for; that of the fourth is incomplete."""

    def do_GET(self) -> None:
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        begin, end = int(asked["from_ms"][0]), int(asked["to_ms"][0])
        is_a_day = end - begin == DAY_MS and begin % DAY_MS == 0
        verdict = "COMPLETE" if is_a_day and begin != 3 * DAY_MS else "INCOMPLETE"
        body = json.dumps([{"topic": "orders", "window_start_ms": begin, "verdict": verdict}]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


def backfill(layout: Layout, dag_id: str, first: str, last: str) -> None:
    words = {"dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": 1}

    def is_taken() -> bool:
        try:
            _ask(layout, "POST", "/api/v2/backfills", words)
        except AirflowError as refused:
            # Airflow refuses a backfill while another process of it writes to SQLite.
            if "Database is locked" not in str(refused):
                raise
            return False
        return True

    eventually(is_taken, within_ms=RUN_MS, every_ms=500, what="Airflow takes the backfill")


def backfilled(layout: Layout, dag_id: str) -> dict[str, str]:
    """Return date → state of the runs of a backfill."""
    runs = [run for run in dag_runs(layout, dag_id) if run["run_type"] == "backfill"]
    return {run["logical_date"][:16]: run["state"] for run in runs}


def test_a_backfill_by_dates_reports_each_day(running: Layout) -> None:
    """The address of the audit is an Airflow Connection's; a day with an incomplete window fails its own run alone."""
    with ThreadingHTTPServer(("127.0.0.1", 0), AuditOfDays) as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        try:
            address = {"host": "127.0.0.1", "port": service.server_port}
            _ask(running, "POST", "/api/v2/connections", {"connection_id": "audit_of_test", "conn_type": "http", **address})
            backfill(running, "audit_by_connection", "1970-01-03T00:00:00Z", "1970-01-05T00:00:00Z")
            days = {"1970-01-03T00:00": "success", "1970-01-04T00:00": "failed", "1970-01-05T00:00": "success"}
            eventually(
                lambda: (
                    backfilled(running, "audit_by_connection") == dict(zip(days, ("success", "failed", "success"), strict=True))
                ),
                within_ms=RUN_MS,
                what=f"each day is reported: {backfilled(running, 'audit_by_connection')}",
            )
        finally:
            service.shutdown()
            thread.join()
