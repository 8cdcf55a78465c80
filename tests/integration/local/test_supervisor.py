"""The supervisor with real processes: ordered start, readiness, restart after kill -9, stop in reverse, reasons given."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.local import control
from headrace.runtime.layout import Layout
from headrace.runtime.status import read_status
from headrace.runtime.whole_file import replace_file
from tests.support.processes import eventually, free_port

SERVICE = """
import sys, time
from pathlib import Path
from headrace.runtime.lifecycle import StopSignal
from headrace.runtime.status import StatusFile
stop = StopSignal().install()
journal = Path({home!r}) / "journal"
with journal.open("a") as file: file.write("start {name}\\n")
StatusFile(Path(sys.argv[1])).write("ready")
while not stop.wait(50): pass
with journal.open("a") as file: file.write("stop {name}\\n")
"""


def entry(home: Path, name: str, after: list[str], code: str | None = None) -> str:
    script = home / f"{name}.py"
    script.write_text(code if code is not None else SERVICE.format(home=str(home), name=name))
    return (
        f'[[process]]\nname = "{name}"\ncommand = ["{sys.executable}", "{script}", "{{status}}"]\n'
        f'after = {after!r}\nready = "status"\nstop_ms = 3000\n'
    )


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layout]:
    table = tmp_path / "table.toml"
    table.write_text(entry(tmp_path, "second", ["first"]) + entry(tmp_path, "first", []))
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    layout = Layout(home=tmp_path)
    yield layout
    control.down(layout)


def journal(layout: Layout) -> list[str]:
    return (layout.home / "journal").read_text().split("\n")[:-1]


def test_processes_start_in_order_and_stop_in_reverse(layout: Layout) -> None:
    assert control.up(layout, timeout_ms=20_000)
    assert not control.up(layout, timeout_ms=20_000), "a second `up` finds the first one's platform"
    with pytest.raises(control.PlatformError, match=f"is running in {layout.home}"):
        control.up(replace(layout, engine="kafka"), timeout_ms=20_000)
    assert control.running(layout).is_ready, "the one that is running is left alone"
    assert control.down(layout)
    assert journal(layout) == ["start first", "start second", "stop second", "stop first"]
    assert control.state(layout) is None
    assert not control.down(layout)


def test_a_killed_process_is_started_again(layout: Layout) -> None:
    control.up(layout, timeout_ms=20_000)
    before = control.running(layout).process("first")
    assert before.pid is not None
    os.kill(before.pid, signal.SIGKILL)

    def restarted() -> bool:
        now = control.running(layout).process("first")
        return now.state == "ready" and now.pid != before.pid and now.restarts == 1

    eventually(restarted, what="the killed process ready again")
    assert control.running(layout).process("second").restarts == 0


def test_a_stopped_process_stays_stopped_until_it_is_started(layout: Layout) -> None:
    control.up(layout, timeout_ms=20_000)
    control.stop(layout, "second")
    assert control.running(layout).process("second").state == "stopped"
    assert control.running(layout).process("second").pid is None
    control.start(layout, "second")
    assert control.running(layout).process("second").state == "ready"
    with pytest.raises(control.PlatformError, match="no process 'third'"):
        control.stop(layout, "third")


def test_up_fails_with_the_reason_and_the_log_s_tail_when_a_process_does_not_become_ready(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = layout.home / "broken.toml"
    table.write_text(entry(layout.home, "broken", [], code="raise SystemExit('the disk is on fire')"))
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    with pytest.raises(control.PlatformError, match=r"broken: (?s:.*)the disk is on fire"):
        control.up(layout, timeout_ms=3_000)
    assert control.state(layout) is None, "nothing is left running"


def test_up_names_the_port_that_something_else_holds(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    table = layout.home / "ported.toml"
    table.write_text(entry(layout.home, "server", []) + f"port = {port}\n")
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(control.PlatformError, match=rf"{port} \(server\)"):
            control.up(layout, timeout_ms=3_000)


def test_processes_die_with_a_killed_supervisor(layout: Layout) -> None:
    control.up(layout, timeout_ms=20_000)
    seen = control.running(layout)
    os.kill(seen.supervisor_pid, signal.SIGKILL)
    pids = [process.pid for process in seen.processes if process.pid is not None]

    def gone() -> bool:
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)

    eventually(gone, what="orphans gone")
    assert control.state(layout) is None
    assert control.up(layout, timeout_ms=20_000), "the next `up` starts afresh"
    assert read_status(layout.run / "first.json") is not None


STANDING = """
import sys
from pathlib import Path
from headrace.runtime.lifecycle import StopSignal
from headrace.runtime.status import StatusFile
stop, status = StopSignal().install(), StatusFile(Path(sys.argv[1]))
while not stop.wait(50):
    told = Path({home!r}) / "trouble"
    if told.exists(): status.write("stalled", reason=told.read_text(), beat_every_ms=1000)
    else: status.write("ready", beat_every_ms=1000)
"""


def test_a_process_that_stands_still_is_shown_with_its_reason_and_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.toml"
    table.write_text(entry(tmp_path, "mirror", [], STANDING.format(home=str(tmp_path))))
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    layout = Layout(home=tmp_path)
    try:
        control.up(layout, timeout_ms=20_000)
        assert main(["status"]) == 0
        before = control.running(layout).process("mirror")
        replace_file(tmp_path / "trouble", b"has made no progress since noon: no broker answers")
        eventually(lambda: main(["status"]) == 1, what="the standstill in the status")
        assert "mirror is unhealthy: has made no progress since noon: no broker answers. What to do:" in capsys.readouterr().err
        (tmp_path / "trouble").unlink()
        eventually(lambda: main(["status"]) == 0, what="well by itself")
        assert control.running(layout).process("mirror").pid == before.pid
    finally:
        control.down(layout)
