"""The drills `topic`, `quarantine` and `table`: what somebody deletes in a running platform, without a process that stops.

topic       the live topic is deleted and created again: UNKNOWN, with what to do; once that is done, the new log alone is counted
quarantine  the quarantine topic is deleted: the records in it cannot be read any more
table       a row is deleted from the published branch: readers miss it, and the audit's row `main` says so
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from ...audit.model.tiers import MAIN, MIRROR, QUARANTINE
from ...runtime.layout import Layout
from .. import commands
from . import parquet_surgery
from .drill import REPORT_MS, DrillError, DrillResult, Progress
from .expected import Windows
from .scratch import EVENTS_A_WINDOW, NAMESPACE, WINDOW_COUNT, Scratch, deadline_ms, on_scratch_topic

REFUSED = 3
"""Events that go to quarantine."""
MADE_AGAIN_MS = 30_000


def run(layout: Layout, drill: str, *, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the audit reported the deletion exactly, and in time. The topic is always removed.

    Raises DrillError, CommandFailed.
    """
    body = {"topic": _topic, "quarantine": _quarantine, "table": _table}[drill]
    return on_scratch_topic(layout, drill, lambda scratch, result: body(layout, scratch, result, progress), progress)


def _topic(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    _fill(scratch, result, progress)
    with result.step("deleting the live topic, and creating it again with other events", progress):
        scratch.delete_live()
        _make_again(scratch)
        scratch.log_events()
    advice = f"headrace topic delete {scratch.topic} --cluster offline"

    def is_named(window: Mapping[str, Any]) -> bool:
        return window["verdict"] == "UNKNOWN" and window["silent"] == [MIRROR] and advice in window["reason"]

    due_ms = deadline_ms(layout, MIRROR) + REPORT_MS
    _claim(
        scratch,
        result,
        progress,
        f"every window is UNKNOWN, names the mirror, and says `{advice}`",
        _every(scratch, is_named),
        due_ms,
    )
    with result.step("deleting the copy of the old log", progress):
        scratch.delete_offline()

    def is_whole(window: Mapping[str, Any]) -> bool:
        tiers = {window["tiers"].get(tier) for tier in ("live", "mirror", "offline")}
        return tiers == {EVENTS_A_WINDOW} and window["verdict"] in ("COMPLETE", "OPEN")

    _claim(scratch, result, progress, "then the new log alone is counted and copied", _every(scratch, is_whole), REPORT_MS)


def _quarantine(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    _fill(scratch, result, progress, refused=REFUSED)
    start = scratch.windows[1]
    there, found = scratch.wait_until(lambda found: found.get(start, {}).get("quarantined") == REFUSED, REPORT_MS)
    if not there:
        raise DrillError(f"the {REFUSED} refused events are not in quarantine: {found.get(start)}")
    with result.step(f"deleting {scratch.topic}.quarantine", progress):
        scratch.delete_quarantine()

    def is_reported(found: Windows) -> bool:
        window = found.get(start, {})
        return window.get("verdict") == "UNKNOWN" and QUARANTINE in window["silent"]

    _claim(
        scratch,
        result,
        progress,
        f"the window is UNKNOWN: {REFUSED} quarantined records can no longer be read",
        is_reported,
        REPORT_MS,
    )


def _table(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    _fill(scratch, result, progress)
    count = WINDOW_COUNT * EVENTS_A_WINDOW
    with result.step("loading, counting, publishing", progress):
        scratch.load()
    shown = scratch.row_count()
    if shown != count:
        raise DrillError(f"{shown} of {count} rows are published before the fault")
    with result.step("deleting a row from what readers see, as another engine does", progress):
        catalog = scratch.catalog()
        offset = delete_a_row(catalog.load_table((NAMESPACE, scratch.topic)))
        catalog.close()
    result.facts["offset"] = offset
    with result.step("publishing again, as on schedule", progress):
        scratch.load("publish")

    def is_reported(found: Windows) -> bool:
        rows = [window.get("sinks", {}).get(MAIN, {}) for window in found.values()]
        return [row.get("verdict") for row in rows].count("INCOMPLETE") > 0 and sum(row.get("missing", 0) for row in rows) == 1

    _claim(scratch, result, progress, f"the row `{MAIN}` beside the verdict is INCOMPLETE, missing 1", is_reported, REPORT_MS)
    hour = time.strftime("%Y-%m-%dT%H", time.gmtime(scratch.windows[0] // 1_000))
    with result.step("putting it back", progress):
        commands.output_of(layout, "load", scratch.topic, "--step", "publish", "--restore", hour, "--wait", "1")
    shown = scratch.row_count()
    result.claim(f"`headrace load --restore {hour}` puts it back", shown == count, f"{shown} of {count} rows are there")


def delete_a_row(table: Table) -> int:
    """Swap a file of the published branch for one with a row less, and return the row's offset. `Table.delete` would do it, too,
    but needs pyiceberg-core, which the platform does not install.
    """
    old = next(iter(table.scan().plan_files())).file
    path = Path(old.file_path.removeprefix("file://"))
    offset = min(parquet_surgery.offsets_in(path))
    new = parquet_surgery.copy(path, without=offset)
    with table.transaction() as change:
        change.add_files([f"file://{new}"], branch=MAIN, check_duplicate_files=False)
        with change.update_snapshot(branch=MAIN).overwrite() as snapshot:
            snapshot.delete_data_file(old)
    return offset


def _fill(scratch: Scratch, result: DrillResult, progress: Progress, *, refused: int = 0) -> None:
    with result.step(f"logging events to {scratch.topic}", progress):
        scratch.make()
        scratch.log_events(refused=refused)
    with result.step("waiting until they are mirrored", progress):
        scratch.await_mirrored()


def _make_again(scratch: Scratch) -> None:
    deadline = time.monotonic() + MADE_AGAIN_MS / 1000
    while not scratch.make():  # the old one is being deleted
        if time.monotonic() > deadline:
            raise DrillError(f"{scratch.topic} could not be deleted within {MADE_AGAIN_MS // 1000} s")
        time.sleep(0.2)


def _every(scratch: Scratch, holds: Callable[[Mapping[str, Any]], bool]) -> Callable[[Windows], bool]:
    return lambda found: all(start in found and holds(found[start]) for start in scratch.windows)


def _claim(
    scratch: Scratch, result: DrillResult, progress: Progress, what: str, holds: Callable[[Windows], bool], within_ms: int
) -> None:
    """Claim that the audit says it within the time, from now on. The first claim's verdict is the drill's."""
    began = time.monotonic()
    with result.step("waiting until the audit reports it", progress):
        reported, found = scratch.wait_until(holds, within_ms)
    seen = {start: (window["verdict"], window["tiers"], window["reason"]) for start, window in found.items()}
    result.facts.setdefault("told_after_s", round(time.monotonic() - began, 1) if reported else None)
    result.facts.setdefault("verdict", found.get(scratch.windows[1], {}).get("verdict"))
    result.claim(f"{what}, within {within_ms // 1000} s", reported, f"{seen}")
