"""Checks whether a process answers: a status file that says `ready`, an HTTP 2xx, an open port, a broker's answer. Each check is
bounded in time.
"""

import json
import socket
from typing import Any

from ...client.connection.cluster import Cluster
from ...errors import HeadraceError
from ...runtime.clock import Clock, SystemClock
from ...runtime.disk_room import look as look_at_disk
from ...runtime.disk_room import why_no_room
from ...runtime.http_call import HttpAddress, HttpAnswerTooLong, NoHttpAnswer
from ...runtime.layout import LOOPBACK
from ...runtime.status import read_status
from .process_table import Probe

LOOK_MS = 2_000
"""The longest time of one check."""
BEATS = 10
"""A process counts as hung after it missed this many of its own status updates."""


def look(probe: Probe, pid: int, clock: Clock | None = None) -> str | None:
    """Return None if the process `pid` answers as it should, else the fault as text."""
    if probe.status_file is not None:
        words = read_status(probe.status_file)
        # On a full disk the file stays as it was: then its age says nothing of the process.
        no_room = why_no_room(look_at_disk(probe.status_file.parent)) if probe.status_file.parent.exists() else None
        if words is None or words.get("pid") != pid:
            return "has not written its status yet" + ("" if no_room is None else f": {no_room}")
        return _fault_in(words, (clock or SystemClock()).now_ms(), no_room)
    if probe.http is not None:
        return _http(probe.http)
    if probe.kafka_port is not None:
        return _kafka(probe.kafka_port)
    return _tcp(probe.tcp_port or 0)


def notice(probe: Probe, pid: int) -> str | None:
    """Return what the process `pid` says of its orders in its status file, as text; None if it says nothing."""
    words = None if probe.status_file is None else read_status(probe.status_file)
    told = words.get("notice") if words is not None and words.get("pid") == pid else None
    return str(told) if told else None


def _kafka(port: int) -> str | None:
    cluster = Cluster(f"{LOOPBACK}:{port}", client_id="headrace-supervisor", request_timeout_ms=LOOK_MS)
    try:
        cluster.topics()
        return None
    except HeadraceError as error:
        return f"does not answer as a broker: {error}"
    finally:
        cluster.close()


def _http(url: str) -> str | None:
    try:
        answer = HttpAddress(url).call("GET", within_ms=LOOK_MS)
    except (NoHttpAnswer, HttpAnswerTooLong) as error:
        return f"does not answer at {url}: {error}"
    return None if answer.is_success else _reasons(answer.body) or f"answers {answer.status} at {url}"


def _fault_in(words: dict[str, Any], now_ms: int, no_room: str | None) -> str | None:
    beat_ms, at_ms = words.get("beat_every_ms"), words.get("at_ms")
    if isinstance(beat_ms, int) and isinstance(at_ms, int) and now_ms - at_ms > BEATS * beat_ms:
        if no_room is not None:
            return f"cannot write its status for {now_ms - at_ms} ms: {no_room}"
        return f"has said nothing for {now_ms - at_ms} ms, it should every {beat_ms} ms: it hangs, restart it"
    match words.get("state"):
        case "ready":
            return None
        case "stalled":
            return str(words.get("reason", "stands still"))
        case state:
            return f"says {state}: {words.get('reason', 'no reason given')}"


def _reasons(body: bytes) -> str | None:
    """Return the reasons on a health page; None if it gives none."""
    try:
        words = json.loads(body)
    except ValueError:
        return None
    reasons = words.get("reasons") if isinstance(words, dict) else None
    if isinstance(reasons, list) and reasons:
        return "; ".join(str(reason) for reason in reasons)
    trouble = words.get("trouble") if isinstance(words, dict) else None
    return str(trouble) if trouble else None


def _tcp(port: int) -> str | None:
    with socket.socket() as probe:
        probe.settimeout(LOOK_MS / 1000)
        try:
            probe.connect((LOOPBACK, port))
        except OSError as error:
            return f"does not accept connections on port {port}: {error}"
    return None
