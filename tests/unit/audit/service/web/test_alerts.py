"""The alert rules name metrics that exist, and promtool finds that each fires when it should and not before."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.audit.service.web.metrics import PREFIX, TABLE

yaml = pytest.importorskip("yaml", reason="PyYAML comes with Airflow")
RULES = Path(__file__).parents[5] / "deploy" / "alerts" / "headrace-audit.rules.yml"
TESTS = RULES.with_name("headrace-audit.rules.test.yml")
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
            assert {word.split("=")[0] for word in labels.split(",")} <= set(TABLE[name.removeprefix(PREFIX)].labels)


def promtool(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    for words in (("check", "rules", RULES), ("test", "rules", TESTS)):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("alert", [str(rule["alert"]) for rule in rules()])
@pytest.mark.parametrize("change", ["never", "at once"])
def test_a_rule_that_never_fires_or_fires_at_once_is_noticed(alert: str, change: str, tmp_path: Path) -> None:
    words = yaml.safe_load(RULES.read_text())
    (rule,) = (one for one in words["groups"][0]["rules"] if one["alert"] == alert)
    if change == "never":
        rule["expr"] = f"({rule['expr']}) and on() vector(0) > 1"
    else:
        rule["for"] = "0s"
        rule["expr"] = "vector(1)"
    (tmp_path / RULES.name).write_text(yaml.safe_dump(words))
    shutil.copy(TESTS, tmp_path)
    done = promtool("test", "rules", tmp_path / TESTS.name)
    assert done.returncode != 0
    assert alert in done.stdout + done.stderr
