"""The demo's success is what was sent, window by window: not what the audit happens to know."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.local import audit_queries, commands
from headrace.local.demo.comparison import faults
from headrace.local.demo.demo import Demo, Sent
from headrace.local.demo.demo_share import Before
from headrace.local.demo.source_counts import SourceCounts
from headrace.runtime.layout import Layout

W = 600_000
NOTHING = Before(windows={}, log_ends={})


def window(start: int, count: int, *, verdict: str = "COMPLETE", quarantined: int = 0, **tiers: int | None) -> dict[str, Any]:
    names = ("producer", "live", "mirror", "offline", "warehouse")
    return {
        "window_start_ms": start,
        "verdict": verdict,
        "reason": "somebody is late",
        "missing": 0,
        "doubled": 0,
        "altered": 0,
        "unaudited": 0,
        "redelivered": 0,
        "quarantined": quarantined,
        "losses": {"quarantined": quarantined} if quarantined else {},
        "tiers": dict.fromkeys(names, count) | tiers,
    }


SENT = SourceCounts(in_window={0: 7, W: 5})
FOUND = {0: window(0, 6, quarantined=1), W: window(W, 5)}
ROWS = {0: 6, W: 5}


def test_what_was_sent_and_is_everywhere_is_no_fault() -> None:
    assert faults(SENT, (0, W), NOTHING, FOUND, ROWS) == []


def test_a_window_that_the_audit_does_not_know_is_a_fault() -> None:
    assert faults(SENT, (0, W), NOTHING, {0: FOUND[0]}, {0: 6}) == [
        "1970-01-01 00:10: 5 events were sent, and the audit does not know the window",
        "in all windows: 12 events were sent, the audit knows of 7",
    ]


@pytest.mark.parametrize(
    ("found", "rows", "said"),
    [
        (window(W, 4), 4, ["5 events were sent, the audit knows of 4"]),
        (window(W, 6), 6, ["5 events were sent, the audit knows of 6"]),
        (window(W, 5, offline=4), 5, ["5 events are due in offline, the audit counts 4"]),
        (window(W, 5, warehouse=None), 5, ["5 events are due in warehouse, the audit counts –"]),
        (window(W, 5), 4, ["5 rows are due in the warehouse, a query finds 4"]),
        (window(W, 5, verdict="UNKNOWN"), 5, ["UNKNOWN: somebody is late"]),
    ],
)
def test_each_difference_of_a_window_is_told(found: dict[str, Any], rows: int, said: list[str]) -> None:
    lines = faults(SENT, (0, W), NOTHING, {**FOUND, W: found}, {0: 6, W: rows})
    assert [line.removeprefix("1970-01-01 00:10: ") for line in lines if line.startswith("1970")] == said


def test_events_that_an_earlier_demo_sent_are_not_this_demo_s() -> None:
    before = Before(windows={W: window(W, 30, quarantined=2)}, log_ends={0: 99})
    assert faults(SENT, (0, W), before, {**FOUND, W: window(W, 35, quarantined=2)}, ROWS) == []
    assert faults(SENT, (0, W), before, {**FOUND, W: window(W, 35, quarantined=3)}, ROWS)


def test_events_without_a_window_of_their_own_may_lie_in_any_but_not_nowhere() -> None:
    sent = SourceCounts(in_window={0: 7, W: 4}, unplaced=1)
    assert faults(sent, (0, W), NOTHING, FOUND, ROWS) == []
    assert faults(sent, (0, W), NOTHING, {**FOUND, W: window(W, 4)}, {0: 6, W: 4}) == [
        "in all windows: 12 events were sent, the audit knows of 11"
    ]


def test_the_demo_fails_when_the_audit_knows_only_one_of_two_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault of the issue: `demo._result` dropped windows that the books do not know, and never compared with what was sent."""
    sent = Sent(
        topic="clicks", source=SENT, event_count=11, quarantined_count=1, window_starts_ms=(0, W), hour_start_ms=3_600_000
    )
    shown: list[str] = []
    for found, holds in ((FOUND, True), ({0: FOUND[0]}, False), ({}, False)):
        rows = [{"start": start, "n": n} for start, n in ROWS.items() if start in found]
        monkeypatch.setattr(audit_queries, "wait_until", lambda *_, found=found, **__: (False, found))
        monkeypatch.setattr(commands, "output_of", lambda *_, rows=rows: json.dumps(rows))
        demo = Demo(Layout(home=tmp_path), log=None, topic="clicks", keep=False, say=shown.append, show=shown.append)
        monkeypatch.setattr(demo, "_headrace", lambda *_, **__: (0, ""))
        assert demo._result(sent, NOTHING) is holds, shown[-5:]
    assert "0 of 2 windows are COMPLETE" in shown[-1]
