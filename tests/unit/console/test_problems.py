"""What is wrong, worst first, each with a cause and a remedy."""

from pathlib import Path
from typing import Any

from headrace.console import problems
from headrace.console.problems import Rank, in_order
from headrace.local.supervisor.state import ProcessState, State

LOGS = Path("/logs")
T0 = 1_431_849_600_000


def process(name: str, state: State = "ready", reason: str | None = None, notice: str | None = None) -> ProcessState:
    return ProcessState(
        name=name, state=state, address="127.0.0.1:1", pid=1, started_at_ms=0, restarts=0, reason=reason, notice=notice
    )


def troubled(topic: str, verdict: str, **more: Any) -> dict[str, Any]:
    figures = {"missing": 0, "doubled": 0, "altered": 0, "windows": 1, "window_start_ms": T0}
    return {"topic": topic, "verdict": verdict, **figures, **more}


def test_lost_records_come_before_what_is_down_and_that_before_what_nobody_can_say() -> None:
    found = in_order(
        [
            *problems.of_windows([troubled("b", "UNKNOWN"), troubled("a", "DOUBLED", doubled=1)]),
            *problems.of_windows([troubled("c", "INCOMPLETE", missing=3)]),
            *problems.of_processes([process("registry", "starting"), process("mirror", "stopped")], LOGS),
        ]
    )  # fmt: skip
    assert [one.rank for one in found] == [Rank.LOST, Rank.DOWN, Rank.DOUBLED, Rank.UNKNOWN, Rank.WAITING]
    assert found[0].what == "c: 1 window is INCOMPLETE"
    assert "3 missing" in found[0].why
    assert "2015-05-17 08:00 UTC" in found[0].why
    assert found[0].href == f"/window?topic=c&start={T0}"


def test_a_stopped_process_has_the_command_that_starts_it_and_a_ready_one_is_no_problem() -> None:
    (found,) = problems.of_processes([process("mirror", "stopped", "an operator stopped it"), process("audit")], LOGS)
    assert found.remedy == "`headrace start mirror` starts it again"
    assert found.why == "an operator stopped it"


def test_what_an_operator_has_ordered_is_noted_and_no_fault() -> None:
    (found,) = problems.of_processes([process("mirror", notice="paused by ana: disk full")], LOGS)
    assert found.rank is Rank.NOTED
    assert found.why == "paused by ana: disk full"


def test_of_two_problems_about_the_same_thing_the_worst_is_shown() -> None:
    status = {"state": "ready", "at_ms": 0, "beat_every_ms": 1_000}
    found = in_order([
        *problems.of_mirror(status, now_ms=60_000), *problems.of_processes([process("mirror", "starting")], LOGS)
    ])  # fmt: skip
    assert [one.what for one in found] == ["mirror has written no status for 60 s"]


def test_stopped_partitions_of_the_mirror_are_named_to_a_bound() -> None:
    errors = [{"topic": "t", "partition": one, "state": "blocked", "error": f"fault {one}"} for one in range(7)]
    (found,) = problems.of_mirror({"state": "ready", "at_ms": 5_000, "errors": errors}, now_ms=5_000)
    assert found.what == "mirror has stopped copying 7 partitions"
    assert "t-4: fault 4" in found.why
    assert "and 2 more" in found.why
    assert "fault 5" not in found.why
    assert problems.of_mirror(None, now_ms=0) == []


def test_producers_that_are_quiet_for_an_hour_are_one_note() -> None:
    (found,) = problems.of_producers({"count": 7, "instances": ["host/app/0", "host/app/1"]})
    assert found.rank is Rank.NOTED
    assert found.what == "7 producers have sent nothing for an hour, and no final report"
    assert "host/app/0" in found.why
    assert problems.of_producers({"count": 0, "instances": []}) == []


def test_what_the_audit_cannot_read_is_a_problem_of_its_own() -> None:
    (found,) = problems.of_hearing(["The live log cannot be read now: refused"])
    assert found.rank is Rank.UNKNOWN
    assert found.why == "The live log cannot be read now: refused"
