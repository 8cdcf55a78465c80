"""Commits, fetches and removes consumers' offsets: calls of the offset registry in ZooKeeper, made on the worker thread.

Commits that arrive during a write are merged into the next write, which has the last value of each partition. A commit is
answered when ZooKeeper has it. Bounded by the number of waiting commits and by their memory."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ...coordination.committed_offset import CommittedOffset
from ...coordination.group_claims import GroupCommit
from ...errors import HeadraceError
from ...runtime.logs import get_logger
from ..errors import Overloaded
from ..event_loop.chunked_job import submit_in_chunks
from ..event_loop.worker import Worker

log = get_logger(__name__)

CAPACITY = 10_000
"""Commits that may wait."""
CAPACITY_BYTES = 64 << 20
"""Memory that they may take, roughly."""
OFFSET_BYTES = 300
"""Memory of one offset besides its metadata."""

GROUPS_A_CHUNK = 50
"""Of one fetch that names many groups: commits wait behind a chunk."""

Position = tuple[str, int]
"""Topic and partition."""
Offsets = Mapping[Position, CommittedOffset]


class OffsetStore(Protocol):
    """The part of `coordination.consumers.OffsetRegistry` that is used here."""

    def read(self, group: str, partitions: Sequence[Position] | None) -> Offsets: ...

    def forget(self, group: str, partitions: Collection[Position]) -> Collection[Position]: ...

    def forget_topics(self, topics: Collection[str]) -> None: ...


class FencedStore(Protocol):
    """The part of `coordination.group_claims.GroupClaims` that is used here."""

    def commit(self, commits: Sequence[GroupCommit]) -> Sequence[Exception | None]: ...


class _Commit:
    __slots__ = ("claim", "done", "group", "offsets", "size_bytes")

    def __init__(self, group: str, offsets: Offsets, done: Callable[[Exception | None], None], claim: str | None) -> None:
        self.group, self.offsets, self.done, self.claim = group, offsets, done, claim
        self.size_bytes = sum(OFFSET_BYTES + len(one.metadata) for one in offsets.values())


class OffsetCommits:
    """Serves the handlers of the offset APIs. Only the store's calls leave the loop thread."""

    def __init__(self, store: OffsetStore, claims: FencedStore, worker: Worker) -> None:
        self._store = store
        self._claims = claims
        self._worker = worker
        self._waiting: list[_Commit] = []
        self._waiting_bytes = 0
        self._is_writing = False

    def commit(self, group: str, offsets: Offsets, done: Callable[[Exception | None], None], claim: str | None = None) -> bool:
        """Write the offsets, then call `done(None)` or `done(error)`. Return False when too many wait: nothing will happen.

        `claim`: that of the group's members; the error is NotClaimed when another broker has claimed the group since.
        """
        commit = _Commit(group, offsets, done, claim)
        if len(self._waiting) >= CAPACITY or self._waiting_bytes + commit.size_bytes > CAPACITY_BYTES:
            return False
        self._waiting.append(commit)
        self._waiting_bytes += commit.size_bytes
        self._write_next()
        return True

    def fetch(
        self,
        wanted: Mapping[str, Sequence[Position] | None],
        done: Callable[[Mapping[str, Offsets | Exception]], None],
        failed: Callable[[Exception], None],
    ) -> bool:
        """Read groups' offsets of these partitions (None: all), each group for itself, then call `done` or `failed`. Return False
        when the worker is overloaded.
        """

        def read(groups: Sequence[str]) -> dict[str, Offsets | Exception]:
            found: dict[str, Offsets | Exception] = {}
            for group in groups:
                try:
                    found[group] = self._store.read(group, wanted[group])
                except Exception as error:
                    if _is_away(error):
                        raise
                    found[group] = error
            return found

        return submit_in_chunks(self._worker, list(wanted), read, done, failed, chunk_size=GROUPS_A_CHUNK)

    def forget(
        self,
        group: str,
        partitions: Collection[Position],
        done: Callable[[Collection[Position]], None],
        failed: Callable[[Exception], None],
    ) -> bool:
        """Remove offsets, then call `done` with those that existed. Return False when the worker is overloaded."""
        return self._worker.submit(lambda: self._store.forget(group, partitions), done, failed)

    def forget_topics(self, topics: Collection[str]) -> None:
        """Remove all groups' offsets of deleted topics. A failure is logged: an offset that stays matters only to the readers of
        a later topic of that name, who would begin there.
        """

        # Waiting commits would be written after the removal.
        for commit in self._waiting:
            commit.offsets = {position: one for position, one in commit.offsets.items() if position[0] not in topics}

        def failed(error: Exception) -> None:
            log.warning("offsets_of_deleted_topics_stay", topics=sorted(topics)[:10], count=len(topics), why=str(error))

        if not self._worker.submit(lambda: self._store.forget_topics(topics), lambda done: None, failed):
            failed(Overloaded())

    def _write_next(self) -> None:
        if self._is_writing or not self._waiting:
            return
        batch, self._waiting, self._waiting_bytes = self._waiting, [], 0
        merged, places = coalesced(batch)

        def finished(errors: Sequence[Exception | None]) -> None:
            self._is_writing = False
            for commit, error in zip(merged, errors, strict=True):
                if error is not None:
                    log.warning("offsets_not_committed", group=commit.group, why=str(error))
            for one, place in zip(batch, places, strict=True):
                one.done(errors[place])
            self._write_next()

        def failed(error: Exception) -> None:
            finished([error] * len(merged))

        self._is_writing = True
        if not self._worker.submit(lambda: self._claims.commit(merged), finished, failed):
            failed(Overloaded())


def _is_away(error: Exception) -> bool:
    """Return whether ZooKeeper is unreachable: one more call for each group would keep all waiting that many times as long."""
    return isinstance(error, HeadraceError) and error.retriable


def coalesced(commits: Sequence[_Commit]) -> tuple[list[GroupCommit], list[int]]:
    """Return the commits to write, and for each given one the index of that which it became a part of.

    Commits of a group under one claim that follow each other become one, which has each partition's last value. Pure.
    """
    merged: list[GroupCommit] = []
    places: list[int] = []
    last: dict[str, int] = {}
    for one in commits:
        place = last.get(one.group)
        if place is None or merged[place].claim != one.claim:
            place = last[one.group] = len(merged)
            merged.append(GroupCommit(group=one.group, claim=one.claim, offsets=dict(one.offsets)))
        else:
            merged[place] = replace(merged[place], offsets={**merged[place].offsets, **one.offsets})
        places.append(place)
    return merged, places
