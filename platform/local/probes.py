"""Whether a process answers: a status file that says `ready`, an HTTP 2xx, an open port. Each look is bounded in time."""

import http.client
import socket
import urllib.error
import urllib.request

from ..runtime.layout import LOOPBACK
from ..runtime.status import read_status
from .process_table import Probe

LOOK_MS = 2_000
"""The longest that one look may take."""


def look(probe: Probe, pid: int) -> str | None:
    """Return None when the process `pid` answers as it should, else what is wrong, in words."""
    if probe.status_file is not None:
        words = read_status(probe.status_file)
        if words is None or words.get("pid") != pid:
            return "has not written its status yet"
        return None if words.get("state") == "ready" else f"says {words.get('state')}: {words.get('reason', 'no reason given')}"
    if probe.http is not None:
        return _http(probe.http)
    return _tcp(probe.tcp_port or 0)


def _http(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=LOOK_MS / 1000) as answer:
            return None if 200 <= answer.status < 300 else f"answers {answer.status} at {url}"
    except urllib.error.HTTPError as error:
        return f"answers {error.code} at {url}"
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer at {url}: {error}"


def _tcp(port: int) -> str | None:
    with socket.socket() as probe:
        probe.settimeout(LOOK_MS / 1000)
        try:
            probe.connect((LOOPBACK, port))
        except OSError as error:
            return f"does not accept connections on port {port}: {error}"
    return None
