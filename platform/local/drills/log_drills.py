"""The drills `loss`, `double` and `alter`: a fault in the offline log's files, between a stop and a start of that broker.

The log stays valid, as after a restored backup or a bug: one record is not in it, is in it twice, or has another content with
a right CRC. Checks that the audit tells which record, at which tier, and how soon.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from ...runtime.layout import Layout
from .. import control
from . import log_surgery
from .batch_damage import StoredBatch, stored_batches
from .drill import REPORT_MS, DrillError, DrillResult, Progress
from .expected import Expected, unlike
from .scratch import EVENTS_A_WINDOW, Scratch, on_scratch_topic, path_of

OFFLINE = "broker-offline"

Fault = Callable[[Sequence[StoredBatch], int, int], Expected]
"""Plants the fault, given all batches, an event's number and the start of its window; returns what the audit has to tell."""


def _lose(stored: Sequence[StoredBatch], number: int, window_start_ms: int) -> Expected:
    log_surgery.cut_out(stored[number])
    return Expected(window_start_ms=window_start_ms, tier="offline", missing=(stored[number].base_offset,))


def _double(stored: Sequence[StoredBatch], number: int, window_start_ms: int) -> Expected:
    offset = log_surgery.append_again(stored[number], stored)
    return Expected(window_start_ms=window_start_ms, tier="offline", doubled=(offset,))


def _alter(stored: Sequence[StoredBatch], number: int, window_start_ms: int) -> Expected:
    path = path_of(number).encode()
    log_surgery.alter(stored[number], path, path[:-1] + b"x")
    return Expected(window_start_ms=window_start_ms, tier="offline", altered=(stored[number].base_offset,))


FAULTS: Mapping[str, Fault] = {"loss": _lose, "double": _double, "alter": _alter}


def run(layout: Layout, drill: str, *, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the audit reported the planted fault exactly, and in time.

    Raises DrillError, CommandFailed, and PlatformError if a process does not start. The topic is removed in any case.
    """
    return on_scratch_topic(
        layout, drill, lambda scratch, result: _run(layout, scratch, result, FAULTS[drill], progress), progress
    )


def _run(layout: Layout, scratch: Scratch, result: DrillResult, fault: Fault, progress: Progress) -> None:
    with result.step(f"logging events to {scratch.topic}", progress):
        scratch.make()
        count = scratch.log_events()
    with result.step("waiting until they are mirrored", progress):
        scratch.await_mirrored()
    with result.step(f"{OFFLINE}: stopping it, planting the fault, starting it", progress):
        control.stop(layout, OFFLINE)
        try:
            stored = stored_batches(layout.home / OFFLINE, scratch.topic)
            if [one.record_count for one in stored] != [1] * count:
                raise DrillError(f"{scratch.topic} is not stored as {count} batches of one record: the drill cannot name one")
            number = EVENTS_A_WINDOW + EVENTS_A_WINDOW // 2
            expected = fault(stored, number, scratch.windows[1])
        finally:
            control.start(layout, OFFLINE)
    with result.step("loading, so that every tier has reported", progress):
        scratch.load("load", "count")
    await_report(scratch, result, expected, progress)


def await_report(scratch: Scratch, result: DrillResult, expected: Expected, progress: Progress) -> None:
    """Claim that the audit tells just what is expected, within the time it may take from now on."""
    result.facts |= {"window_start_ms": expected.window_start_ms, "expected": expected.in_words()}
    began = time.monotonic()
    with result.step("waiting until the audit reports it", progress):
        reported, found = scratch.wait_until(lambda found: not unlike(expected, found), REPORT_MS)
    result.facts["told_after_s"] = round(time.monotonic() - began, 1) if reported else None
    result.facts["verdict"] = found.get(expected.window_start_ms, {}).get("verdict")
    result.claim(
        f"the audit reports within {REPORT_MS // 1000} s: {expected.in_words()}", reported, "; ".join(unlike(expected, found))
    )
