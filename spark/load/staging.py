"""A load's own folder of files, and the clean-up after dead loads. No reader sees the files here until a commit names them.

A run locks its folder for as long as its process lives. The kernel releases the lock however the process ends. So a folder with a
free lock belongs to a run that is over, and its files that no snapshot names are orphans.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Set
from contextlib import suppress
from pathlib import Path
from typing import IO

from ...runtime.logs import get_logger

log = get_logger(__name__)

LOCK = ".lock"
SCRATCH = "scratch"
"""Spark's spill folder, inside the run's own folder: a sweep of the run deletes it."""


class StagingFolder:
    """One run's folder, locked. Its name is unique, so file names never repeat across runs."""

    def __init__(self, data_folder: Path, *, prefix: str | None = None) -> None:
        """`prefix`: how its name begins; None: with the time."""
        begin = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-" if prefix is None else prefix
        self.name = begin + os.urandom(4).hex()
        self.path = data_folder / self.name
        self._lock: IO[str] | None = None

    def open(self) -> "StagingFolder":
        # Locked before it gets its name: a sweep never finds it unlocked.
        scratch = self.path.with_name(f".{self.name}")
        scratch.mkdir(parents=True)
        self._lock = (scratch / LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        scratch.rename(self.path)
        return self

    def close(self, *, discard: bool) -> None:
        """Release the folder; `discard` deletes it, because nothing of it was committed."""
        if discard:
            shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.path / SCRATCH, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def sweep(data_folder: Path, referenced: Callable[[], Set[Path]]) -> int:
    """Delete the files of dead runs that no snapshot names. Return how many dead runs were uncommitted.

    `referenced` is called only after a folder's lock was taken: a run that commits and ends in between then counts as committed.
    """
    swept = 0
    for folder in sorted(data_folder.glob("[!.]*")):
        with suppress(FileNotFoundError, NotADirectoryError), (folder / LOCK).open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if any(path.is_relative_to(folder) for path in referenced()):
                (folder / LOCK).unlink()  # committed and over: later sweeps skip it
                continue
            shutil.rmtree(folder, ignore_errors=True)
            log.info("orphans_deleted", run=folder.name, folder=str(data_folder))
            swept += 1
    return swept
