"""The two sides of a pair: this checkout's package as it is, and a copy whose reading tasks take no digest.

A load without digests could not be proven, so the product has no switch for it: one line of the copy is another one.
"""

import shutil
from pathlib import Path

import headrace

WITH, WITHOUT = "with", "without"
_LINE = "on_report=reports.append, wants_digest=True)"


def make(folder: Path) -> dict[str, Path]:
    """Return name of the side → folder for PYTHONPATH. Both are copies, so that they differ in that line alone."""
    found = {}
    for side in (WITH, WITHOUT):
        found[side] = folder / side
        package = found[side] / "headrace"
        shutil.copytree(Path(headrace.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        if side == WITHOUT:
            source = package / "spark" / "load" / "split_task.py"
            text = source.read_text()
            if text.count(_LINE) != 1:
                raise RuntimeError(f"{source} has no line {_LINE!r} (any more): nothing to compare")
            source.write_text(text.replace(_LINE, "on_report=reports.append, wants_digest=False)"))
    return found
