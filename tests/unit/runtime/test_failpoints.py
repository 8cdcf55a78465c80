"""A drill never reads half a pid: it kills what the file names."""

import os
from pathlib import Path

import pytest

from headrace.runtime import failpoints


def test_the_file_that_says_where_a_process_is_held_appears_with_its_pid_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failpoints").mkdir()
    armed, reached = tmp_path / "failpoints" / "here", tmp_path / "failpoints" / "here.reached"
    armed.touch()
    monkeypatch.setattr(failpoints, "HOLD_MS", 1_000)
    seen: list[str] = []
    replaced = os.replace

    def seen_at_the_rename(source: str | Path, target: str | Path) -> None:
        assert not reached.exists(), "an empty file could be read before the pid is in it"
        replaced(source, target)
        seen.append(Path(target).read_text())
        armed.unlink()

    monkeypatch.setattr(os, "replace", seen_at_the_rename)
    failpoints.reach("here", tmp_path)
    assert seen == [str(os.getpid())] == [reached.read_text()]


def test_a_failpoint_that_no_drill_has_armed_writes_nothing(tmp_path: Path) -> None:
    failpoints.reach("here", tmp_path)
    failpoints.reach("here", None)
    assert not list(tmp_path.iterdir())
