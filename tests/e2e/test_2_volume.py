"""200,000 generated events in three partitions, several windows an hour, late ones, ones near borders; then restarts."""

from pathlib import Path

import pytest

from headrace.local import control
from tests.support.access_logs import generate, window_counts
from tests.support.platform import Platform

TOPIC = "generated"


@pytest.mark.situation("event times", "events near a border, to the millisecond")
def test_200_000_events_balance_in_every_window_and_survive_restarts(platform: Platform, tmp_path: Path) -> None:
    log = generate(tmp_path / "big.log", lines=200_000, hours=12, seed=1)
    counts = window_counts(log)
    assert len(counts) > 60
    platform.headrace("replay", str(log), "--topic", TOPIC)
    platform.headrace("load", TOPIC)
    windows = platform.await_complete(TOPIC)
    assert windows.keys() == counts.keys()
    for start, lines in counts.items():
        assert set(windows[start]["tiers"].values()) == {lines}, windows[start]

    ends = platform.log_ends(platform.layout.offline_bootstrap, TOPIC)
    assert len([end for end in ends.values() if end > 0]) == 3
    assert platform.log_ends(platform.layout.live_bootstrap, TOPIC) == ends, "byte for byte the same offsets"
    for broker in ("broker-live", "broker-offline"):
        control.restart(platform.layout, broker)
    assert platform.log_ends(platform.layout.live_bootstrap, TOPIC) == ends
    assert platform.log_ends(platform.layout.offline_bootstrap, TOPIC) == ends
    per_hour = platform.query(f"SELECT count(*) AS n, count(DISTINCT date_trunc('hour', _timestamp)) AS hours FROM {TOPIC}")
    assert per_hour == [{"n": 200_000, "hours": len({start // 3_600_000 for start in counts})}]
