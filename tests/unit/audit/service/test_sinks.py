"""Rows of sinks in the store: time alone changes them, also behind a restart, and they keep no window from growing old."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.service.errors import StoreError
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.web import report
from headrace.audit.service.web.metrics import Metrics
from tests.support.audit_parts import T0, Service, W, complete, mirror

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
    # The live log was not read again yet, and the verdict is not created again for a sink's sake.
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


def test_a_sink_that_a_person_asks_for_and_that_never_began_is_unknown_after_its_deadline(tmp_path: Path) -> None:
    """Fault: only topics of which a sink had told something were looked at again, so its row stayed OPEN for ever."""
    asked = TopicTiers(required=("producer", "live", "mirror", SINK))
    service = Service(tmp_path / "audit.db", AuditSettings(default_topic=asked))
    try:
        complete(service)
        assert {start: row["verdict"] for start, row in rows(service).items()} == {T0: "OPEN", T0 + W: "OPEN"}
        service.restart()
        service.read("live", 100, 100, {})
        fall_silent(service)
        assert {start: row["verdict"] for start, row in rows(service).items()} == {T0: "UNKNOWN", T0 + W: "UNKNOWN"}
        assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    finally:
        service.database.close()


def told(service: Service) -> list[tuple[Any, ...]]:
    service.judge.bring_up_to_date()
    return [
        (one["window_start_ms"], one["sink"], one["from_verdict"], one["to_verdict"], one["missing"])
        for one in service.sink_changes
    ]


def test_a_row_that_becomes_wrong_and_one_that_is_right_again_are_told_and_nothing_else(service: Service) -> None:
    complete(service)
    service.report(mirror(0, 5, {T0: 5}, tier=SINK), offset=2)
    assert told(service) == [], "complete and open rows are nobody's business"
    fall_silent(service)
    assert told(service) == [], "nor is an unknown one: the verdicts' notices name who is silent"
    changes = len(service.changes)
    service.report(mirror(5, 100, {T0 + W: 2}, tier=SINK), offset=3)
    wrong = (T0 + W, SINK, "UNKNOWN", "INCOMPLETE", 1)
    assert told(service) == [wrong]
    assert service.sink_changes[0].keys() == {
        "at_ms", "topic", "window_start_ms", "sink", "from_verdict", "to_verdict", "missing", "doubled", "altered", "reason",
    }  # fmt: skip
    service.restart()
    assert told(service) == [wrong], "once"
    service.report(mirror(5, 100, {T0 + W: 3}, tier=SINK), offset=4)
    service.hear()
    service.read("live", 100, 100, {})
    assert told(service) == [wrong, (T0 + W, SINK, "INCOMPLETE", "COMPLETE", 0)]
    assert len(service.changes) == changes, "no notice of a verdict came of it"


def page_of(service: Service) -> dict[str, float]:
    text = Metrics(service.ledger, service.judge, service.clock).page(ready=True).decode()
    lines = [line for line in text.splitlines() if line.startswith("headrace_audit_sink_")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_metrics_tell_of_each_sink_what_it_lacks_and_which_windows_nobody_decides(service: Service) -> None:
    complete(service)
    service.report(mirror(0, 5, {T0: 4}, tier=SINK), mirror(0, 100, {T0: 5, T0 + W: 3}, tier="sink:other"), offset=2)
    service.judge.bring_up_to_date()
    assert page_of(service) == {
        'headrace_audit_sink_windows{topic="clicks",sink="sink:clicks",verdict="INCOMPLETE"}': 1,
        'headrace_audit_sink_windows{topic="clicks",sink="sink:clicks",verdict="OPEN"}': 1,
        'headrace_audit_sink_windows{topic="clicks",sink="sink:other",verdict="COMPLETE"}': 2,
        'headrace_audit_sink_missing_records{topic="clicks",sink="sink:clicks"}': 1,
        'headrace_audit_sink_missing_records{topic="clicks",sink="sink:other"}': 0,
        'headrace_audit_sink_doubled_records{topic="clicks",sink="sink:clicks"}': 0,
        'headrace_audit_sink_doubled_records{topic="clicks",sink="sink:other"}': 0,
        'headrace_audit_sink_quarantined_records{topic="clicks",sink="sink:clicks"}': 0,
        'headrace_audit_sink_quarantined_records{topic="clicks",sink="sink:other"}': 0,
    }


def test_metrics_of_many_sinks_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.audit.service.web.metrics.MOST_SINKS", 2)
    complete(service)
    service.report(*(mirror(0, 5, {T0: 4}, tier=f"sink:{name}") for name in "abcd"), offset=2)
    service.judge.bring_up_to_date()
    found = page_of(service)
    assert len(found) == 3 * (2 + 3)
    assert found['headrace_audit_sink_missing_records{topic="",sink=""}'] == 2
    assert found['headrace_audit_sink_windows{topic="",sink="",verdict="OPEN"}'] == 2


STEPS = st.tuples(st.sampled_from(["tell", "fail", "restart", "age", "ask"]), st.integers(0, 90), st.integers(0, 9))


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=25, deadline=None)
def test_what_is_counted_of_sinks_is_what_stands_in_the_windows_whatever_came_between(
    steps: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "audit.db")
        try:
            complete(service)
            for number, (step, at, count) in enumerate(steps):
                match step:
                    case "tell":
                        counts = {T0: count, T0 + W: at % 4}
                        service.report(mirror(at, 100, counts, tier=f"sink:{count % 2}"), offset=2 + number)
                    case "fail":
                        fails(service, mirror(at, at + 9, {T0: count}, tier="sink:0"), offset=2 + number)
                    case "restart":
                        service.restart()
                    case "age":
                        service.clock.advance(count * DAY_MS // 2)
                        service.judge.roll_up()
                    case "ask":
                        page_of(service)
                service.judge.bring_up_to_date()
                assert counted(service) == summed(service)
        finally:
            service.database.close()


def fails(service: Service, *reports: Any, offset: int) -> None:
    """The store refuses just when the judge has written windows."""
    service.report(*reports, offset=offset)
    keep = service.ledger.books.notes.note_changes

    def refuse(changes: Any) -> None:
        raise StoreError("the disk is full")

    service.ledger.books.notes.note_changes = refuse  # type: ignore[method-assign]
    try:
        service.judge.bring_up_to_date("clicks")
    except StoreError:
        pass
    finally:
        service.ledger.books.notes.note_changes = keep  # type: ignore[method-assign]


def counted(service: Service) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for one in service.ledger.books.verdict(lambda stored: stored.sinks.totals()):
        found |= {(one.sink, name): count for name, count in (*one.windows.items(), *one.numbers.items()) if count}
    return found


def summed(service: Service) -> dict[tuple[str, str], int]:
    """The same from the windows' own words."""
    found: dict[tuple[str, str], int] = {}
    for window in service.ledger.books.verdict(lambda stored: stored.page("clicks", limit=1_000)):
        for sink, row in window["sinks"].items():
            for name in (row["verdict"], "missing", "doubled", "altered", "quarantined"):
                count = 1 if name == row["verdict"] else row[name]
                if count:
                    found[sink, name] = found.get((sink, name), 0) + count
    return found


def test_windows_of_topics_without_a_sink_are_not_read_to_count_sinks(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a start read every window of the store, gigabytes of it, to find those with sinks."""
    complete(service)
    database = service.ledger.books.database
    read, asked = database.rows, list[str]()

    def rows(words: str, values: Any = ()) -> Any:
        asked.append(words)
        return read(words, values)

    monkeypatch.setattr(database, "rows", rows)

    def counted() -> list[Any]:
        def anew(stored: Any) -> list[Any]:
            stored.forget_sinks()
            return list(stored.sinks.totals())

        asked.clear()
        return service.ledger.books.verdict(anew)

    assert (counted(), [one for one in asked if "FROM verdicts" in one]) == ([], [])
    service.report(mirror(0, 5, {T0: 5}, tier=SINK), offset=2)
    service.judge.bring_up_to_date()
    assert [(one.topic, one.sink) for one in counted()] == [("clicks", SINK)]
    assert len([one for one in asked if "FROM verdicts" in one]) == 1
