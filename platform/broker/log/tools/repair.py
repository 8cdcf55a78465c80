"""Repair a log's folder while no broker uses it: first plan the steps, then do them. Everything that is cut is copied first.

Damage in the middle is left alone: no broker serves it, and the operator may find a whole copy of the file. Its place is recorded
in the segment's sidecar, so that the next start knows of it.
"""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .. import folder as folders
from .. import start_note
from ..log_config import LogConfig
from ..partition_log import PartitionLog
from ..segment import sidecar_file
from .check import Progress, check
from .problem import Problem, ProblemKind

_CUT = {ProblemKind.TORN_TAIL, ProblemKind.BEYOND_LIMIT}
_REMOVED = {ProblemKind.LEFTOVER, ProblemKind.SIDECAR_UNUSABLE, ProblemKind.SIDECAR_WRONG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a repair does."""

    what: str
    """`cut`, `remove`, `set aside`, `note`, `rebuild` or `leave`."""
    path: Path
    why: str
    position: int | None = None
    """Where a cut begins in the file."""
    offset: int | None = None

    def __str__(self) -> str:
        where = "" if self.position is None else f" from byte {self.position} (offset {self.offset}) on"
        return f"{self.what} {self.path}{where}: {self.why}"


def plan(folder: Path, *, progress: Progress = lambda size_bytes: None) -> list[Step]:
    """Return the steps of a repair of `folder`. Changes nothing, reads everything. Raises OSError."""
    steps = [_step(problem) for problem in check(folder, progress=progress)]
    missing = [
        base
        for base in folders.segment_bases(folder)
        if not sidecar_file.path_of(folder, base, sidecar_file.INDEX_SUFFIX).exists()
    ]
    if steps or missing:
        why = "sidecars of all segments, the places of damage in them" if steps else f"{len(missing)} segments have no sidecar"
        steps.append(Step(what="rebuild", path=folder, why=why))
    return steps


def carry_out(folder: Path, steps: list[Step], *, aside: Path, now_ms: int) -> None:
    """Do the steps that `plan` returned for `folder`. What is cut or set aside is copied to the folder `aside`, made for it.

    Each copy is on disk before its cut. After an interruption it can be started again. Raises OSError, LogError.
    """
    for step in steps:
        match step.what:
            case "cut":
                assert step.position is not None
                _keep(step.path, aside / f"{step.path.name}.from.{step.position}", step.position)
                _cut(step.path, step.position)
            case "set aside":
                _keep(step.path, aside / step.path.name, 0)
                step.path.unlink()
            case "remove":
                step.path.unlink(missing_ok=True)
            case "rebuild":
                _rebuild(folder, now_ms)
    folders.sync(folder)


def _step(problem: Problem) -> Step:
    kind, path = problem.kind, problem.path
    why = kind.value + (f": {problem.reason}" if problem.reason else "")
    if kind in _CUT:
        return Step(what="cut", path=path, why=why, position=problem.position, offset=problem.from_offset)
    if kind in _REMOVED:
        return Step(what="remove", path=path, why=why)
    if kind is ProblemKind.START_NOTE:
        return Step(what="set aside", path=path, why=f"{why}; records that DeleteRecords took may be seen again")
    what = "note" if kind is ProblemKind.BAD_RANGE else "leave"
    why = f"{problem.from_offset} to {problem.to_offset}: {why}" if problem.from_offset is not None else why
    return Step(what=what, path=path, why=f"{why}: {kind.what_to_do}")


def _keep(path: Path, copy: Path, position: int) -> None:
    folders.make(copy.parent)
    with path.open("rb") as source, copy.open("xb") as target:
        source.seek(position)
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    folders.sync(copy.parent)


def _cut(path: Path, position: int) -> None:
    status = path.stat()
    with path.open("r+b") as file:
        file.truncate(position)
        os.fsync(file.fileno())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _rebuild(folder: Path, now_ms: int) -> None:
    """Open the log as if it had no sidecars, and close it, which writes them."""
    if not folders.segment_bases(folder) and start_note.read(folder) is None:
        return
    for base in folders.segment_bases(folder):
        with contextlib.suppress(FileNotFoundError):
            sidecar_file.remove(folder, base)
    topic, _, index = folder.name.rpartition("-")
    partition = int(index) if index.isdigit() else 0
    PartitionLog.open(folder, topic=topic or folder.name, partition=partition, config=LogConfig(), now_ms=now_ms).close()
