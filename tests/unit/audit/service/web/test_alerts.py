"""The alert rules name metrics that exist. What promtool finds in them is in tests/integration/deploy/test_monitoring.py."""

import re
from pathlib import Path

import pytest

from headrace.audit.service.web.metrics import PREFIX, TABLE

yaml = pytest.importorskip("yaml", reason="PyYAML comes with Airflow")
RULES = Path(__file__).parents[5] / "deploy" / "alerts" / "headrace-audit.rules.yml"
SERIES = {PREFIX + name for name in TABLE}


def rules() -> list[dict[str, object]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, object]] = group["rules"]
    return found


def test_every_metric_that_a_rule_names_exists() -> None:
    named = set(re.findall(rf"{PREFIX}[a-z_]+", RULES.read_text()))
    assert named <= SERIES
    assert SERIES - named == set()


def test_every_rule_has_a_name_a_severity_and_says_what_to_do() -> None:
    assert len({str(rule["alert"]) for rule in rules()}) == len(rules()) >= 9
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")  # type: ignore[index]
        assert set(rule["annotations"]) == {"summary", "action"}  # type: ignore[call-overload]
        assert rule["expr"]


def test_labels_that_a_rule_asks_for_are_the_metric_s_own() -> None:
    for rule in rules():
        for name, labels in re.findall(rf"({PREFIX}[a-z_]+)\{{([^}}]*)\}}", str(rule["expr"])):
            assert {re.split("[!=]", word.strip())[0] for word in labels.split(",")} <= set(
                TABLE[name.removeprefix(PREFIX)].labels
            )
