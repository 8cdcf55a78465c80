"""The drill `silence`: an application logs events and does not seal them. Checks that its window is UNKNOWN, that the gate
stays shut for its hour, and that its seal opens the gate.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from ...audit.model.windows import WINDOW_MS, window_start_ms
from ...runtime.layout import Layout
from .. import audit_queries, commands, control
from .drill import DECIDED_MS, HOUR_MS, DrillError, DrillResult, Progress, Windows, hour_start_ms, published_hours

LOGGED_S = 60
SILENT_MS = 120_000
SEALED_S = 60


def run(layout: Layout, topic: str = "drill_silence", *, events: int = 50, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the window of an unsealed producer is UNKNOWN with the gate shut, and whether the seal opens the gate."""
    control.running(layout)
    result = DrillResult("silence", topic)
    now_ms = time.time_ns() // 1_000_000
    # An hour that is over, so that only the verdict can keep the gate shut.
    event_time_ms = hour_start_ms(now_ms) - 2 * HOUR_MS + 5 * WINDOW_MS + WINDOW_MS // 2
    window, hour = window_start_ms(event_time_ms), hour_start_ms(event_time_ms)
    command = [sys.executable, "-m", "headrace.local.drills.silent_producer", topic, str(events), str(event_time_ms)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=commands.environment(layout), text=True)
    try:
        instance = _await_logged(child)
        progress(f"{instance} has {events} events acknowledged; holding it back before it seals")
        os.kill(child.pid, signal.SIGSTOP)
        result.facts |= {"instance": instance, "window_start_ms": window, "events": events}

        def is_unknown(found: Windows) -> bool:
            return window in found and found[window]["verdict"] == "UNKNOWN" and f"producer:{instance}" in found[window]["silent"]

        named, found = audit_queries.wait_until(layout, topic, is_unknown, within_ms=SILENT_MS)
        result.facts["verdict_while_silent"] = found.get(window, {}).get("verdict")
        result.claim("the window is UNKNOWN and names the silent producer", named, f"{found.get(window)}")
        progress("loading; the gate must stay shut")
        loaded = json.loads(commands.output_of(layout, "load", topic, "--json", "--wait", "5"))
        result.facts["load"] = loaded
        shown = published_hours(layout, topic)
        result.claim("the gate is shut for that hour", hour not in shown, f"hours shown: {sorted(shown)}")
        progress("letting it go on; it seals")
        os.kill(child.pid, signal.SIGCONT)
        child.communicate("seal\n", timeout=SEALED_S)
        if child.returncode != 0:
            raise DrillError(f"the held-back application ended with {child.returncode}: its output is above")
    except subprocess.TimeoutExpired as error:
        raise DrillError(f"the held-back application did not seal within {SEALED_S} s after it went on") from error
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
            child.kill()
            child.wait()

    def is_decided(found: Windows) -> bool:
        return window in found and found[window]["verdict"] not in ("OPEN", "UNKNOWN")

    decided, found = audit_queries.wait_until(layout, topic, is_decided, within_ms=DECIDED_MS)
    after = found.get(window, {})
    result.facts["verdict_after"] = after.get("verdict")
    result.claim("with the seal the window is COMPLETE", decided and after.get("verdict") == "COMPLETE", f"{after}")
    commands.output_of(layout, "load", topic, "--step", "publish", "--wait", "30")
    shown = published_hours(layout, topic)
    result.claim("and its hour is published", hour in shown, f"hours shown: {sorted(shown)}")
    return result


def _await_logged(child: "subprocess.Popen[str]") -> str:
    """Return the instance's name once its events are acknowledged."""
    assert child.stdout is not None
    # A timer kills a child that hangs, so that the read below always returns.
    with _EndsLater(child, LOGGED_S):
        words = child.stdout.readline().split()
    if len(words) != 2 or words[0] != "logged":
        raise DrillError(f"the application to hold back did not get its events acknowledged within {LOGGED_S} s: see above")
    return words[1]


class _EndsLater:
    """Kills the child unless the block ends in time."""

    def __init__(self, child: "subprocess.Popen[str]", seconds: int) -> None:
        self._timer = threading.Timer(seconds, child.kill)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
