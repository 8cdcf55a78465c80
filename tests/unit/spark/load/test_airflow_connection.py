"""The client configuration of a load in Airflow: only a path leaves the task's process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client.security import properties
from headrace.client.security.chosen import VARIABLE as CLIENT_CONFIG
from headrace.spark.errors import WarehouseError
from headrace.spark.load import airflow_connection

EXTRA = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "group.id": "of another operator"}


def test_login_and_password_stand_for_the_settings_and_other_operators_settings_are_left_out() -> None:
    text = airflow_connection.properties_of(EXTRA, "u", "hun=ter:2\\ \n#", "kafka")
    found = {name: value for name, (value, _) in properties.parse(text).items()}
    assert found == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "hun=ter:2\\ \n#",
    }
    with pytest.raises(WarehouseError, match=r"security\.protocol"):
        airflow_connection.properties_of({}, "u", "p", "kafka")


def test_a_child_process_reads_it_and_no_variable_holds_the_secret(tmp_path: Path) -> None:
    """Run apart: Airflow sets itself up at its import."""
    script = f"""
import os, subprocess, sys
from headrace.spark.load.airflow_connection import client_config
with client_config() as variables:
    assert list(variables) == [{CLIENT_CONFIG!r}], variables
    assert "hunter2" not in str(variables)
    clean = {{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_CONN")}}
    code = "from headrace.client.connection.cluster import Cluster; s = Cluster('b:1')._security; print(next(s.exchange()))"
    done = subprocess.run([sys.executable, "-c", code], env={{**clean, **variables}}, capture_output=True, text=True)
    print("CHILD", done.stdout.strip(), "STDERR", done.stderr.strip())
path = variables[{CLIENT_CONFIG!r}]
print("GONE", not os.path.exists(path))
"""
    connection = {"conn_type": "kafka", "login": "u", "password": "hunter2", "extra": EXTRA}
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW_CONN_KAFKA_LIVE": json.dumps(connection),
        airflow_connection.VARIABLE: "kafka_live",
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert "CHILD b'\\x00u\\x00hunter2' STDERR" in done.stdout, done.stdout + done.stderr[-3000:]
    assert "GONE True" in done.stdout
    assert "readable_by_others" not in done.stdout


def test_without_a_connection_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(airflow_connection.VARIABLE, raising=False)
    with airflow_connection.client_config() as variables:
        assert variables == {}
