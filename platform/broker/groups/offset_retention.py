"""Schedules the removal of expired committed offsets, on the loop thread. `coordination.offset_expiry` removes them on the worker
thread, in chunks, so that commits and fetches of offsets run in between.

Each broker handles the groups that it coordinates: only it knows whether they have members. The first pass begins an interval
after the start, when members whose broker was away have joined again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...coordination.group_note import Readers
from ...coordination.offset_expiry import Swept
from ...runtime.logs import get_logger
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from .group_service import GroupService
from .readers import GroupReaders

log = get_logger(__name__)

GROUPS_A_JOB = 50
MEMBERS_A_JOB = 2_000
"""Members whose subscriptions are collected in one turn of the loop: about 1 ms."""
GROUPS_NAMED = 5
"""How many groups one line of the log names."""


class ExpiryStore(Protocol):
    """The part of `coordination.offset_expiry.OffsetExpiry` that is used here."""

    def groups(self) -> Sequence[str]: ...

    def expire(self, groups: Mapping[str, Readers], *, now_ms: int, retention_ms: int, after: str = "") -> Swept: ...


class OffsetRetention:
    """Runs one pass after the other, each an interval after the end of the one before."""

    def __init__(
        self,
        loop: Loop,
        worker: Worker,
        groups: GroupService,
        store: ExpiryStore,
        *,
        retention_ms: int,
        interval_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._loop, self._worker, self._groups, self._store = loop, worker, groups, store
        self._retention_ms, self._interval_ms, self._now_ms = retention_ms, interval_ms, now_ms
        self._rest: list[str] = []
        self._after = ""
        self._deserted: frozenset[str] = frozenset()
        self._offset_count = 0
        self._named: list[str] = []
        self.expired_count = 0
        """Offsets removed since the start."""

    def start(self) -> None:
        """Schedule the first pass. Call it before the loop runs."""
        self._again_later()

    def _again_later(self) -> None:
        self._loop.call_at(self._loop.now_ms + self._interval_ms, self._begin)

    def _begin(self) -> None:
        self._offset_count, self._named, self._after = 0, [], ""
        if not self._worker.submit(self._store.groups, self._listed, self._failed):
            self._again_later()  # too much waits for ZooKeeper already, and nothing here is urgent

    def _listed(self, groups: Sequence[str]) -> None:
        self._rest = list(reversed(groups))
        self._deserted = self._groups.take_deserted()
        self._next()

    def _next(self) -> None:
        some = self._some_of_ours()
        if not some:
            if self._rest:
                self._loop.post(self._next)  # only other brokers' groups so far: let requests run first
            else:
                self._end()
            return
        now_ms, after = self._now_ms(), self._after

        def expire() -> Swept:
            readers = {name: one.as_known() for name, one in some.items()}
            return self._store.expire(readers, now_ms=now_ms, retention_ms=self._retention_ms, after=after)

        if not self._worker.submit(expire, self._expired, self._failed):
            self._end()

    def _some_of_ours(self) -> dict[str, GroupReaders]:
        """Take the next groups from the rest; return those that this broker coordinates, with their readers."""
        some: dict[str, GroupReaders] = {}
        looked_at = members = 0
        while self._rest and looked_at < GROUPS_A_JOB and members < MEMBERS_A_JOB:
            name = self._rest.pop()
            looked_at += 1
            if self._groups.is_ours(name):
                some[name] = self._groups.readers(name, had_members=name in self._deserted)
                members += len(some[name].subscriptions)
        return some

    def _expired(self, swept: Swept) -> None:
        self._rest += reversed(swept.rest)
        self._after = swept.after
        self._offset_count += swept.offsets
        self.expired_count += swept.offsets
        self._named += [name for name in swept.groups if name not in self._named][: GROUPS_NAMED - len(self._named)]
        for name, why in list(swept.faults.items())[:GROUPS_NAMED]:
            log.warning("offsets_not_expired", group=name, why=str(why))
        self._next()

    def _failed(self, error: Exception) -> None:
        log.warning("offsets_not_expired", why=str(error))
        self._end()

    def _end(self) -> None:
        self._rest, self._deserted = [], frozenset()
        if self._offset_count:
            log.info("offsets_expired", count=self._offset_count, groups=self._named)
        self._again_later()
