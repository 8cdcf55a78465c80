"""The drills `silence` and `memory`: an application logs events, and is held back, or killed, with one of them in memory.

Both check that its window is UNKNOWN within the deadline, and names it. Held back, its window stays unpublished, and its seal
makes it COMPLETE. Killed, an operator's word makes it ACCEPTED, never COMPLETE.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...audit.model.tiers import PRODUCER
from ...runtime.layout import Layout
from .. import commands
from .drill import REPORT_MS, DrillError, DrillResult, Progress
from .expected import Windows
from .scratch import Scratch, deadline_ms, on_scratch_topic

EVENTS = 50
LOGGED_S = 60
SEALED_S = 60
GRACE_MS = 10_000
"""How much later than the deadline the audit may tell it."""


def run(layout: Layout, drill: str, *, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the silent producer was reported in time, and what ends its silence accepted. `drill`: silence or memory.

    Raises DrillError, CommandFailed. The topic is removed in any case.
    """
    body = _held_back if drill == "silence" else _killed
    return on_scratch_topic(layout, drill, lambda scratch, result: body(layout, scratch, result, progress), progress)


def _held_back(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    window = scratch.windows[1]
    with _application(layout, scratch, result, progress) as (child, name):
        os.kill(child.pid, signal.SIGSTOP)
        _claim_silence(layout, scratch, result, window, name, progress)
        with result.step("loading what is there", progress):
            scratch.load()
        shown = scratch.row_count()
        result.claim("nothing of it is published", shown == 0, f"{shown} rows are")
        with result.step("letting the application continue: it seals", progress):
            os.kill(child.pid, signal.SIGCONT)
            child.communicate("seal\n", timeout=SEALED_S)
        if child.returncode != 0:
            raise DrillError(f"the held-back application ended with {child.returncode}: its output is above")
    with result.step("loading the event that it held", progress):
        scratch.load()
    with result.step("waiting until the window is COMPLETE", progress):
        sealed, found = scratch.wait_until(lambda found: _verdict(found, window) == "COMPLETE", REPORT_MS)
    result.facts["verdict_after"] = _verdict(found, window)
    result.claim(f"with the seal the window is COMPLETE within {REPORT_MS // 1000} s", sealed, f"{found.get(window)}")
    scratch.load("publish")
    shown = scratch.row_count()
    result.claim("and its rows are published", shown == EVENTS, f"{shown} rows are")


def _killed(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    window = scratch.windows[1]
    with _application(layout, scratch, result, progress) as (child, name):
        child.kill()
        child.wait()
    _claim_silence(layout, scratch, result, window, name, progress)
    stored = scratch.count_live()
    result.claim("the event that it had in memory is lost", stored == EVENTS - 1, f"{stored} of {EVENTS} are stored")
    with result.step("saying that it will not come back", progress):
        instance = name.removeprefix(f"{PRODUCER}:")
        words = ("--reason", "killed by a drill", "--by", "headrace audit drill", "--silent-for", "1")
        commands.output_of(layout, "audit", "retire-producer", instance, *words)
    with result.step("waiting until the window is ACCEPTED", progress):
        accepted, found = scratch.wait_until(lambda found: _verdict(found, window) == "ACCEPTED", REPORT_MS)
    result.facts["verdict_after"] = _verdict(found, window)
    result.claim(f"with the retirement the window is ACCEPTED within {REPORT_MS // 1000} s", accepted, f"{found.get(window)}")


@contextmanager
def _application(
    layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield an application that has logged to the middle window and has the last event in memory, and the audit's name for it."""
    window = scratch.windows[1]
    command = [sys.executable, "-m", "headrace.local.drills.silent_producer", scratch.topic, str(EVENTS), str(window + 1)]
    scratch.make()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=commands.environment(layout), text=True)
    try:
        with result.step(f"an application logs {EVENTS} events to {scratch.topic}", progress):
            instance = _await_logged(child)
        result.facts |= {"instance": instance, "window_start_ms": window, "events": EVENTS}
        yield child, f"{PRODUCER}:{instance}"
    except subprocess.TimeoutExpired as error:
        raise DrillError(f"the held-back application did not seal within {SEALED_S} s after it continued") from error
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
            child.kill()
            child.wait()


def _claim_silence(layout: Layout, scratch: Scratch, result: DrillResult, window: int, name: str, progress: Progress) -> None:
    due_ms = deadline_ms(layout, PRODUCER) + GRACE_MS

    def is_reported(found: Windows) -> bool:
        return _verdict(found, window) == "UNKNOWN" and name in found[window]["silent"]

    began = time.monotonic()
    with result.step("waiting until the audit reports it", progress):
        reported, found = scratch.wait_until(is_reported, due_ms)
    result.facts["told_after_s"] = round(time.monotonic() - began, 1) if reported else None
    result.facts["verdict_while_silent"] = _verdict(found, window)
    result.claim(f"the window is UNKNOWN and names {name} within {due_ms // 1000} s", reported, f"{found.get(window)}")


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
