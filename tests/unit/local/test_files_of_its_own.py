"""What `make up` leaves behind is readable by its user alone."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.local import control
from headrace.runtime.layout import Layout


def test_the_home_and_what_processes_write_into_it_are_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    real = subprocess.Popen

    def started(command: list[str], **words: Any) -> Any:
        """The supervisor's children inherit its mask; here the child is one that writes a store."""
        words.pop("env")
        return real(["touch", str(home / "books.sqlite")], **words)

    monkeypatch.setattr(control.subprocess, "Popen", started)
    monkeypatch.setattr(control.preflight, "platform_faults", lambda *words: [])
    monkeypatch.setattr(control, "_await_ready", lambda layout, supervisor, *more: supervisor.wait(20))
    assert control.up(Layout(home=home))
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "books.sqlite").stat().st_mode & 0o777 == 0o600
