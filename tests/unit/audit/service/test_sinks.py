"""Rows of sinks in the store: time alone changes them, also behind a restart, and they keep no window from growing old."""

from typing import Any

from headrace.audit.service.web import report
from tests.unit.audit.service_parts import T0, Service, W, complete, mirror

SINK = "sink:clicks"
DAY_MS = 86_400_000


def rows(service: Service) -> dict[int, dict[str, Any]]:
    return {one["window_start_ms"]: one["sinks"][SINK] for one in service.windows()}


def fall_silent(service: Service) -> None:
    """The audit listens for longer than a sink's deadline, and nobody says anything."""
    for _ in range(50):
        service.clock.advance(4_000)
        service.hear()
        service.judge.bring_up_to_date()


def test_a_row_waits_is_unknown_and_complete_and_the_verdict_never_moves(service: Service) -> None:
    complete(service)
    service.report(mirror(0, 5, {T0: 5}, tier=SINK), offset=2)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    assert {start: row["verdict"] for start, row in rows(service).items()} == {T0: "COMPLETE", T0 + W: "OPEN"}
    told = len(service.changes)
    service.restart()
    service.hear()
    service.report(mirror(5, 6, {T0 + W: 1}, tier=SINK), offset=3)
    # The live log was not read again yet, and the verdict is not made anew for a sink's sake.
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.read("live", 100, 100, {})
    fall_silent(service)
    assert {start: row["verdict"] for start, row in rows(service).items()} == {T0: "COMPLETE", T0 + W: "UNKNOWN"}
    assert rows(service)[T0 + W]["silent"] == [SINK]
    (window,) = [one for one in service.windows() if one["window_start_ms"] == T0 + W]
    assert f"{SINK} UNKNOWN: " in report.why_words(window)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.report(mirror(6, 100, {T0 + W: 1}, tier=SINK), offset=4)
    assert {start: row["verdict"] for start, row in rows(service).items()} == {T0: "COMPLETE", T0 + W: "INCOMPLETE"}
    (window,) = [one for one in service.windows() if one["window_start_ms"] == T0 + W]
    assert f"{SINK} INCOMPLETE(missing 1) 2" in report.why_words(window)
    assert [(one["tier"], one["first_offset"], one["count"]) for one in report.records(window)] == [(SINK, 7, 1)]
    assert (window["verdict"], window["missing"], window["first_bad_tier"]) == ("COMPLETE", 0, None)
    assert len(service.changes) == told, "no verdict changed"


def test_a_sink_that_somebody_stopped_keeps_no_window_from_growing_old(service: Service) -> None:
    complete(service)
    service.report(mirror(0, 5, {T0: 5}, tier=SINK), offset=2)
    for _ in range(4):
        fall_silent(service)
        service.clock.advance(DAY_MS)
        service.judge.roll_up()
    assert service.windows() == []
    (day,) = service.windows(days=True)
    assert (day["verdict"], day["windows"]) == ("COMPLETE", {"COMPLETE": 2})
    assert (day["sinks"][SINK]["verdict"], day["sinks"][SINK]["count"]) == ("UNKNOWN", 5)
    service.report(mirror(5, 100, {T0 + W: 3}, tier=SINK), offset=3)
    assert service.windows() == [], "what a sink tells of a day brings no window back"
