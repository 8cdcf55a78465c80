"""The real scheduler, dag-processor and api-server run the real DAG against a real offline broker."""

import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.local.airflow import processes
from headrace.local.airflow.runs import task_states
from headrace.runtime.layout import Layout
from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, accepts, eventually

PORTS = (8080, 8081, 8090, 9092, 9192)
RUN_MS = 240_000
"""For a machine that is busy with other work; alone a run takes ten seconds."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    shifts = (random.randrange(10_000, 45_000) for _ in range(100))
    shift = next(shift for shift in shifts if not any(accepts(port + shift) for port in PORTS))
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
    try:
        for name in processes.PROCESSES:
            command = [sys.executable, "-m", "headrace.local.airflow.processes", name]
            started[name] = Process(command, layout.logs / f"{name}.log", layout.environment()).start()
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


def test_a_run_without_topics_and_one_with_an_empty_topic_succeed(running: Layout, offline_broker: BrokerProcess) -> None:
    lines: list[str] = []
    run_id = processes.trigger(running, "load_events")
    assert processes.wait(running, "load_events", run_id, timeout_ms=RUN_MS, progress=lines.append) == "success", lines
    admin = AdminClient({"bootstrap.servers": offline_broker.address})
    admin.create_topics([NewTopic("clicks", 3, 1)])["clicks"].result(20)
    run_id = processes.trigger(running, "load_events", {"why": "test"})
    assert processes.wait(running, "load_events", run_id, timeout_ms=RUN_MS, progress=lines.append) == "success", lines
    assert states(running, run_id) == {
        "topics": ["success"],
        "events.load": ["success"],
        "events.count": ["success"],
        "events.publish": ["success"],
    }
    assert any("events.load" in line for line in lines)


def test_a_task_whose_supervisor_is_killed_is_tried_again_by_itself(running: Layout, offline_broker: BrokerProcess) -> None:
    # The broker is stopped, so the task's request to it waits and the task is provably running when the kill lands.
    os.kill(offline_broker.pid, signal.SIGSTOP)
    try:
        run_id = processes.trigger(running, "load_events")

        def task_process() -> int | None:
            tasks = task_states(running, "load_events", run_id)
            return next((task["pid"] for task in tasks if task["task_id"] == "topics" and task["state"] == "running"), None)

        task = eventually(task_process, within_ms=60_000, what="the task runs")
        # Airflow names the task's own process. Its parent, a worker of the executor, watches over it and sends its heartbeats.
        supervisor = int(Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(supervisor, signal.SIGKILL)
    finally:
        os.kill(offline_broker.pid, signal.SIGCONT)
    began = time.monotonic()
    assert processes.wait(running, "load_events", run_id, timeout_ms=RUN_MS) == "success"
    (topics,) = [task for task in task_states(running, "load_events", run_id) if task["task_id"] == "topics"]
    assert topics["try_number"] >= 2, f"tried once, done after {time.monotonic() - began:.0f} s"
