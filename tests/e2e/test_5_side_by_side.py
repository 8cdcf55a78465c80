"""A second platform with another shift and another home beside the first: neither disturbs the other."""

from pathlib import Path

import pytest

from tests.support.access_logs import generate
from tests.support.platform import Platform, free_shift, table_of

PARTS = ("zookeeper-live", "broker-live", "registry", "consumer-1")
"""Two whole platforms are too much for two cores."""


def test_two_platforms_run_side_by_side(platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table_of(tmp_path / "table.toml", PARTS)))
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
