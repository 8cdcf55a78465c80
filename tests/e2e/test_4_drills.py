"""Planted loss and planted silence: the audit reports what is missing and who is silent, and the gate stays shut."""

import json
from pathlib import Path

from tests.support.access_logs import generate, window_counts
from tests.support.platform import Platform

TOPIC = "drilled"


def test_planted_loss_is_named_to_the_record_and_its_hours_stay_shut(platform: Platform, tmp_path: Path) -> None:
    log = generate(tmp_path / "loss.log", lines=30_000, hours=6, seed=5, late_share=0)
    platform.headrace("replay", str(log), "--topic", TOPIC)
    said = json.loads(platform.headrace("audit", "drill", "loss", "--topic", TOPIC, "--json"))
    planted = {int(start): lost for start, lost in said["lost"].items()}
    assert planted
    assert all(lost > 0 for lost in planted.values())

    counts = window_counts(log)
    report = {window["window_start_ms"]: window for window in platform.report(TOPIC)}
    assert report.keys() == counts.keys()
    for start, lines in counts.items():
        window = report[start]
        lost = planted.get(start, 0)
        assert window["tiers"]["live"] == window["tiers"]["mirror"] == window["tiers"]["producer"] == lines, window
        assert window["tiers"]["offline"] == lines - lost, window
        assert window["missing"] == lost, window
        assert window["verdict"] == ("INCOMPLETE" if lost else "COMPLETE"), window
        assert window["first_bad_tier"] == ("offline" if lost else None), window

    shut = {start - start % 3_600_000 for start in planted}
    open_hours = {start - start % 3_600_000 for start in counts} - shut
    assert open_hours, "some hours were not touched"
    published = platform.query(f"SELECT DISTINCT epoch_ms(date_trunc('hour', _timestamp)) AS hour FROM {TOPIC}")
    assert {row["hour"] for row in published} == open_hours


def test_a_silent_producer_makes_its_window_unknown_and_keeps_the_gate_shut(platform: Platform) -> None:
    said = json.loads(platform.headrace("audit", "drill", "silence", "--topic", "silent", "--json"))
    assert said["verdict_while_silent"] == "UNKNOWN", said
    assert said["verdict_after"] != "UNKNOWN", said
