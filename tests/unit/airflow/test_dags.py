"""The DAGs of `dags/` as Airflow reads them, and those of the factories with a user's own words.

Apart, because Airflow sets itself up at its import.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import json, sys, time
import airflow.sdk, airflow.providers.standard.operators.bash, airflow.providers.standard.sensors.python  # in any worker already
before = set(sys.modules)
began = time.perf_counter()
from headrace.airflow import Places, audit_report_dag, compact_dag, load_events_dag, publish_dag, retention_dag
parse_s = time.perf_counter() - began
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
dry = retention_dag("dry", schedule=None, dry_run=True)
own = load_events_dag("mine", schedule=None, places=Places(offline_conn_id="off", variable="headrace"), pool="loads", tags=["x"])
told = lambda dag: {
    "tasks": {one.task_id: sorted(one.downstream_task_ids) for one in dag.tasks},
    "pools": sorted({one.pool for one in dag.tasks if one.task_id != "at_fault"}),
    "rescheduled": [one.task_id for one in dag.tasks if getattr(one, "reschedule", False)],
    "order": [one.task_id for one in dag.topological_sort()],
    "rules": {one.task_id: one.trigger_rule for one in dag.tasks},
    "catchup": dag.catchup,
    "commands": {one.task_id: one.bash_command for one in dag.tasks if hasattr(one, "bash_command")},
}
print("TOLD " + json.dumps({
    "parse_s": parse_s,
    "heavy": [name for name in ("pyarrow", "pyspark", "pyiceberg", "numpy", "fastavro") if name in set(sys.modules) - before],
    "errors": dict(bag.import_errors),
    "dags": {dag_id: told(dag) for dag_id, dag in bag.dags.items()},
    "own": told(own),
    "dry": told(dry),
}))
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("airflow")
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    words = [sys.executable, "-c", SCRIPT, str(ROOT / "dags")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    told = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    assert told, done.stdout[-2000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(told[0].removeprefix("TOLD "))
    return found


def test_every_dag_is_read_without_an_error_and_under_its_name(read: dict[str, Any]) -> None:
    assert read["errors"] == {}
    assert sorted(read["dags"]) == ["audit_report", "compact", "load_events", "publish", "retention"]
    assert not any(dag["catchup"] for dag in read["dags"].values())


def test_the_steps_follow_each_other_and_go_on_when_a_topic_is_at_fault(read: dict[str, Any]) -> None:
    """The order is a topological one, so there is no cycle."""
    steps = ["load", "count", "publish", "settled", "announce", "announced"]
    for name, dag in (("load_events", read["dags"]["load_events"]), ("publish", read["dags"]["publish"]), ("own", read["own"])):
        mine = steps[1:] if name == "publish" else steps
        assert [one for one in dag["order"] if one in steps] == mine
        assert sorted(dag["tasks"]) == sorted([*mine, "at_fault"])
        assert all("at_fault" in after for task, after in dag["tasks"].items() if task != "at_fault")
        assert dag["rules"]["at_fault"] == "one_failed"
        assert {dag["rules"][one] for one in ("count", "publish", "settled", "announce")} == {"all_done"}


def test_maintenance_merges_before_it_expires_and_drops_nothing_in_a_dry_run(read: dict[str, Any]) -> None:
    compact, retention = read["dags"]["compact"], read["dags"]["retention"]
    assert compact["tasks"] == {"merge": ["at_fault", "expire"], "expire": ["at_fault"], "at_fault": []}
    assert compact["rules"]["expire"] == "all_done"
    assert retention["tasks"] == {"retention": ["at_fault"], "at_fault": []}
    assert compact["commands"]["merge"] == "exec headrace compact --all --step merge"
    assert retention["commands"]["retention"] == "exec headrace retention --all --apply"
    assert read["dry"]["commands"]["retention"] == "exec headrace retention --all --dry-run"


def test_a_wait_takes_no_slot_and_every_task_is_in_the_users_pool(read: dict[str, Any]) -> None:
    assert read["own"]["rescheduled"] == ["settled"]
    assert read["own"]["pools"] == ["loads"]


def test_a_dag_is_parsed_without_tables_arrow_or_clients(read: dict[str, Any]) -> None:
    print(f"the factories were imported in {read['parse_s'] * 1000:.0f} ms")
    assert read["heavy"] == []
