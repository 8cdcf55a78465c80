"""Where a DAG's tasks find things: a user's Connections and Variable, in the words of the tasks' environment."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.airflow.places import BadPlaces, bootstrap_of, settings_of, url_of
from headrace.runtime.layout import Layout


def test_a_variable_is_settings_for_the_tasks() -> None:
    assert settings_of('{"home": "/srv/h", "number": 7}', "v") == {"HEADRACE_HOME": "/srv/h", "HEADRACE_NUMBER": "7"}
    for text in ("", "[]", '{"home": ["/srv"]}', "home=/srv"):
        with pytest.raises(BadPlaces, match="Airflow Variable 'v'"):
            settings_of(text, "v")


def test_connections_are_addresses() -> None:
    assert bootstrap_of({"bootstrap.servers": "a:1,b:2"}, "c") == "a:1,b:2"
    assert bootstrap_of({"metadata.broker.list": "a:1"}, "c") == "a:1"
    with pytest.raises(BadPlaces, match="'c': its extra has no"):
        bootstrap_of({"sasl.mechanism": "PLAIN"}, "c")
    assert url_of(SimpleNamespace(host="h", port=81, schema=None), "c") == "http://h:81"
    assert url_of(SimpleNamespace(host="h", port=None, schema="https"), "c") == "https://h"
    assert url_of(SimpleNamespace(host="https://h/", port=None, schema=None), "c") == "https://h"
    with pytest.raises(BadPlaces, match="no host"):
        url_of(SimpleNamespace(host="", port=1, schema=None), "c")


def test_addresses_elsewhere_stand_for_those_of_this_machine_and_are_handed_on() -> None:
    words = {"HEADRACE_OFFLINE_BOOTSTRAP": "kafka:9092", "HEADRACE_AUDIT_URL": "https://audit", "PORT_SHIFT": "3"}
    layout = Layout.from_environment(words)
    assert (layout.offline_bootstrap, layout.audit_url) == ("kafka:9092", "https://audit")
    assert (layout.live_bootstrap, layout.registry_url) == ("127.0.0.1:9095", "http://127.0.0.1:8084")
    assert Layout.from_environment(layout.environment()) == layout


def test_a_step_gets_addresses_and_a_path_to_the_secrets_and_its_templates_hold_none(tmp_path: Path) -> None:
    """Run apart: Airflow sets itself up at its import."""
    script = """
from datetime import timedelta
from headrace.airflow.places import Places
from headrace.airflow.steps import step
places = Places(offline_conn_id="off", live_conn_id="live", registry_conn_id="reg", audit_conn_id="audit", variable="headrace")
with places.environment() as found:
    print("FOUND", {name: found[name] for name in sorted(found)})
    assert "hunter2" not in str(found)
    files = found["HEADRACE_CLIENT_CONFIG"].split(":")
    print("FILES", len(files), "hunter2" in open(files[0]).read())
one = step("load", places, timeout=timedelta(minutes=1))
one.bash_command = "echo SEEN $HEADRACE_HOME $HEADRACE_OFFLINE_BOOTSTRAP; exit 3"
try:
    one.execute({"ti": None})
except Exception as error:
    print("ENDED", type(error).__name__)
print("RENDERED", [getattr(one, name) for name in one.template_fields])
"""
    secured = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "bootstrap.servers": "off:1"}
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW_CONN_OFF": json.dumps({"conn_type": "kafka", "login": "u", "password": "hunter2", "extra": secured}),
        "AIRFLOW_CONN_LIVE": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "live:1"}}),
        "AIRFLOW_CONN_REG": json.dumps({"conn_type": "http", "host": "reg", "port": 8081}),
        "AIRFLOW_CONN_AUDIT": json.dumps({"conn_type": "http", "host": "https://audit"}),
        "AIRFLOW_VAR_HEADRACE": '{"home": "/srv/h"}',
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=240)
    told = done.stdout + done.stderr[-3000:]
    for name, value in (
        ("HEADRACE_AUDIT_URL", "https://audit"),
        ("HEADRACE_HOME", "/srv/h"),
        ("HEADRACE_LIVE_BOOTSTRAP", "live:1"),
        ("HEADRACE_OFFLINE_BOOTSTRAP", "off:1"),
        ("HEADRACE_REGISTRY_URL", "http://reg:8081"),
    ):
        assert f"'{name}': '{value}'" in told, told
    assert "FILES 1 True" in told
    assert "SEEN /srv/h off:1" in told
    assert "ENDED AirflowFailException" in told, "a fault of a topic is not tried again"
    (rendered,) = [line for line in done.stdout.splitlines() if line.startswith("RENDERED")]
    assert "hunter2" not in rendered
    assert "off:1" not in rendered
