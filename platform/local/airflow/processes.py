"""Airflow 3 for one home: commands of its three processes, settings, secrets and metadata database; loopback only.

`python -m headrace.local.airflow.processes NAME` runs the process NAME of the process table. It prepares the database if needed,
then becomes Airflow by `exec`, so the supervisor knows Airflow's own pid. `airflow standalone` is not used, because it binds its
log server to all interfaces. `deploy/local/airflow.cfg` has the settings that are the same in every home.
"""

import base64
import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from ...runtime.layout import LOOPBACK, Layout
from ...runtime.status import StatusFile
from ..supervisor.process_table import DEPLOY
from .runs import AirflowError, health, is_ready, trigger, wait, warm_up

__all__ = ["PROCESSES", "AirflowError", "commands", "environment", "health", "is_ready", "main", "prepare", "trigger", "wait"]

DAGS = DEPLOY.parents[1] / "dags"
PROCESSES = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor")
MIGRATE_MS = 120_000
ANNOUNCE_MS = 180_000
"""How long a starting process is probed until it is healthy."""


def environment(layout: Layout) -> dict[str, str]:
    """Return the environment variables for Airflow's processes and their tasks, besides the caller's own.

    Creates the home's secrets on the first call (a file of mode 0600).
    """
    home = layout.airflow_home
    words = _secrets(home)
    port = layout.port(8080)
    programs = str(Path(sys.executable).parent)
    return {
        **layout.environment(),
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(DEPLOY / "airflow.cfg"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{layout.airflow_url}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": words["fernet_key"],
        **_database(home),
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": layout.airflow_url,
        "AIRFLOW__API__SECRET_KEY": words["api_secret_key"],
        "AIRFLOW__API_AUTH__JWT_SECRET": words["jwt_secret"],
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_LOG_TARGET": "stdout",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYTHONUNBUFFERED": "1",
    }


def _database(home: Path) -> dict[str, str]:
    """Return the database settings: SQLite in the home, unless the caller's environment names another database."""
    named = os.environ.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    if named:
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": named}
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": "headrace.local.airflow.database.CONNECT_ARGS",
    }


def _secrets(home: Path) -> dict[str, str]:
    path = home / "secrets.json"
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        fresh = {
            "jwt_secret": secrets.token_hex(32),
            "api_secret_key": secrets.token_hex(32),
            "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
        scratch = home / f".secrets.{os.getpid()}"
        scratch.touch(mode=0o600)
        scratch.write_text(json.dumps(fresh))
        try:
            os.link(scratch, path)  # the first of several starting processes wins; the others read its secrets
        except FileExistsError:
            pass
        scratch.unlink()
    words: dict[str, str] = json.loads(path.read_text())
    return words


def prepare(layout: Layout) -> None:
    """Create or migrate the metadata database, once for each home and version. Processes that call it meanwhile wait."""
    home = layout.airflow_home
    home.mkdir(parents=True, exist_ok=True)
    done = home / f"migrated-{version('apache-airflow')}"
    if done.exists():
        return
    with (home / "migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        answer = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env={**os.environ, **environment(layout)},
            capture_output=True,
            text=True,
            timeout=MIGRATE_MS / 1000,
        )
        if answer.returncode != 0:
            raise AirflowError(f"`airflow db migrate` in {home} failed ({answer.returncode}): {answer.stderr[-1500:]}")
        done.touch()


def commands(layout: Layout) -> dict[str, Sequence[str]]:
    """Return the foreground command of each Airflow process; it needs `environment(layout)`."""
    airflow = [sys.executable, "-m", "airflow"]
    return {
        "airflow-api-server": [
            *airflow, "api-server", "--host", LOOPBACK, "--port", str(layout.port(8080)), "--workers", "1",
        ],
        "airflow-scheduler": [*airflow, "scheduler", "--skip-serve-logs"],
        "airflow-dag-processor": [*airflow, "dag-processor"],
    }  # fmt: skip


def _announce_when_ready(layout: Layout, name: str) -> None:
    """Fork a helper that writes this process's status file once Airflow reports it healthy, and then ends.

    It forks twice, so that Airflow, which this process becomes, is not the parent of a child it does not know.
    """
    pid, began_ms = os.getpid(), time.time_ns() // 1_000_000
    status = StatusFile(layout.run / f"{name}.json")
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    if os.fork():
        os._exit(0)
    try:
        status.write("starting", pid=pid)
        deadline = time.monotonic() + ANNOUNCE_MS / 1000
        while time.monotonic() < deadline and _is_alive(pid):
            if is_ready(layout, name, since_ms=began_ms):
                status.write("ready", pid=pid)
                if name == "airflow-api-server":
                    warm_up(layout)
                break
            time.sleep(0.25)
    finally:
        os._exit(0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(arguments: Sequence[str]) -> None:
    """Become the Airflow process that the only argument names."""
    if len(arguments) != 1 or arguments[0] not in PROCESSES:
        sys.exit(f"usage: python -m headrace.local.airflow.processes {{{'|'.join(PROCESSES)}}}")
    layout = Layout.from_environment()
    try:
        prepare(layout)
    except AirflowError as error:
        sys.exit(f"headrace: {error}")
    command = commands(layout)[arguments[0]]
    _announce_when_ready(layout, arguments[0])
    os.execve(command[0], list(command), {**os.environ, **environment(layout)})


if __name__ == "__main__":
    main(sys.argv[1:])
