"""Windows that a run holds exist for the judge, the page and the gate, mentioned or not, and only as long as it holds them."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.audit.model.messages import Hold, Retirement
from headrace.spark.publish.gate import HOUR_MS, AuditedWindow, HourDecision, HourFacts, decide
from tests.support.audit_parts import SHORT, T0, Service, W, mirror, producer

HOUR = T0 // HOUR_MS
OTHERS = {T0: 5, T0 + 2 * W: 3}
"""What the other application has logged of the hour. Nobody mentions the window between."""
HELD = T0 + W


@pytest.fixture
def service(tmp_path: Path) -> Service:
    made = Service(tmp_path / "audit.db", replace(SHORT, deadline_ms={}))
    made.report(replace(producer(OTHERS), instance="host/other/1"), mirror(0, 100, OTHERS))
    made.read("live", 0, 100, OTHERS)
    made.hear()
    return made


def says(sequence: int, *holds: Hold, closed: bool = False) -> object:
    return replace(producer({}, closed=closed, sequence=sequence), producer_ids=(9,), holds=holds)


def settle(service: Service, by_ms: int = 0) -> dict[int, str]:
    """Let time pass in which the audit hears all and reads the live log to its end; return the verdicts."""
    for _ in range(0, by_ms, 4_000):
        service.clock.advance(4_000)
        service.hear()
    service.read("live", 100, 100, {})
    service.hear()
    return service.verdicts()


def gate(service: Service) -> HourDecision:
    """Return what a publish does with the hour, of which the tables hold every row that the audit knows."""
    words = service.windows(from_ms=HOUR * HOUR_MS, to_ms=(HOUR + 1) * HOUR_MS)
    for one in words:
        one["tiers"]["warehouse"] = one["tiers"]["mirror"]
    rows = sum(one["tiers"]["mirror"] or 0 for one in words)
    facts = HourFacts(hour=HOUR, row_count=rows)
    return decide(facts, [AuditedWindow.of(one) for one in words], None, now_ms=service.clock.now_ms())


def test_an_hour_with_a_held_window_that_nobody_mentions_is_not_published(service: Service) -> None:
    """Fault: an application was killed with events in memory of a window that nobody else mentions: the hour was published."""
    service.report(says(0, Hold(HELD, HELD + W, 6)), offset=2)
    assert settle(service) == {T0: "OPEN", HELD: "OPEN", T0 + 2 * W: "OPEN"}
    assert gate(service).action == "shut"
    assert settle(service, 30_000) == {T0: "COMPLETE", HELD: "UNKNOWN", T0 + 2 * W: "COMPLETE"}
    decision = gate(service)
    assert decision.action == "shut"
    assert "6 records were under way at its last report" in decision.reason
    service.restart()
    assert settle(service, 30_000)[HELD] == "UNKNOWN", "the store knows it too"
    assert gate(service).action == "shut"


def test_a_held_window_goes_with_the_hold_and_the_hour_is_published(service: Service) -> None:
    service.report(says(0, Hold(HELD, HELD + W, 6)), offset=2)
    assert settle(service)[HELD] == "OPEN"
    service.report(says(1, closed=True), offset=3)
    assert settle(service) == {T0: "COMPLETE", T0 + 2 * W: "COMPLETE"}
    assert gate(service).action == "publish"


def test_a_retirement_accepts_the_held_window_and_no_other_and_is_void_if_the_run_speaks(service: Service) -> None:
    service.report(says(0, Hold(HELD, HELD + W, 6)), offset=2)
    settle(service, 30_000)
    service.report(Retirement(instance="host/app/1", epoch=1, at_ms=1, by="anna", reason="killed"), offset=3)
    assert settle(service) == {T0: "COMPLETE", HELD: "ACCEPTED", T0 + 2 * W: "COMPLETE"}
    decision = gate(service)
    assert decision.action == "publish"
    assert decision.verdict == "ACCEPTED"
    service.report(says(1, Hold(HELD, HELD + W, 6)), offset=4)
    assert settle(service)[HELD] == "OPEN"


def test_a_held_window_is_not_added_to_its_day_as_one_that_nobody_decides(service: Service) -> None:
    service.report(says(0, Hold(HELD, HELD + W, 6)), offset=2)
    assert settle(service, 30_000)[HELD] == "UNKNOWN"
    service.judge.forget()
    assert service.verdicts()[HELD] == "UNKNOWN"
