"""Cells and rows of windows in plain words."""

from typing import Any

import pytest

from headrace.audit.service.web.page_facts import brief
from headrace.console import words

USUAL: dict[str, Any] = {
    "topic": "t", "window_start_ms": 0, "window_end_ms": 600_000, "verdict": "COMPLETE", "differences": [], "silent": [],
    "losses": {}, "sinks": {}, "missing": 0, "doubled": 0, "altered": 0, "quarantined": 0, "reason": "why",
}  # fmt: skip


def window(tiers: dict[str, int | None], **more: Any) -> dict[str, Any]:
    return brief({**USUAL, "tiers": tiers, **more})


def colours(one: dict[str, Any]) -> list[str]:
    return [cell.colour for cell in words.cells(one, words.columns([one]))]


@pytest.mark.parametrize("verdict", ["OPEN", "UNKNOWN"])
def test_a_tier_that_is_behind_is_not_painted_as_right(verdict: str) -> None:
    one = window({"producer": 5, "live": 5, "offline": 3, "warehouse": None}, verdict=verdict)
    assert colours(one) == ["ok", "ok", "behind", "wait"]
    assert words.cells(one, ["live", "offline"])[1].text == "3 of 5"


def test_fewer_records_are_right_where_quarantine_has_the_others() -> None:
    assert colours(window({"offline": 5, "warehouse": 4}, quarantined=1)) == ["ok", "ok"]


def test_a_loss_and_a_silence_have_colours_of_their_own() -> None:
    lost = [{"tier": "mirror", "missing": 1, "doubled": 0, "altered": 0}]
    assert colours(window({"live": 5, "mirror": 4}, verdict="INCOMPLETE", differences=lost)) == ["ok", "less"]
    assert colours(window({"live": 5, "mirror": 4}, verdict="UNKNOWN", silent=["mirror"])) == ["ok", "unknown"]


def test_sinks_have_a_column_of_their_own_that_names_those_that_are_not_complete() -> None:
    sinks = {f"sink:{name}": {"verdict": verdict} for name, verdict in (("a", "COMPLETE"), ("b", "UNKNOWN"), ("c", "OPEN"))}
    row = words.row(window({"live": 5}, sinks=sinks), ["live"])
    assert row["sinks"] == "3 readers; b UNKNOWN, c OPEN"
    assert "sink" not in row["why"]


def test_many_groups_of_the_verdict_share_a_column() -> None:
    """So a page of 100 windows stays below 100 kB with 50 groups."""
    one = window({"live": 5, **{f"consumer:g{number:02}": 5 if number else 3 for number in range(50)}}, verdict="OPEN")
    assert words.columns([one]) == ["live"]
    row = words.row(one, ["live"])
    assert row["readers"].startswith("50 groups")
    few = window({"live": 5, "consumer:g": 5})
    assert words.columns([few]) == ["live", "consumer:g"]
    assert words.row(few, ["live", "consumer:g"])["readers"] == ""


def test_an_hour_without_a_window_is_marked_and_an_unknown_one_is_named() -> None:
    assert words.hour_cell(None) == words.CellView("·", "none")
    assert words.hour_cell(("UNKNOWN", 0)).text == "? UNKNOWN"
    assert words.hour_cell(("INCOMPLETE", 1_234)).text == "INCOMPLETE 1,234"
    assert words.trouble_words({"COMPLETE": 9, "UNKNOWN": 2, "INCOMPLETE": 1}) == "1 INCOMPLETE, 2 UNKNOWN"
