"""`headrace status`: a table on stdout, one line a fault on stderr, and an exit code that says whether there is one."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli import status
from headrace.cli.main import main
from headrace.local import control
from headrace.local.supervisor.faults import ADVICE, fault
from headrace.local.supervisor.state import PlatformState, ProcessState, State
from headrace.runtime.disk_room import DiskRoom


def process(name: str, state: State, reason: str | None, address: str | None = None) -> ProcessState:
    return ProcessState(name=name, state=state, address=address, pid=os.getpid(), started_at_ms=1, restarts=0, reason=reason)


FULL = process("broker-live", "unhealthy", "the disk is full: /data has 0 bytes free", "127.0.0.1:9092")
STILL = process(
    "mirror", "unhealthy", "has made no progress since 2026-01-01T00:00:00Z: no broker answers (clicks-0, 9 bytes behind)"
)
WELL = process("registry", "ready", None, "127.0.0.1:8081")


def told(monkeypatch: pytest.MonkeyPatch, *processes: ProcessState) -> None:
    monkeypatch.setattr(status, "look", lambda path: DiskRoom(path=path, free_bytes=1 << 30, free_files=None))
    monkeypatch.setattr(control, "running", lambda layout: PlatformState(supervisor_pid=1, at_ms=1, processes=list(processes)))


def test_each_fault_is_one_line_with_what_where_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, FULL, WELL, STILL)
    assert main(["status"]) == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 4
    full, still = said.err.splitlines()
    assert full.startswith("broker-live at 127.0.0.1:9092 is unhealthy: the disk is full: /data has 0 bytes free. What to do: ")
    assert "broker-live.log" in full
    assert still.startswith("mirror is unhealthy: has made no progress since 2026-01-01T00:00:00Z: no broker answers")


def test_a_full_disk_of_the_platform_itself_is_a_fault_even_where_all_looks_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names a fault: on a full disk the state that `headrace status` reads stays as it was."""
    told(monkeypatch, WELL)
    monkeypatch.setattr(status, "look", lambda path: DiskRoom(path=path, free_bytes=7, free_files=None))
    assert main(["status"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("the disk is full: ")
    assert line.endswith("What is shown may be old: the supervisor cannot write it there")


def test_a_paused_mirror_is_told_as_such_and_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names a lack: a mirror that an operator had paused was shown as `ready` and nothing else."""
    told(monkeypatch, WELL, replace(process("mirror", "ready", None), notice="paused since 2026-01-01T00:00:00Z by ann"))
    assert main(["status"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].endswith("  ready - paused since 2026-01-01T00:00:00Z by ann")
    assert said.err == ""
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["notice"] == "paused since 2026-01-01T00:00:00Z by ann"


def test_a_platform_that_is_well_has_no_fault_and_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, WELL)
    assert main(["status", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)[0]["state"] == "ready"
    assert status.HELP


@pytest.mark.parametrize("state", sorted(ADVICE))
def test_every_state_has_its_advice(state: State) -> None:
    assert "What to do: " in fault(process("mirror", state, None), Path("mirror.log"))
