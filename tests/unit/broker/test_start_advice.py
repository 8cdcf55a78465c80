"""A failed start gives advice that fits the fault, never a traceback. Real processes where one is needed."""

import errno
import json
import os
import socket
import subprocess
import sys

import pytest

from headrace.runtime.monitoring.listening import AddressInUse


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.EADDRINUSE, "Address already in use"), "stop what listens there or give another --port"),
        (PermissionError(errno.EACCES, "Permission denied"), "this user may not listen on port 80: give another with --port"),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "10.9.8.7 is not an address of this machine: give another with --host"),
        (
            socket.gaierror(socket.EAI_NONAME, "Name not known"),
            "10.9.8.7 is not an address of this machine: give another with --host",
        ),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_told_with_what_to_do(error: OSError, advice: str) -> None:
    told = AddressInUse.from_os_error("cannot listen", ("10.9.8.7", 80), error, host_setting="--host", port_setting="--port")
    assert str(told) == f"cannot listen on 10.9.8.7:80: {error}: {advice}"


def with_open_files(limit: int) -> "subprocess.CompletedProcess[str]":
    code = (
        f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
        "from headrace.runtime.logs import configure\nfrom headrace.broker.network.descriptors import share_out\n"
        "configure('b')\nprint(share_out())\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_too_few_descriptors_are_refused_few_are_warned_of_and_enough_are_not_spoken_of() -> None:
    refused = with_open_files(40)
    assert refused.returncode == 1
    assert "only 40 open files are allowed and a broker needs 64" in refused.stderr
    few = with_open_files(200)
    assert (few.returncode, few.stdout) == (0, "200\n")
    assert json.loads(few.stderr)["event"] == "few_descriptors"
    enough = with_open_files(1_024)
    assert (enough.stdout, enough.stderr) == ("1024\n", "")


def test_a_start_that_fails_by_a_fault_of_ours_ends_with_a_line_of_the_log_and_1() -> None:
    code = (
        "import sys\nfrom headrace.broker import app\nfrom headrace.cli.main import main\n"
        "def fail(self): raise RuntimeError('a fault')\n"
        "app.BrokerProcess._start = fail\n"
        "sys.exit(main(['broker', 'run', '--data', 'nowhere', '--port', '0']))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "HOME": "/"}
    )
    assert run.returncode == 1
    lines = [json.loads(line) for line in run.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["broker_stopped", "broker_ends"]
    assert lines[-1]["why"] == "RuntimeError('a fault')"
    assert "in fail" in lines[-1]["traceback"]
