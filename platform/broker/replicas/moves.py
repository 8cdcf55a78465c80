"""Reassignments beside the machine: requests change targets, topics' nodes follow, folders that are needed no more are deleted.

The node of a partition is the truth. The topic's node says which brokers open a log; the partition's leader keeps it equal to the
node of the partition, so that nothing is left half done when a broker dies between the two. Lives on the loop thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol
from uuid import UUID

from ...coordination.replica_states import Key, ReplicaStates, SwapOutcome, WantedSwap
from ...runtime.logs import get_logger
from ..errors import Overloaded
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..partitions.catalog import Catalog
from ..replication import reassignment
from ..replication.replica import Leading
from .driver import ReplicaDriver
from .states import node_of, state_of

log = get_logger(__name__)

LOOK_EVERY_MS = 500
MOST_TOPICS = 100
"""Topics' nodes that one look changes."""
TRIES = 5
"""A swap of the partition's leader may come between."""

Assign = Callable[[str, UUID, Mapping[int, Sequence[int]]], bool]
"""Changes a topic's node. Raises CoordinationError."""


class Moved(Enum):
    """What came of a request for one partition."""

    DONE = "done"
    NOT_MOVING = "there is no move to end"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request for one partition. `brokers` None: end the move. `single`: the broker of one that was never replicated."""

    topic: str
    brokers: tuple[int, ...] | None
    single: int | None = None


class Here(Protocol):
    """The replicas of this broker (`replicas.Replicas`)."""

    broker_id: int

    @property
    def start_number(self) -> int: ...

    def drivers(self) -> Sequence[ReplicaDriver]: ...

    def remove(self, key: Key) -> None: ...


class Moves:
    """See the module."""

    def __init__(
        self,
        loop: Loop,
        here: Here,
        worker: Worker,
        states: ReplicaStates,
        catalog: Callable[[], Catalog],
        assign: Assign,
        drop: Callable[[str, UUID, int], bool],
    ) -> None:
        """`drop` has the log of a replica closed and its folder deleted; False: not now."""
        self._loop, self._here, self._worker, self._states = loop, here, worker, states
        self._catalog, self._assign, self._drop = catalog, assign, drop
        self._is_assigning = False
        self._to_drop: dict[Key, str] = {}

    # -- requests ----------------------------------------------------------------------------------

    def request(self, wanted: Mapping[Key, Wanted], done: Callable[[Mapping[Key, Moved]], None]) -> None:
        """Change the targets of these partitions, and say what came of each."""
        unknown = dict.fromkeys(wanted, Moved.UNKNOWN)

        def failed(error: Exception) -> None:
            log.warning("reassignment_not_noted", why=str(error))
            done(unknown)

        if not self._worker.submit(lambda: self._change(wanted), done, failed):
            failed(Overloaded())

    def _change(self, wanted: Mapping[Key, Wanted]) -> dict[Key, Moved]:
        """On the worker's thread. Raises CoordinationError."""
        for (topic_id, index), one in wanted.items():
            if one.single is not None:
                self._states.create_missing(topic_id, {index: (one.single,)})
        results = dict.fromkeys(wanted, Moved.UNKNOWN)
        left = list(wanted)
        listed: dict[tuple[str, UUID], dict[int, tuple[int, ...]]] = {}
        for _ in range(TRIES):
            found = self._states.read_many(left)
            swaps: list[WantedSwap] = []
            for key in left:
                if key not in found:
                    continue  # deleted meanwhile
                state, brokers = state_of(found[key]), wanted[key].brokers
                new = reassignment.requested(state, brokers)
                if wanted[key].single is not None:
                    listed.setdefault((wanted[key].topic, key[0]), {})[key[1]] = reassignment.listed(new or state)
                if new is None:
                    results[key] = Moved.NOT_MOVING if brokers is None else Moved.DONE
                    continue
                swaps.append(
                    WantedSwap(
                        key=key,
                        version=state.version,
                        wanted=node_of(replace(new, version=state.version + 1)),
                        broker_id=self._here.broker_id,
                        start_number=self._here.start_number,
                    )
                )
            left = []
            for swap, outcome in zip(swaps, self._states.swap_each(swaps) if swaps else [], strict=True):
                if outcome is SwapOutcome.LANDED:
                    results[swap.key] = Moved.DONE
                elif outcome is SwapOutcome.PASSED:
                    left.append(swap.key)
            if not left:
                break
        for (topic, topic_id), replicas in listed.items():
            self._assign(topic, topic_id, replicas)
        return results

    # -- what follows from nodes -------------------------------------------------------------------

    def start(self) -> None:
        self._look()

    def _look(self) -> None:
        self._loop.call_at(self._loop.now_ms + LOOK_EVERY_MS, self._look)
        topics = self._catalog().topics
        stale: dict[tuple[str, UUID], dict[int, tuple[int, ...]]] = {}
        going: list[ReplicaDriver] = []
        for driver in self._here.drivers():
            node, (topic_id, index) = driver.node, driver.key
            entry = topics.get(driver.topic)
            if node is None or entry is None or entry.topic_id != topic_id or index not in entry.partitions:
                continue
            if isinstance(driver.machine.role, Leading):
                if entry.partitions[index] != (wanted := reassignment.listed(node)):
                    stale.setdefault((driver.topic, topic_id), {})[index] = wanted
            elif reassignment.may_remove_folder(driver.machine) and self._here.broker_id not in entry.partitions[index]:
                going.append(driver)
        for driver in going:
            self._here.remove(driver.key)
            self._to_drop[driver.key] = driver.topic
        for (topic_id, index), topic in list(self._to_drop.items()):
            if self._drop(topic, topic_id, index):
                del self._to_drop[topic_id, index]
        if stale and not self._is_assigning:
            self._name(dict(list(stale.items())[:MOST_TOPICS]))

    def _name(self, stale: Mapping[tuple[str, UUID], Mapping[int, tuple[int, ...]]]) -> None:
        """Let topics' nodes name the brokers that the partitions' nodes name."""

        def job() -> None:
            for (topic, topic_id), replicas in stale.items():
                self._assign(topic, topic_id, replicas)

        def done(_: None) -> None:
            self._is_assigning = False

        def failed(error: Exception) -> None:
            self._is_assigning = False
            log.warning("topic_not_reassigned", why=str(error), again_after_ms=LOOK_EVERY_MS)

        self._is_assigning = self._worker.submit(job, done, failed)
