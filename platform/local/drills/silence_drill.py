"""The drill `silence`: an application logs events and is held back before it seals them. Checks that its window is UNKNOWN within
the deadline, names it, and stays unpublished; and that its seal makes the window COMPLETE.
"""

import os
import signal
import subprocess
import sys
import threading
import time

from ...audit.model.tiers import PRODUCER
from ...audit.service.settings import AuditSettings
from ...audit.service.settings import load as load_settings
from ...runtime.layout import Layout
from .. import commands
from ..supervisor import process_table
from .drill import TOLD_MS, DrillError, DrillResult, Progress
from .expected import Windows
from .scratch import Scratch, on_scratch_topic

EVENTS = 50
LOGGED_S = 60
SEALED_S = 60
GRACE_MS = 10_000
"""How much later than the deadline the audit may tell it."""


def run(layout: Layout, *, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the silent producer was told in time, and its seal accepted. The topic is removed in any case.

    Raises DrillError, CommandFailed.
    """
    return on_scratch_topic(layout, "silence", lambda scratch, result: _run(layout, scratch, result, progress), progress)


def _run(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    window = scratch.windows[1]
    command = [sys.executable, "-m", "headrace.local.drills.silent_producer", scratch.topic, str(EVENTS), str(window + 1)]
    scratch.make()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=commands.environment(layout), text=True)
    try:
        with result.step(f"an application logs {EVENTS} events to {scratch.topic}", progress):
            instance = _await_logged(child)
        name = f"{PRODUCER}:{instance}"
        os.kill(child.pid, signal.SIGSTOP)
        result.facts |= {"instance": instance, "window_start_ms": window, "events": EVENTS}
        _claim_silence(layout, scratch, result, window, name, progress)
        with result.step("loading what is there", progress):
            scratch.load()
        shown = scratch.row_count()
        result.claim("nothing of it is published", shown == 0, f"{shown} rows are")
        with result.step("letting the application go on: it seals", progress):
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
    with result.step("loading the event that it held", progress):
        scratch.load()
    with result.step("waiting until the window is COMPLETE", progress):
        sealed, found = scratch.wait_until(lambda found: _verdict(found, window) == "COMPLETE", TOLD_MS)
    result.facts["verdict_after"] = _verdict(found, window)
    result.claim(f"with the seal the window is COMPLETE within {TOLD_MS // 1000} s", sealed, f"{found.get(window)}")
    scratch.load("publish")
    shown = scratch.row_count()
    result.claim("and its rows are published", shown == EVENTS, f"{shown} rows are")


def _claim_silence(layout: Layout, scratch: Scratch, result: DrillResult, window: int, name: str, progress: Progress) -> None:
    due_ms = _deadline_ms(layout) + GRACE_MS

    def is_told(found: Windows) -> bool:
        return _verdict(found, window) == "UNKNOWN" and name in found[window]["silent"]

    began = time.monotonic()
    with result.step("it is held back; waiting until the audit tells it", progress):
        told, found = scratch.wait_until(is_told, due_ms)
    result.facts["told_after_s"] = round(time.monotonic() - began, 1) if told else None
    result.facts["verdict_while_silent"] = _verdict(found, window)
    result.claim(f"the window is UNKNOWN and names {name} within {due_ms // 1000} s", told, f"{found.get(window)}")


def _deadline_ms(layout: Layout) -> int:
    """Return how long a producer may be silent, by the settings with which this platform's audit service runs."""
    command = next((spec.command for spec in process_table.load(layout) if spec.name == "audit"), ())
    where = command.index("--settings") + 1 if "--settings" in command else None
    settings = AuditSettings() if where is None else load_settings(layout.home.joinpath(command[where]))
    return settings.deadline_ms.get(PRODUCER, settings.default_deadline_ms)


def _verdict(found: Windows, window: int) -> str | None:
    verdict: str | None = found.get(window, {}).get("verdict")
    return verdict


def _await_logged(child: "subprocess.Popen[str]") -> str:
    """Return the instance's name once its events are acknowledged."""
    assert child.stdout is not None
    # A timer kills a child that hangs, so that the read below always returns.
    timer = threading.Timer(LOGGED_S, child.kill)
    timer.start()
    try:
        words = child.stdout.readline().split()
    finally:
        timer.cancel()
    if len(words) != 2 or words[0] != "logged":
        raise DrillError(f"the application to hold back did not get its events acknowledged within {LOGGED_S} s: see above")
    return words[1]
