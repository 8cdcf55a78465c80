"""The platform's disk is full: the supervisor continues, and writes its state once there is room."""

import errno
from pathlib import Path

import pytest

from headrace.local.supervisor import process_table, supervisor
from headrace.local.supervisor.state import PlatformState
from headrace.local.supervisor.supervisor import Supervisor
from headrace.runtime.clock import ManualClock
from headrace.runtime.layout import Layout


def test_a_full_disk_does_not_end_the_supervisor_and_a_wrong_path_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names a fault: the state that was to say that the broker's disk is full found no room there itself; that ended the
    supervisor, and every process with it.
    """
    monkeypatch.setattr(process_table, "load", lambda layout: [])
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    one = Supervisor(Layout.from_environment(), ManualClock(1_000))
    outcome: list[int] = [errno.ENOSPC, errno.ENOSPC, errno.EACCES]
    written: list[PlatformState] = []

    def write(layout: Layout, state: PlatformState) -> None:
        if outcome:
            raise OSError(outcome.pop(0), "why")
        written.append(state)

    monkeypatch.setattr(supervisor, "write_platform", write)
    one._write_state()
    one._write_state()
    with pytest.raises(OSError, match="why"):
        one._write_state()
    one._write_state()
    one._write_state()
    assert len(written) == 1, "once, and not again while nothing changes"
