"""What watches the platform: Prometheus' rules and configuration, as promtool finds them, and Grafana's dashboards as read.

That every metric which they name is exported is seen in `test_units`, where all processes run.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.deploy.site import DEPLOY

yaml = pytest.importorskip("yaml", reason="PyYAML comes with Airflow")
RULES = sorted((DEPLOY / "alerts").glob("*.rules.yml"))
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
ROLES = {"broker", "mirror", "registry", "audit", "agent", "applications", "loads", "overview"}


def rules_in(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def promtool(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.needs("promtool")
def test_promtool_accepts_rules_and_configuration_and_the_rules_tests_pass() -> None:
    tests = [path.with_name(path.name.replace(".rules.yml", ".rules.test.yml")) for path in RULES]
    for words in (
        ("check", "rules", *RULES),
        ("test", "rules", *tests),
        ("check", "config", DEPLOY / "prometheus" / "prometheus.yml"),
    ):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
@pytest.mark.parametrize("change", ["never", "at once"])
def test_each_rule_that_never_fires_or_fires_at_once_is_noticed(path: Path, change: str, tmp_path: Path) -> None:
    """The alerts of a file are changed together, which takes one run of promtool: no alert reads another one."""
    words = yaml.safe_load(path.read_text())
    alerts = [rule for group in words["groups"] for rule in group["rules"] if "alert" in rule]
    for rule in alerts:
        if change == "never":
            rule["expr"] = f"({rule['expr']}) and on() vector(0) > 1"
        else:
            rule["for"] = "0s"
            rule["expr"] = "vector(1)"
    (tmp_path / path.name).write_text(yaml.safe_dump(words))
    tests = path.with_name(path.name.replace(".rules.yml", ".rules.test.yml"))
    shutil.copy(tests, tmp_path)
    done = promtool("test", "rules", tmp_path / tests.name)
    assert done.returncode != 0
    assert set(re.findall(r"alertname: (\w+),", done.stdout + done.stderr)) == {rule["alert"] for rule in alerts}


def test_every_alert_has_a_severity_and_says_what_to_do() -> None:
    found = [rule for path in RULES for rule in rules_in(path) if "alert" in rule]
    assert len({rule["alert"] for rule in found}) == len(found)
    for rule in found:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_each_role_has_a_dashboard_with_an_id_of_its_own() -> None:
    boards = [json.loads(path.read_text()) for path in DASHBOARDS]
    assert {path.stem for path in DASHBOARDS} == ROLES
    assert len({board["uid"] for board in boards}) == len(boards)
    recorded = {rule["record"] for path in RULES for rule in rules_in(path) if "record" in rule}
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        assert len(set(places)) == len(places)
        for panel in board["panels"]:
            assert panel["title"]
            for target in panel["targets"]:
                assert set(re.findall(r"headrace:[a-z_0-9:]+", target["expr"])) <= recorded


@pytest.mark.needs("promtool")
def test_every_expression_of_a_dashboard_is_one(tmp_path: Path) -> None:
    exprs = [target["expr"] for path in DASHBOARDS for p in json.loads(path.read_text())["panels"] for target in p["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(exprs) > 60
