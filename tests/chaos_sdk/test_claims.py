"""The check itself: each way in which a pipeline could be wrong is planted, and must be found."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos_sdk.campaign import plan
from tests.chaos_sdk.claims import Held, Told, violations
from tests.chaos_sdk.ledgers import LedgerFile, ProcessLedger, read_ledger

CLEAN = {"taken": 2, "acknowledged": 2, "journaled": 0, "quarantined": 1, "dropped": {"dropped_buffer_full": 1}}


def _process(**changes: Any) -> ProcessLedger:
    """Two events taken, one dropped, one refused."""
    process = ProcessLedger(
        "app",
        was_killed=False,
        instance="run",
        attempted=["app.0.0", "app.0.1", "app.1.0", "app.1.1"],
        taken={"app.0.0", "app.0.1"},
        dropped={"app.1.0"},
        refused={"app.1.1"},
        closed=CLEAN,
    )
    return replace(process, **changes)


def _check(
    process: ProcessLedger,
    rows: list[tuple[int, str]] | None = None,
    quarantined: list[str] | None = None,
    *,
    losses: dict[str, int] | None = None,
    is_closed: bool = True,
    has_journal: bool = False,
    buffer_records: int = 1,
) -> list[str]:
    held = Held([(0, "app.0.0"), (0, "app.0.1")] if rows is None else rows, ["app.1.1"] if quarantined is None else quarantined)
    told = {"run": Told({"dropped_buffer_full": 1, "quarantined": 1} if losses is None else losses, is_closed)}
    return violations([process], held, told, has_journal=has_journal, buffer_records=buffer_records)


def test_nothing_is_found_where_all_is_well() -> None:
    assert _check(_process()) == []
    assert _check(_process(was_killed=True, closed=None), is_closed=False) == []


@pytest.mark.parametrize(
    ("changes", "topic", "found"),
    [
        ({}, {"rows": [(0, "app.0.0")]}, "app: 2 of its events are in no topic"),
        ({}, {"rows": [(0, "app.0.0"), (0, "app.0.0"), (0, "app.0.1")]}, "doubled: 1: app.0.0"),
        ({}, {"quarantined": ["app.1.1", "app.1.1"]}, "doubled: 1: app.1.1"),
        ({}, {"quarantined": ["app.1.1", "app.0.0"]}, "doubled: 1: app.0.0"),
        ({}, {"rows": [(0, "app.0.0"), (0, "app.0.1"), (1, "app.9.9")]}, "never attempted: 1: app.9.9"),
        ({}, {"rows": [(0, "app.0.0"), (0, "app.0.1"), (1, "app.1.0")]}, "stored, though log returned False: 1: app.1.0"),
        ({}, {"rows": [(0, "app.0.1"), (0, "app.0.0")]}, "out of order in partition 0: app.0.0 after 1"),
        ({}, {"quarantined": []}, "app: 2 of its events are in no topic"),
        ({}, {"losses": {}}, "app: 1 of its events are in no topic, {} are told"),
        ({}, {"losses": {"dropped_buffer_full": 2}}, "{'dropped_buffer_full': 2} are told, only 1 of its events"),
        ({}, {"is_closed": False}, "it closed its logger, and its run is not told as closed"),
        ({"closed": None}, {}, "it ended without closing its logger"),
        ({"closed": {**CLEAN, "acknowledged": 3}}, {}, "the topic holds 2 of its events"),
        ({"closed": {**CLEAN, "quarantined": 0}}, {}, "the quarantine holds 1 of its events"),
        ({"faults": ["app.0.2: LoggerForked()"]}, {}, "app: app.0.2: LoggerForked()"),
        ({"attempted": [*_process().attempted, "app.0.2"]}, {}, "app: 1 undecided in 2 threads: app.0.2"),
        (
            {"was_killed": True, "attempted": [*_process().attempted, "app.0.2", "app.0.3", "app.1.2"]},
            {"is_closed": False},
            "app: 3 undecided in 2 threads",
        ),
        ({"was_killed": True}, {"is_closed": True}, "app: killed, and its run is told as closed"),
        ({"was_killed": True}, {"is_closed": False, "rows": []}, "app: killed, and 2 taken events are gone: its buffer holds 1"),
        (
            {"was_killed": True},
            {"has_journal": True, "rows": [(0, "app.0.0")], "losses": {"dropped_buffer_full": 2}},
            "app: 1 taken by the journal are in no topic: app.0.1",
        ),
    ],
)
def test_each_fault_is_found(changes: dict[str, Any], topic: dict[str, Any], found: str) -> None:
    assert any(found in line for line in _check(_process(**changes), **topic)), _check(_process(**changes), **topic)


def test_what_a_killed_application_had_in_its_buffer_may_be_gone() -> None:
    assert _check(_process(was_killed=True, closed=None), [(0, "app.0.0")], [], is_closed=False) == []


def test_an_undecided_event_of_a_killed_journal_may_be_there_or_not_or_be_told_as_dropped() -> None:
    process = _process(was_killed=True, closed=None, attempted=[*_process().attempted, "app.0.2"])
    rows = [(0, "app.0.0"), (0, "app.0.1")]
    assert _check(process, rows, has_journal=True) == []
    assert _check(process, [*rows, (0, "app.0.2")], has_journal=True) == []
    assert _check(process, rows, losses={"dropped_journal_full": 2}, has_journal=True) == []


def test_a_forked_child_that_ends_before_its_first_event_has_no_run_to_close() -> None:
    """Fault of the check: a child that was ended right after its fork had to be reported as closed. Its parent's run still has
    to.
    """
    nothing = {"taken": 0, "acknowledged": 0, "journaled": 0, "quarantined": 0, "dropped": {}}
    parent = ProcessLedger("app", was_killed=False, instance="run", closed=nothing)
    child = replace(parent, name="app-child")
    assert violations([child], Held(), {}, has_journal=True, buffer_records=1) == []
    assert len(violations([parent], Held(), {}, has_journal=True, buffer_records=1)) == 1
    assert (
        len(
            violations(
                [replace(child, attempted=["app-child.0.0"], dropped={"app-child.0.0"})],
                Held(),
                {},
                has_journal=True,
                buffer_records=1,
            )
        )
        == 2
    )


def test_a_ledger_reads_what_was_written_and_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "app.ledger"
    ledger = LedgerFile(path)
    for kind, words in (("r", "run"), ("a", "app.0.0"), ("t", "app.0.0"), ("a", "app.0.1"), ("c", '{"taken": 1}')):
        ledger.write(kind, words)
    with path.open("ab") as file:
        file.write(b"a app.0")
    read = read_ledger(path, was_killed=True)
    assert (read.name, read.instance, read.attempted) == ("app", "run", ["app.0.0", "app.0.1"])
    assert (read.undecided, read.closed) == ({"app.0.1"}, {"taken": 1})


def test_a_campaign_has_all_its_rounds_in_both_transports() -> None:
    planned = list(plan(1_010, 7))
    assert sum(one.rounds for one in planned) == 1_010
    assert len({one.seed for one in planned}) == len(planned)
    assert {one.has_journal for one in planned} == {True, False}
