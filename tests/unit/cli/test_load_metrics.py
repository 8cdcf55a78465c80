"""What a load leaves for node_exporter's textfile collector."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli import load_all, load_metrics
from headrace.runtime.layout import Layout


def left(folder: Path, step: str) -> dict[str, float]:
    """Return the file's samples as Prometheus' own library reads them."""
    families = text_string_to_metric_families(load_metrics.file_of(folder, step).read_text())
    samples = [sample for family in families for sample in family.samples]
    assert all(sample.labels == {"step": step} for sample in samples)
    return {sample.name.removeprefix(load_metrics.PREFIX): sample.value for sample in samples}


def test_a_good_step_leaves_its_rows_and_its_time(tmp_path: Path) -> None:
    words = {"row_counts": {"clicks": 1_234_567, "orders": 1}, "quarantined": {"clicks": 3}}
    load_metrics.write(tmp_path, "load", words, faults=0, took_s=12.5)
    found = left(tmp_path, "load")
    assert (found["rows"], found["quarantined_records"], found["failed"], found["duration_seconds"]) == (1_234_568, 3, 0, 12.5)
    assert found["last_success_timestamp_seconds"] == found["last_end_timestamp_seconds"] > 1.7e9


def test_a_failure_keeps_the_time_of_the_last_good_end(tmp_path: Path) -> None:
    load_metrics.write(tmp_path, "load", {}, faults=0, took_s=1)
    good = left(tmp_path, "load")["last_success_timestamp_seconds"]
    load_metrics.write(tmp_path, "load", {"row_counts": {"clicks": 5}}, faults=2, took_s=1)
    found = left(tmp_path, "load")
    assert (found["failed"], found["faulty_topics"], found["rows"]) == (1, 2, 5)
    assert found["last_success_timestamp_seconds"] == pytest.approx(good)
    load_metrics.write(tmp_path, "load", None, faults=0, took_s=1)
    found = left(tmp_path, "load")
    assert (found["failed"], found["last_success_timestamp_seconds"]) == (1, pytest.approx(good))


def test_hours_that_stay_shut_are_counted(tmp_path: Path) -> None:
    shut = {"topics": {"clicks": {"shut": {"2015-05-17T10": "UNKNOWN"}}, "orders": {"shut": {}}}}
    load_metrics.write(tmp_path, "publish", shut, faults=0, took_s=1)
    assert left(tmp_path, "publish")["shut_hours"] == 1


@pytest.mark.parametrize("ends", ["well", "with a fault of a topic", "with an error"])
def test_each_step_tells_how_it_ended(ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str], dict[str, Exception]]:
        if ends == "with an error":
            raise ValueError("no JVM")
        return {"row_counts": {}}, [], {"clicks": ValueError("damaged")} if "fault" in ends else {}

    steps: dict[str, Callable[..., Any]] = {"load": step}
    monkeypatch.setattr(load_all, "_STEPS", steps)
    arguments = argparse.Namespace(metrics_folder=tmp_path / "new", json=True)
    layout = Layout.from_environment({"HEADRACE_HOME": str(tmp_path)})
    if ends == "with an error":
        with pytest.raises(ValueError, match="no JVM"):
            load_all.run(layout, arguments, ["load"])
    else:
        load_all.run(layout, arguments, ["load"])
    assert left(tmp_path / "new", "load")["failed"] == (ends != "well")
