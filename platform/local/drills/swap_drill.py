"""The drill `swap`: a Parquet file of the warehouse is swapped for one with a row less and a row doubled, after it was counted.

Sums agree: only who asks which rows are there finds it. The next run of the warehouse's steps tells it, as on every schedule.
"""

from ...runtime.layout import Layout
from . import parquet_surgery
from .drill import REPORT_MS, DrillError, DrillResult, Progress
from .expected import Expected
from .log_drills import await_report
from .scratch import EVENTS_A_WINDOW, Scratch, on_scratch_topic


def run(layout: Layout, *, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the audit reported the swapped file's rows exactly, and in time.

    Raises DrillError, CommandFailed. The topic is removed in any case.
    """
    return on_scratch_topic(layout, "swap", lambda scratch, result: _run(layout, scratch, result, progress), progress)


def _run(layout: Layout, scratch: Scratch, result: DrillResult, progress: Progress) -> None:
    with result.step(f"logging events to {scratch.topic}", progress):
        scratch.make()
        scratch.log_events()
    with result.step("waiting until they are mirrored", progress):
        scratch.await_mirrored()
    with result.step("loading and counting", progress):
        scratch.load("load", "count")
        whole, found = scratch.wait_until(
            lambda found: bool(found) and all(window["verdict"] == "COMPLETE" for window in found.values()), REPORT_MS
        )
    if not whole:
        seen = {start: (window["verdict"], window["reason"]) for start, window in found.items()}
        raise DrillError(f"{scratch.topic} is not COMPLETE before the fault: {seen}")
    with result.step("swapping a Parquet file for one with a row less and a row doubled", progress):
        folder = layout.warehouse / "tables" / scratch.topic / "data"
        offsets = sorted(offset for path in folder.rglob("*.parquet") for offset in parquet_surgery.offsets_in(path))
        lost, doubled = offsets[EVENTS_A_WINDOW + 3], offsets[EVENTS_A_WINDOW + 6]
        parquet_surgery.swap(parquet_surgery.file_with(folder, lost), without=lost, doubled=doubled)
    with result.step("counting again, as on schedule", progress):
        scratch.load("count")
    expected = Expected(window_start_ms=scratch.windows[1], tier="warehouse", missing=(lost,), doubled=(doubled,))
    await_report(scratch, result, expected, progress)
