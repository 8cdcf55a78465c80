"""What a service manager hears: each state once, and why it is so; and nobody needs to listen."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.service_manager import SOCKET
from headrace.runtime.status import StatusFile

NOT_TOLD = "service_manager_not_told"


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """systemd's end, by either kind of address."""
    address = str(tmp_path / "notify")
    if request.param == "abstract":
        address = f"@{address}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0"))
        listening.setblocking(False)
        monkeypatch.setenv(SOCKET, address)
        yield listening


def heard(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(4_096).decode())
        except BlockingIOError:
            return found


def test_each_state_is_told_once_with_its_reason_also_without_a_file(manager: socket.socket) -> None:
    status = StatusFile(None)
    for _ in range(3):
        status.write("starting", reason="the broker\nis away")
    for _ in range(3):
        status.write("ready", port=1)
    status.write("stalled", reason="no room")
    status.write("stopping")
    assert heard(manager) == [
        "STATUS=starting: the broker is away",
        "STATUS=ready\nREADY=1",
        "STATUS=stalled: no room",
        "STATUS=stopping\nSTOPPING=1",
    ]


def test_a_manager_that_is_gone_or_does_not_read_stops_nobody(
    manager: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    status = StatusFile(tmp_path / "status.json")
    for number in range(2_000):  # more than its queue holds
        status.write("stalled", reason=str(number))
    assert NOT_TOLD in caplog.text
    assert 0 < len(heard(manager)) < 2_000
    caplog.clear()
    manager.close()
    status.write("ready")
    assert NOT_TOLD in caplog.text
    assert '"ready"' in (tmp_path / "status.json").read_text()


@pytest.mark.parametrize("address", [None, ""])
def test_where_nobody_listens_no_socket_is_made_and_nothing_is_logged(
    address: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    if address is not None:
        monkeypatch.setenv(SOCKET, address)
    made: list[object] = []
    monkeypatch.setattr("headrace.runtime.service_manager.socket.socket", lambda *words: made.append(words))
    StatusFile(None).write("ready")
    assert made == []
    assert NOT_TOLD not in caplog.text
