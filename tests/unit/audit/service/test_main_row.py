"""The row of the branch `main`: what the publish read back stands beside the verdict, and no verdict hangs on it."""

from typing import Any

from headrace.audit.model.messages import PublishedHour
from headrace.audit.service.web import report
from tests.support.audit_parts import T0, Service, W, complete, mirror


def told(verdict: str = "COMPLETE", *, revision: int = 1, counts: tuple[int, int] = (5, 2), **words: Any) -> PublishedHour:
    fields: dict[str, Any] = {"missing": 0, "doubled": 0, "reason": "every window is COMPLETE", **words}
    return PublishedHour(
        topic="clicks",
        instance="host/publish",
        at_ms=1,
        revision=revision,
        verdict=verdict,
        row_count=sum(counts),
        windows={T0: counts[0], T0 + W: counts[1]},
        **fields,
    )


def rows(service: Service) -> dict[int, tuple[str, int | None, int]]:
    found = {one["window_start_ms"]: one["sinks"]["main"] for one in service.windows() if "main" in one["sinks"]}
    return {start: (row["verdict"], row["count"], row["missing"]) for start, row in found.items()}


def loaded(service: Service) -> int:
    """Make both windows COMPLETE, with their seven records in the warehouse, too; return the next offset of the audit topic."""
    complete(service)
    service.report(mirror(0, 100, {T0: 5, T0 + W: 2}, tier="warehouse"), offset=2)
    service.read("offline", 0, 100, {T0: 5, T0 + W: 2})
    return 3


def test_a_row_follows_what_the_publish_has_read_back_and_the_verdict_never_moves(service: Service) -> None:
    """Fault: `publish` said REMOVED and the audit COMPLETE: two truths of one hour."""
    at = loaded(service)
    before = service.verdicts()
    assert rows(service) == {}, "nothing was published"
    service.report(told(), offset=at)
    assert rows(service) == {T0: ("COMPLETE", 5, 0), T0 + W: ("COMPLETE", 2, 0)}
    removed = told("REMOVED", revision=2, missing=4, reason="4 rows were removed by others: they are not added again")
    service.report(removed, offset=at + 1)
    assert rows(service) == {T0: ("INCOMPLETE", None, 4), T0 + W: ("INCOMPLETE", None, 0)}
    assert service.verdicts() == before
    (window,) = [one for one in service.windows() if one["window_start_ms"] == T0]
    assert "main INCOMPLETE(missing 4)" in report.why_words(window)
    assert "revision 2: 4 rows were removed by others" in window["sinks"]["main"]["reason"]
    assert [one["sink"] for one in service.sink_changes] == ["main", "main"], "who is told of sinks is told of it"
    service.restart()
    assert rows(service) == {T0: ("INCOMPLETE", None, 4), T0 + W: ("INCOMPLETE", None, 0)}


def test_rows_that_came_after_the_publish_leave_the_row_open(service: Service) -> None:
    at = loaded(service)
    service.report(told(counts=(3, 2)), offset=at)
    assert rows(service) == {T0: ("OPEN", 3, 0), T0 + W: ("COMPLETE", 2, 0)}
    (window,) = [one for one in service.windows() if one["window_start_ms"] == T0]
    assert "revision 1 holds 3 rows of this window, and 5 are loaded now" in report.why_words(window)


def test_an_hour_that_was_withdrawn_erased_or_differs_says_so(service: Service) -> None:
    at = loaded(service)
    for number, (verdict, row) in enumerate([("WITHDRAWN", "OPEN"), ("ERASED", "ACCEPTED"), ("DIFFERS", "INCOMPLETE")]):
        service.report(told(verdict, revision=number + 2), offset=at + number)
        assert {found for found, *_ in rows(service).values()} == {row}
