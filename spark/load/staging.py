"""A load's own folder of files, and the clean-up after dead loads. No reader sees the files here until a commit names them.

A run holds a lease for its folder while its process lives. A folder whose lease is free belongs to a run that is over, or that
stood still for so long that it counts as over: the sweep first makes sure, in the table, that it can never commit, and
then deletes its files. So a sweep that errs costs a load its work, and never rows.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...runtime.logs import get_logger
from ..errors import WarehouseError
from ..warehouse.leases import Lease, Leases
from ..warehouse.store import StorePath, remove_folder
from ..warehouse.warehouse import Warehouse

log = get_logger(__name__)

MOST_AT_ONCE = 32
"""Dead runs that one sweep takes on; the next load takes the others."""


class StagingFolder:
    """One run's folder, leased. Its name is unique, so file names never repeat across runs."""

    def __init__(self, warehouse: Warehouse, topic: str, *, prefix: str | None = None) -> None:
        """`prefix`: how its name begins; None: with the time."""
        begin = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-" if prefix is None else prefix
        self.name = begin + os.urandom(4).hex()
        self.path: StorePath = warehouse.data_folder(topic) / self.name
        self.scratch = scratch_folder(self.name)
        self._topic = topic
        self._leases: Leases = warehouse.leases
        self._lease: Lease | None = None

    def open(self) -> "StagingFolder":
        """Take the lease, before any file is written. Raises CatalogUnreachable."""
        self._lease = self._leases.take(_prefix(self._topic) + self.name)
        return self

    def check(self) -> None:
        """Raises LeaseLost if another process has taken this run for dead, CatalogUnreachable."""
        if self._lease is not None:
            self._lease.check()

    def close(self, *, discard: bool, is_decided: bool = True) -> None:
        """Give the folder up. `discard` deletes it, because nothing of it was committed.

        `is_decided` False: it is unknown whether it was committed. Then the next sweep finds out.
        """
        remove_folder(self.scratch)
        if self._lease is None:
            return
        if discard:
            try:
                remove_folder(self.path)
            except BaseException:
                self._lease.leave()
                raise
        if discard or is_decided:
            self._lease.release()
        else:
            self._lease.leave()


def sweep(warehouse: Warehouse, topic: str) -> int:
    """Delete the files of dead runs that no snapshot names. Return how many dead runs were uncommitted.

    Raises WarehouseError, CatalogUnreachable, StoreUnreachable.
    """
    prefix = _prefix(topic)
    free = warehouse.leases.free(prefix)
    # Without a table nothing tells the dead run's commit that it is too late: they wait for the next load.
    table = warehouse.table(topic) if free else None
    if table is None:
        return 0
    adopted = [lease for one in free[:MOST_AT_ONCE] if (lease := warehouse.leases.adopt(one)) is not None]
    swept = 0
    try:
        committed = table.retire([lease.name.removeprefix(prefix) for lease in adopted])
        while adopted:
            name = adopted[-1].name.removeprefix(prefix)
            remove_folder(scratch_folder(name))
            if name not in committed:
                remove_folder(warehouse.data_folder(topic) / name)
                log.info("orphans_deleted", run=name, topic=topic)
                swept += 1
            adopted.pop().release()
    finally:
        for lease in adopted:
            lease.leave()
    return swept


def scratch_folder(run: str) -> Path:
    """Return the folder of this machine into which Spark's driver spills during a run."""
    return scratch_root() / run


def scratch_root() -> Path:
    """Return the folder for scratch of this user's runs, with access for this user only. Raises WarehouseError where it is
    another's.

    The machine's temporary folder is open to everybody: who guesses a name there makes it first, as a link, say.
    """
    root = Path(tempfile.gettempdir()) / f"headrace-load-{os.getuid()}"
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise WarehouseError(f"{root} is not this user's own folder: remove it, or set TMPDIR to a folder of its own")
    return root


@contextmanager
def machine_scratch(kind: str) -> Iterator[Path]:
    """Give a run that is of no topic a folder of this machine, and delete it at the end; and those of dead runs of the kind."""
    begin = scratch_folder(f"{kind}-")
    for other in begin.parent.glob(f"{begin.name}*"):
        if (lock := _locked(other)) is not None:
            remove_folder(other)
            os.close(lock)
    while True:
        mine = Path(tempfile.mkdtemp(prefix=begin.name, dir=begin.parent))
        if (lock := _locked(mine)) is not None:
            break  # else another run took it for a dead one's, before it was locked
    try:
        yield mine
    finally:
        remove_folder(mine)
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """Return the descriptor of the locked folder; None: another process has it, or it is gone. The lock dies with its process."""
    try:
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError):
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return found
    os.close(found)
    return None


def _prefix(topic: str) -> str:
    return f"run/{topic}/"
