"""Writes of many threads, committed together: one look at the topic's end, one append, one reading back for all that wait.

Registrations of different subjects do not depend on each other but for their ids, which `IdsOfGroup` gives out; so they share a
group. Every other change is decided alone. What one of a group wrote is neither visible nor answered before it was
read back.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..errors import RegistryError
from . import refusals
from .records import RegistryRecord
from .state import Content, RegistryState
from .write_gate import WriteGate

T = TypeVar("T")

ATTEMPTS = 5
"""How often a group is decided again because another registry was faster."""
MOST_IN_A_GROUP = 256
"""Their records fit into one append by far."""


class WritesGroups(Protocol):
    """The store as it is used here."""

    def catch_up(self) -> None: ...

    def write(self, records: Sequence[RegistryRecord], epoch: int | None, /) -> str | None: ...


class IdsOfGroup:
    """The ids of one group's new schemas: one for each content, above all that were ever given."""

    def __init__(self) -> None:
        self._given: dict[Content, int] = {}
        self._highest = 0

    def id_of(self, state: RegistryState, content: Content) -> int:
        """Return the id that this schema has, gets, or was just given."""
        known = state.id_of(content) or self._given.get(content)
        if known is not None:
            return known
        self._highest = max(self._highest, state.highest_id) + 1
        self._given[content] = self._highest
        return self._highest


Decide = Callable[[IdsOfGroup], tuple[Sequence[RegistryRecord], Any]]


@dataclass(slots=True, eq=False)
class _Waiting:
    decide: Decide
    subject: str | None
    """Shares a group with other subjects; None: decided alone."""
    is_over: bool = False
    answer: Any = None
    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        self.error, self.is_over = error, True


class GroupCommit:
    """One at a time commits for all that wait. Threads may share it."""

    def __init__(self, store: WritesGroups, gate: WriteGate, *, wait_ms: int) -> None:
        self._store = store
        self._gate = gate
        self._wait_ms = wait_ms
        self._committing = threading.Lock()
        self._queue_lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()

    def change(self, decide: Callable[[IdsOfGroup], tuple[Sequence[RegistryRecord], T]], subject: str | None = None) -> T:
        """Write what `decide` returns and return its answer; it may be asked more than once.

        Raises what it raises, what the gate raises, 50001, 50002.
        """
        self._gate.check()
        mine = _Waiting(decide, subject)
        with self._queue_lock:
            self._queue.append(mine)
        while not mine.is_over:
            if not self._committing.acquire(timeout=self._wait_ms / 1000):
                self._withdraw(mine)
                continue
            try:
                if not mine.is_over:
                    self._commit(self._next_group())
            finally:
                self._committing.release()
        if mine.error is not None:
            raise mine.error
        answer: T = mine.answer
        return answer

    def _withdraw(self, mine: _Waiting) -> None:
        with self._queue_lock:
            if mine in self._queue:
                self._queue.remove(mine)
                mine.fail(
                    RegistryError(
                        f"other writes kept this one waiting for {self._wait_ms} ms: nothing was changed, try again",
                        error_code=50002,
                    )
                )

    def _next_group(self) -> list[_Waiting]:
        """Return those that wait longest and may be decided together."""
        group: list[_Waiting] = []
        subjects: set[str] = set()
        with self._queue_lock:
            while self._queue and len(group) < MOST_IN_A_GROUP:
                first = self._queue[0]
                if group and (first.subject is None or first.subject in subjects):
                    break
                group.append(self._queue.popleft())
                if first.subject is None:
                    break
                subjects.add(first.subject)
        return group

    def _commit(self, group: list[_Waiting]) -> None:
        try:
            self._decided_and_written(group)
        except BaseException as error:
            for one in group:
                if not one.is_over:
                    one.fail(error)
            if not isinstance(error, Exception):
                raise

    def _decided_and_written(self, group: list[_Waiting]) -> None:
        refused = None
        for _ in range(ATTEMPTS):
            epoch = self._gate.check()
            self._store.catch_up()
            records = self._decide(group)
            refused = self._store.write(records, epoch) if records else None
            if refused is None:
                for one in group:
                    one.is_over = True
                return
        raise refusals.store_failed(f"another registry writes to the same topic and was quicker {ATTEMPTS} times ({refused})")

    @staticmethod
    def _decide(group: list[_Waiting]) -> list[RegistryRecord]:
        ids = IdsOfGroup()
        records: list[RegistryRecord] = []
        for one in group:
            if one.is_over:
                continue
            try:
                wanted, one.answer = one.decide(ids)
                records += wanted
            except Exception as error:
                one.fail(error)
        return records
