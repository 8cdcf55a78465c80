"""What a look at a process says: well, or what is wrong in its own words."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headrace.local.supervisor import probes
from headrace.local.supervisor.process_table import Probe
from headrace.runtime.clock import ManualClock
from headrace.runtime.disk_room import DiskRoom
from headrace.runtime.status import StatusFile

PID = 77


def looked(path: Path, clock: ManualClock) -> str | None:
    return probes.look(Probe(status_file=path), PID, clock)


def test_a_stalled_process_is_told_in_its_own_words_and_a_ready_one_is_well(tmp_path: Path) -> None:
    clock, path = ManualClock(5_000), tmp_path / "mirror.json"
    assert looked(path, clock) == "has not written its status yet"
    status = StatusFile(path, clock)
    status.write("ready", pid=PID)
    assert looked(path, clock) is None
    status.write("stalled", pid=PID, reason="has made no progress since noon: no room")
    assert looked(path, clock) == "has made no progress since noon: no room"
    status.write("starting", pid=PID, reason="no broker answers")
    assert looked(path, clock) == "says starting: no broker answers"


def test_what_an_operator_has_ordered_is_told_of_a_process_that_is_well(tmp_path: Path) -> None:
    clock, path = ManualClock(5_000), tmp_path / "mirror.json"
    probe = Probe(status_file=path)
    assert probes.notice(probe, PID) is None
    StatusFile(path, clock).write("ready", pid=PID, notice="paused since noon")
    assert looked(path, clock) is None
    assert probes.notice(probe, PID) == "paused since noon"
    assert probes.notice(probe, PID + 1) is None, "of a predecessor"
    StatusFile(path, clock).write("ready", pid=PID, notice=None)
    assert probes.notice(probe, PID) is None
    assert probes.notice(Probe(tcp_port=1), PID) is None


def test_a_process_that_promised_to_speak_and_is_silent_hangs(tmp_path: Path) -> None:
    path = tmp_path / "mirror.json"
    StatusFile(path, ManualClock(5_000)).write("ready", pid=PID, beat_every_ms=1_000)
    assert looked(path, ManualClock(5_000 + 1_000 * probes.BEATS)) is None
    assert "it hangs" in str(looked(path, ManualClock(5_001 + 1_000 * probes.BEATS)))
    StatusFile(path, ManualClock(5_000)).write("ready", pid=PID)
    assert looked(path, ManualClock(10**9)) is None, "one that promised nothing may be silent"


def test_a_status_that_is_old_because_its_disk_is_full_is_not_told_as_a_process_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names a lack of the issue's section 5: status did not say that a disk is full."""
    path = tmp_path / "mirror.json"
    monkeypatch.setattr(probes, "look_at_disk", lambda folder: DiskRoom(path=folder, free_bytes=0, free_files=None))
    assert str(looked(path, ManualClock(5_000))).startswith(f"has not written its status yet: the disk is full: {tmp_path}")
    StatusFile(path, ManualClock(5_000)).write("ready", pid=PID, beat_every_ms=1_000)
    assert looked(path, ManualClock(6_000)) is None
    told = str(looked(path, ManualClock(5_000_000)))
    assert told.startswith(f"cannot write its status for 4995000 ms: the disk is full: {tmp_path} has 0 bytes free")


class Served:
    """Answers every GET with one status and body."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(served.status)
                self.send_header("Content-Length", str(len(served.body)))
                self.end_headers()
                self.wfile.write(served.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.probe = Probe(http=f"http://127.0.0.1:{self.server.server_port}/readyz")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.server.shutdown()
    server.server.server_close()


def test_a_page_that_gives_reasons_is_told_by_them_and_any_other_by_its_status(served: Served) -> None:
    assert probes.look(served.probe, PID) is None
    served.status, served.body = 503, json.dumps({"ready": False, "reasons": ["the disk is full", "no session"]}).encode()
    assert probes.look(served.probe, PID) == "the disk is full; no session"
    served.body = json.dumps({"ready": False, "trouble": "records were lost"}).encode()
    assert probes.look(served.probe, PID) == "records were lost"
    for body in (b"", b"{", b"[]", b'{"reasons": []}', b'{"reasons": 7}', b"\xff"):
        served.body = body
        assert "answers 503 at http" in str(probes.look(served.probe, PID))
