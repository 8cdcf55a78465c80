"""A second platform with another shift and another home beside the first: neither disturbs the other."""

import tomllib
from pathlib import Path

import pytest

from headrace.local.supervisor.process_table import DEPLOY
from tests.e2e.conftest import free_shift
from tests.support.access_logs import generate
from tests.support.platform import Platform

PARTS = ("zookeeper-live", "broker-live", "registry", "consumer-1")


def without_airflow(path: Path) -> Path:
    """Write a process table with a few of the real one's entries, unchanged: two whole platforms are too much for two cores."""
    text = (DEPLOY / "processes.toml").read_text()
    entries = text.split("[[process]]")[1:]
    kept = [entry for entry in entries if tomllib.loads(entry)["name"] in PARTS]
    assert len(kept) == len(PARTS)
    path.write_text("".join(f"[[process]]{entry}" for entry in kept))
    return path


def test_two_platforms_run_side_by_side(platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(without_airflow(tmp_path / "table.toml")))
    second = Platform(tmp_path / "home", free_shift(platform.layout.port_shift + 500))
    try:
        second.up()
        log = generate(tmp_path / "small.log", lines=500, hours=1, seed=9)
        second.headrace("replay", str(log), "--topic", "beside")
        assert sum(second.log_ends(second.layout.live_bootstrap, "beside").values()) > 0
        assert platform.windows("beside") == {}
        assert {process.state for process in second.state().processes} == {"ready"}
    finally:
        second.down()
    assert platform.state().is_ready, "stopping one leaves the other running"
