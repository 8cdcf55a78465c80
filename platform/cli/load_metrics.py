"""What a step of `headrace load --all` leaves for Prometheus: a file for the textfile collector of node_exporter.

A load is not a server: it ends. Each step replaces its own file, `headrace_load_STEP.prom`, when it has ended, well or not; the
time of the last good end stays in it.
"""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runtime.monitoring.text_format import Metric, text
from ..runtime.whole_file import replace_file

PREFIX = "headrace_load_"
_SUCCESS = PREFIX + "last_success_timestamp_seconds"


def file_of(folder: Path, step: str) -> Path:
    return folder / f"{PREFIX}{step}.prom"


def write(folder: Path, step: str, words: Mapping[str, Any] | None, *, faults: int, took_s: float) -> None:
    """Write the step's file. `words`: what the step says of itself as JSON; None: it failed as a whole. Raises OSError."""
    now_s = time.time()
    is_good = words is not None and not faults
    words = words or {}
    shut = sum(len(topic["shut"]) for topic in words.get("topics", {}).values())
    aside = sum(words.get("quarantined", {}).values())
    values = (
        ("last_end_timestamp_seconds", "When the step last ended.", now_s),
        ("last_success_timestamp_seconds", "When it last ended without a fault.", now_s if is_good else _before(folder, step)),
        ("duration_seconds", "How long it took.", took_s),
        ("failed", "1 if it failed, for one topic or as a whole.", float(not is_good)),
        ("faulty_topics", "Topics for which it failed.", faults),
        ("rows", "Rows that it wrote (load) or reported (count).", sum(words.get("row_counts", {}).values())),
        ("quarantined_records", "Records that it put in quarantine.", aside),
        ("shut_hours", "Hours that it did not publish (publish).", shut),
    )
    page = text(Metric(PREFIX + name, "gauge", doc, [({"step": step}, value)]) for name, doc, value in values)
    replace_file(file_of(folder, step), page.encode())


def _before(folder: Path, step: str) -> float:
    """Return the time of the last good end that is in the file; 0: none."""
    try:
        found = re.search(rf"^{_SUCCESS}{{[^}}]*}} ([0-9.]+)$", file_of(folder, step).read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 0 if found is None else float(found[1])
