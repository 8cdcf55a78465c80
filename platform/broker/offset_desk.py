"""Where consumers' committed offsets go in and out: the offset registry in ZooKeeper, asked on the worker's thread.

Commits that arrive while a write is under way wait and go together with the next one, the last value of each partition only.
A commit is answered when ZooKeeper has it. Bounded: a connection has at most one request pending, and `CAPACITY` refuses
beyond that."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..runtime.logs import get_logger
from .errors import Overloaded
from .worker import Worker

log = get_logger(__name__)

CAPACITY = 10_000
"""Commits that may wait."""

Position = tuple[str, int]
"""Topic and partition."""


class OffsetStore(Protocol):
    """What is used of `coordination.consumers.OffsetRegistry`."""

    def get_many(self, group: str, partitions: Sequence[Position]) -> Mapping[Position, int]: ...

    def get_all(self, group: str) -> Mapping[Position, int]: ...

    def put_many(self, group: str, offsets: Mapping[Position, int]) -> None: ...


class _Commit:
    __slots__ = ("done", "group", "offsets")

    def __init__(self, group: str, offsets: Mapping[Position, int], done: Callable[[Exception | None], None]) -> None:
        self.group, self.offsets, self.done = group, offsets, done


class OffsetDesk:
    """Commits and reads offsets for handlers; everything but the store's calls happens on the loop thread."""

    def __init__(self, store: OffsetStore, worker: Worker) -> None:
        self._store = store
        self._worker = worker
        self._waiting: list[_Commit] = []
        self._is_writing = False

    def commit(self, group: str, offsets: Mapping[Position, int], done: Callable[[Exception | None], None]) -> bool:
        """Have the offsets written, then `done(None)`, or `done(error)`. Return False when too many wait: nothing will
        happen.
        """
        if len(self._waiting) >= CAPACITY:
            return False
        self._waiting.append(_Commit(group, offsets, done))
        self._write_next()
        return True

    def fetch(
        self,
        group: str,
        partitions: Sequence[Position] | None,
        done: Callable[[Mapping[Position, int]], None],
        failed: Callable[[Exception], None],
    ) -> bool:
        """Have the group's offsets of these partitions (None: of all) read. Return False when the worker is overloaded."""

        def read() -> Mapping[Position, int]:
            return self._store.get_all(group) if partitions is None else self._store.get_many(group, partitions)

        return self._worker.submit(read, done, failed)

    def _write_next(self) -> None:
        if self._is_writing or not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        merged = coalesced([(commit.group, commit.offsets) for commit in batch])

        def write() -> dict[str, Exception]:
            errors: dict[str, Exception] = {}
            for group, offsets in merged.items():
                try:
                    self._store.put_many(group, offsets)
                except Exception as error:
                    errors[group] = error  # one group's fault is not another's
            return errors

        def finished(errors: Mapping[str, Exception]) -> None:
            self._is_writing = False
            for group, error in errors.items():
                log.warning("offsets_not_committed", group=group, why=str(error))
            for commit in batch:
                commit.done(errors.get(commit.group))
            self._write_next()

        def refused(error: Exception) -> None:
            finished(dict.fromkeys(merged, error))

        self._is_writing = True
        if not self._worker.submit(write, finished, refused):
            refused(Overloaded())


def coalesced(commits: Sequence[tuple[str, Mapping[Position, int]]]) -> dict[str, dict[Position, int]]:
    """Return the offsets to write, by group: of several for one partition the last that was committed. Pure."""
    merged: dict[str, dict[Position, int]] = {}
    for group, offsets in commits:
        merged.setdefault(group, {}).update(offsets)
    return merged
