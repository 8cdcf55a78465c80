"""Which verdicts the ledgers allow, and that an audit that says another one is found."""

from dataclasses import replace

import pytest

from tests.chaos_sdk.claims import Told
from tests.chaos_sdk.ledgers import ProcessLedger
from tests.chaos_sdk.verdicts import ABSENT, Verdicts, Verifier, allowed, wrong

CLEAN = ProcessLedger("app", was_killed=False, instance="run", attempted=["app.0.0", "app.0.1"], taken={"app.0.0", "app.0.1"})
KILLED = replace(CLEAN, name="killed", was_killed=True, instance="killed", attempted=["killed.0.0"], taken={"killed.0.0"})
THERE = {"app.0.0", "app.0.1"}


def test_what_is_there_and_closed_is_complete_in_both_transports() -> None:
    for has_journal in (False, True):
        assert allowed([CLEAN], THERE, (), {"run": Told(is_closed=True)}, has_journal=has_journal) == {"COMPLETE"}


def test_a_window_with_a_killed_logger_that_was_announced_is_unknown_where_something_is_lost() -> None:
    told = {"run": Told(), "killed": Told()}
    assert allowed([CLEAN, KILLED], THERE, (), told, has_journal=False) == {"UNKNOWN"}
    assert allowed([CLEAN, KILLED], {*THERE, "killed.0.0"}, (), told, has_journal=False) == {"UNKNOWN", "COMPLETE"}
    assert allowed([KILLED], (), (), told, has_journal=False) == {"UNKNOWN", ABSENT}
    assert allowed([KILLED], (), {"killed.0.0"}, told, has_journal=False) == {"UNKNOWN", "COMPLETE", ABSENT}
    assert allowed([KILLED], (), (), {"killed": Told({"quarantined": 1})}, has_journal=False) == {"UNKNOWN"}


def test_nobody_waits_for_who_was_killed_before_it_was_announced() -> None:
    assert allowed([CLEAN, KILLED], THERE, (), {"run": Told()}, has_journal=False) == {"COMPLETE"}


def test_a_killed_application_with_a_journal_is_decided_like_one_that_ended() -> None:
    told = {"killed": Told()}
    assert allowed([KILLED], {"killed.0.0"}, (), told, has_journal=True) == {"COMPLETE"}
    assert allowed([KILLED], (), (), told, has_journal=True) == {"ACCOUNTED", ABSENT}


@pytest.mark.parametrize(
    ("process", "losses"),
    [
        (replace(CLEAN, dropped={"app.0.2"}), {"dropped_buffer_full": 1}),
        (replace(CLEAN, taken={"app.0.0", "app.0.1", "app.0.2"}), {}),
        (replace(CLEAN, refused={"app.0.2"}), {"refused_by_schema": 1}),
        (replace(CLEAN, attempted=["app.0.0", "app.0.1", "app.0.2"]), {"dropped_journal_full": 1}),
    ],
)
def test_what_is_nowhere_is_never_complete(process: ProcessLedger, losses: dict[str, int]) -> None:
    assert allowed([process], THERE, (), {"run": Told(losses)}, has_journal=True) == {"ACCOUNTED"}


def test_what_is_in_quarantine_is_complete() -> None:
    process = replace(CLEAN, refused={"app.0.2"})
    assert allowed([process], THERE, {"app.0.2"}, {"run": Told({"quarantined": 1})}, has_journal=False) == {"COMPLETE"}


def test_every_wrong_verdict_is_named() -> None:
    assert wrong({0: {"COMPLETE"}, 1: {"UNKNOWN", ABSENT}}, {0: "COMPLETE"}) == []
    assert wrong({0: {"UNKNOWN"}}, {0: "COMPLETE"}) == ["window 0 is COMPLETE, the ledgers allow UNKNOWN"]
    assert wrong({0: {"COMPLETE"}}, {}) == ["window 0 is not there, the ledgers allow COMPLETE"]
    assert wrong({}, {7: "DOUBLED"}) == ["window 7 is DOUBLED, nobody logged to it"]


def test_a_verdict_that_changes_after_its_episode_is_found_at_the_next_one() -> None:
    said: dict[str, Verdicts] = {"one": {0: "UNKNOWN"}, "two": {}}
    verifier = Verifier(said.__getitem__, within_ms=1)
    assert verifier.faults("one", {0: {"UNKNOWN"}}) == []
    said["one"] = {0: "COMPLETE"}
    assert verifier.faults("two", {}) == ["one: window 0 is COMPLETE, the ledgers allow UNKNOWN"]
    assert verifier.faults("two", {}) == [], "told once"
