"""A child is the bench's own, alive, and read from /proc."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness.child import BenchFault, Child, free_port
from bench.harness.proc_meters import cpu_s, descendants, program, rss_mb


def test_a_port_that_is_open_already_is_a_fault(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody_else:
        port = somebody_else.getsockname()[1]
        with pytest.raises(BenchFault, match="another server is there"):
            Child([sys.executable, "-c", "pass"], tmp_path / "log", port=port).start()


def test_a_child_that_ends_before_its_port_opens_is_a_fault_with_its_last_words(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", "raise SystemExit('no licence')"], tmp_path / "log", port=free_port())
    with pytest.raises(BenchFault, match="no licence"):
        child.start()


def test_a_child_is_ours_once_its_port_answers_and_gone_after_stop(tmp_path: Path) -> None:
    port = free_port()
    serve = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    child = Child(serve, tmp_path / "log", port=port).start()
    assert cpu_s([child.pid]) > 0
    assert rss_mb([child.pid]) > 1
    assert descendants(os.getpid())[0] == os.getpid()
    assert child.pid in descendants(os.getpid())
    child.stop()
    with pytest.raises(BenchFault, match="is not running"):
        child.assert_alive()


def test_a_process_that_has_ended_meanwhile_is_left_out() -> None:
    """RabbitMQ's shell helpers come and go; one that went between two looks made a run fail."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert program(ended.pid) == ""
    assert descendants(ended.pid) == [ended.pid]
