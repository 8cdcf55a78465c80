"""Runs of Airflow's DAGs through its REST API (v2): trigger one, wait for it, return its task states; and Airflow's own health.

Finds its one Airflow through the layout. Starts no process.
"""

import json
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ...errors import HeadraceError
from ...runtime.http_call import HttpAddress, HttpAnswerTooLong, NoHttpAnswer
from ...runtime.layout import Layout

ASK_MS = 60_000
PARSED_MS = 180_000
"""How long `trigger` waits until the dag-processor has read the DAG's file."""
_HEARTBEATS = {
    "airflow-scheduler": ("scheduler", "latest_scheduler_heartbeat"),
    "airflow-dag-processor": ("dag_processor", "latest_dag_processor_heartbeat"),
}


class AirflowError(HeadraceError):
    """Airflow refused a request; the message has the request and the response."""


class AirflowUnreachable(AirflowError):
    """Airflow's api-server does not answer."""

    retriable = True


class _Refused(AirflowError):
    """Airflow answered with an error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def health(layout: Layout) -> dict[str, Any]:
    """Return Airflow's health page (`metadatabase`, `scheduler`, `dag_processor`, each with `status`)."""
    return _ask(layout, "GET", "/api/v2/monitor/health", token=None)


def is_ready(layout: Layout, name: str, *, since_ms: int = 0) -> bool:
    """Return whether the process `name` of the process table is up. A heartbeat before `since_ms` is an earlier process's."""
    try:
        words = health(layout)
    except AirflowError:
        return False
    if name not in _HEARTBEATS:
        return True
    part, beat = _HEARTBEATS[name]
    latest: str | None = (words.get(part) or {}).get(beat)
    return latest is not None and datetime.fromisoformat(latest).timestamp() * 1000 >= since_ms


def warm_up(layout: Layout) -> bool:
    """Have the api-server build its API for tasks, which it does at the first request; return whether it answered.

    That takes three seconds of processor time, and the server answers nobody meanwhile. A task gives up after five seconds.
    """
    try:
        _ask(layout, "GET", "/execution/health/ping", token=None)
    except AirflowError:
        return False
    return True


def trigger(layout: Layout, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
    """Start a run of the DAG now, outside its schedule, and return its id.

    Waits, bounded, until the dag-processor has read the DAG's file. Raises AirflowError.
    """
    run_id = f"manual__{uuid.uuid4()}"
    body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})}
    deadline = time.monotonic() + PARSED_MS / 1000
    while True:
        try:
            _ask(layout, "POST", f"/api/v2/dags/{dag_id}/dagRuns", body)
            return run_id
        except _Refused as refused:
            if refused.status == 409:
                return run_id  # an earlier attempt of ours had arrived, although its response was an error
            if refused.status not in (404, 500, 503) or time.monotonic() > deadline:
                raise
        except AirflowUnreachable:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


def wait(
    layout: Layout, dag_id: str, run_id: str, *, timeout_ms: int, progress: Callable[[str], None] = lambda line: None
) -> str:
    """Return the run's final state, `success` or `failed`, or its state after `timeout_ms`.

    `progress` is called with the task states whenever they change.
    """
    run = f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"
    deadline = time.monotonic() + timeout_ms / 1000
    last, state = "", "unknown"
    while True:
        try:
            state = str(_ask(layout, "GET", run)["state"])
            line = _describe(_ask(layout, "GET", f"{run}/taskInstances?limit=500")["task_instances"])
            if line and line != last:
                progress(f"airflow: {line}")
                last = line
        except AirflowUnreachable:
            if time.monotonic() > deadline:
                raise
        if state in ("success", "failed") or time.monotonic() > deadline:
            return state
        time.sleep(0.5)


def task_states(layout: Layout, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Return the run's task instances as Airflow reports them (`task_id`, `map_index`, `state`, `try_number`, `pid`, ...)."""
    run = f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"
    found: list[dict[str, Any]] = _ask(layout, "GET", f"{run}/taskInstances?limit=500")["task_instances"]
    return found


def dag_runs(layout: Layout, dag_id: str) -> list[dict[str, Any]]:
    """Return the DAG's latest runs, at most 100, as Airflow reports them (`state`, `partition_key`, ...)."""
    found: list[dict[str, Any]] = _ask(layout, "GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=-run_after")["dag_runs"]
    return found


def _describe(tasks: list[dict[str, Any]]) -> str:
    """Return one line such as `load success · count running (try 2)`; mapped tasks are combined."""
    states: dict[str, Counter[str]] = {}
    for task in sorted(tasks, key=lambda task: str(task.get("start_date") or "~")):
        state = task["state"] or "waiting"
        if task["try_number"] > 1 and state != "success":
            state += f" (try {task['try_number']})"
        states.setdefault(task["task_id"], Counter())[state] += 1
    return " · ".join(
        f"{name} {', '.join(f'{count} {state}' if count > 1 else state for state, count in found.items())}"
        for name, found in states.items()
    )


_TOKENS: dict[str, str] = {}
"""One token for each address; after a refusal another one is fetched."""


def _token(layout: Layout) -> str:
    if layout.airflow_url not in _TOKENS:
        _TOKENS[layout.airflow_url] = _ask(layout, "GET", "/auth/token", token=None)["access_token"]
    return _TOKENS[layout.airflow_url]


def _ask(layout: Layout, method: str, path: str, body: Any = None, *, token: str | None = "") -> dict[str, Any]:
    """Return the JSON response. `token` None: send none. "": use this process's own."""
    url = layout.airflow_url + path
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token or _token(layout)}"
    data = None if body is None else json.dumps(body).encode()
    try:
        answer = HttpAddress(layout.airflow_url).call(method, path, data, headers, within_ms=ASK_MS)
        if answer.is_success:
            words: dict[str, Any] = json.loads(answer.body)
            return words
    except (NoHttpAnswer, HttpAnswerTooLong, ValueError) as error:
        raise AirflowUnreachable(
            f"Airflow does not answer {method} {url}: {error}; `headrace status` shows its health"
        ) from error
    if answer.status == 401 and token == "":
        _TOKENS.pop(layout.airflow_url, None)
        return _ask(layout, method, path, body, token=_token(layout))
    detail = answer.body[:500].decode(errors="replace")
    raise _Refused(f"Airflow refused {method} {url} with {answer.status}: {detail}", answer.status)
