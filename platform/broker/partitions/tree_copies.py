"""Keeps a copy of ZooKeeper's tree in the data folder: `<data>/tree.json`, which `headrace zookeeper import` reads.

What an ensemble that loses all its disks has forgotten is so on every broker's disk, and nobody had to think of it before. The
tree is read on a thread of its own: a large one takes seconds, and commits of offsets must not wait for it. A copy is never
replaced by that of a tree with another cluster's id, or none: such a tree is the loss that the copy is for.
"""

from collections.abc import Callable
from pathlib import Path

from ...coordination.backup import Backup
from ...coordination.errors import CoordinationError
from ...runtime.logs import get_logger
from ...runtime.whole_file import replace_file
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker

log = get_logger(__name__)

COPY = "tree.json"
LOOK_MS = 10_000
"""How soon a change of topics is copied, and a copy that failed is tried again."""


class OtherTree(CoordinationError):
    """ZooKeeper knows another cluster than the folder's."""


class TreeCopies:
    """One a broker. What has no underscore may be called on any thread; the rest runs on the loop's."""

    def __init__(
        self, loop: Loop, worker: Worker, export: Callable[[], Backup], *, data: Path, cluster_id: str, interval_ms: int
    ) -> None:
        """`export`: reads the tree, on the worker's thread. `interval_ms`: from a copy to the next if topics stay as they are; 0:
        none is made.
        """
        self._loop, self._worker, self._export = loop, worker, export
        self._file, self._cluster_id, self._interval_ms = data / COPY, cluster_id, interval_ms
        self._due_ms = 0
        self._is_wanted_soon = False
        self._is_failing = False

    def start(self) -> None:
        """Make the first copy now."""
        if self._interval_ms:
            self._worker.start()
            self._loop.post(self._begin)

    def stop(self) -> None:
        """End the thread, behind the copy that is being made."""
        if self._interval_ms:
            self._worker.stop()

    def copied_at(self) -> float | None:
        """Return when the copy in the folder was made, in seconds of the epoch. None: there is none, or none is wanted."""
        try:
            return self._file.stat().st_mtime if self._interval_ms else None
        except FileNotFoundError:
            return None

    def note_change(self) -> None:
        """Know that topics have come or gone, or are set otherwise."""
        self._is_wanted_soon = True

    def _begin(self) -> None:
        self._is_wanted_soon = False
        if not self._worker.submit(self._copy, self._copied, self._failed):
            self._again_later()

    def _copy(self) -> None:
        found = self._export()
        if found.cluster.cluster_id != self._cluster_id:
            raise OtherTree(f"the folder is of the cluster {self._cluster_id}, ZooKeeper of {found.cluster.cluster_id}")
        replace_file(self._file, found.to_json().encode(), is_durable=True, mode=0o600)

    def _copied(self, _: None) -> None:
        self._is_failing = False
        self._again_later()

    def _failed(self, error: Exception) -> None:
        if not self._is_failing:
            log.warning("tree_not_copied", file=str(self._file), why=str(error))
        self._is_failing = self._is_wanted_soon = True
        self._again_later()

    def _again_later(self) -> None:
        self._due_ms = self._loop.now_ms + self._interval_ms
        self._look_later()

    def _look_later(self) -> None:
        self._loop.call_at(self._loop.now_ms + min(LOOK_MS, self._interval_ms), self._look)

    def _look(self) -> None:
        if self._is_wanted_soon or self._loop.now_ms >= self._due_ms:
            self._begin()
        else:
            self._look_later()
