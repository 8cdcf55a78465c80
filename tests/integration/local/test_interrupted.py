"""Ctrl-C as a terminal sends it: SIGINT to the whole foreground group, at several moments. No started process is left."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local import control
from headrace.runtime.layout import Layout
from tests.support.leftovers import processes_of
from tests.support.processes import Process, eventually, free_port

from .test_supervisor import entry

NEVER_READY = "import time\nwhile True: time.sleep(0.1)"
LATEST_MS = 60_000
"""An interpreter that starts cold on a busy machine takes seconds, and here three start one after the other."""
LEAVES_ONE_BEHIND = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: time.sleep(0.1)"], start_new_session=True)
from headrace.runtime.lifecycle import StopSignal
from headrace.runtime.status import StatusFile
from pathlib import Path
stop = StopSignal().install()
StatusFile(Path(sys.argv[1])).write("ready")
while not stop.wait(50): pass
"""
LOG = '127.0.0.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "-"\n'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for pid in processes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)


def headrace(home: Path, table: str, *words: str) -> Process:
    """Return a running command in its own process group, as a shell starts one."""
    path = home / "table.toml"
    path.write_text(table)
    environment = {"HEADRACE_HOME": str(home), "PORT_SHIFT": "0", "HEADRACE_PROCESS_TABLE": str(path), "KEEP": ""}
    return Process([sys.executable, "-m", "headrace.cli.main", *words], home / "said", environment).start()


def nothing_left(home: Path) -> bool:
    left = processes_of(home)
    assert not left, left
    return True


DEMO = ["demo", "--log", "access.log"]


@pytest.mark.parametrize(
    ("words", "number"), [(["up"], signal.SIGINT), (DEMO, signal.SIGINT), (DEMO, signal.SIGTERM), (DEMO, signal.SIGHUP)]
)
def test_interrupted_while_starting_nothing_is_left(home: Path, words: list[str], number: signal.Signals) -> None:
    (home / "access.log").write_text(LOG)
    words = [str(home / word) if word == "access.log" else word for word in words]
    running = headrace(home, entry(home, "slow", [], code=NEVER_READY), *words)
    eventually(
        lambda: any("slow.py" in one for one in processes_of(home).values()), within_ms=LATEST_MS, what="something started"
    )
    os.killpg(running.pid, number)
    assert running.wait(LATEST_MS) == 130, running.output()
    assert nothing_left(home)
    if words[0] == "demo":
        assert "nothing that this demo started is left running" in running.output()
    assert "Traceback" not in running.output()


def test_interrupted_before_the_supervisor_says_anything_nothing_is_left(home: Path) -> None:
    running = headrace(home, entry(home, "slow", [], code=NEVER_READY), "up")
    eventually(lambda: (home / "logs" / "supervisor.log").exists(), every_ms=1, what="the supervisor about to be started")
    os.killpg(running.pid, signal.SIGINT)
    running.wait(LATEST_MS)
    eventually(lambda: nothing_left(home), what="nothing left")


def test_interrupted_again_while_stopping_it_still_stops_everything(home: Path) -> None:
    (home / "access.log").write_text(LOG)
    stubborn = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\n{NEVER_READY}"
    running = headrace(home, entry(home, "slow", [], code=stubborn), "demo", "--log", str(home / "access.log"))
    log = home / "logs" / "slow.log"
    eventually(lambda: log.exists() and "deaf" in log.read_text(), what="a process that does not heed SIGTERM")
    os.killpg(running.pid, signal.SIGINT)
    eventually(lambda: "interrupted:" in running.output(), what="it has begun to stop")
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(LATEST_MS) == 130, running.output()
    assert "interrupted again" in running.output()
    assert nothing_left(home)


def test_what_a_process_left_behind_in_a_session_of_its_own_ends_with_the_platform(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = home / "table.toml"
    table.write_text(entry(home, "leaver", [], code=LEAVES_ONE_BEHIND))
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    layout = Layout(home=home)
    control.up(layout, timeout_ms=20_000)
    left = [pid for pid, words in processes_of(home).items() if "leaver.py" not in words and "supervisor" not in words]
    assert len(left) == 1
    control.stop(layout, "leaver")
    assert left[0] in processes_of(home), "stopping one process alone does not look further"
    control.down(layout)
    assert nothing_left(home)


def test_up_says_all_that_is_lacking_before_it_starts_anything(home: Path) -> None:
    with socket.socket() as taken:
        port = free_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        table = home / "table.toml"
        table.write_text(entry(home, "server", []) + f"port = {port}\n")
        environment = {**os.environ, "HEADRACE_HOME": str(home), "HEADRACE_PROCESS_TABLE": str(table), "JAVA_HOME": str(home)}
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", "up"], env=environment, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 1
    assert "default-jre-headless" in done.stderr
    assert f"{port} (server)" in done.stderr
    assert not (home / "logs").exists()
