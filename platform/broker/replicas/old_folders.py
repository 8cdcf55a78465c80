"""Folders of replicas that were moved to other brokers while this broker was down: deleted when they are surely needed no more.

A running broker deletes such a folder when it has obeyed the partition's node (`moves`). A broker that was down finds folders
that its topics' nodes do not name, so nothing here opens them and no machine obeys for them. Rule 10 holds for them, too: the
partition's node must name this broker neither as member nor as replica nor as target. And a folder that nobody needs may still be
the last copy after a loss: it stays until every replica of the partition is in sync under a live leader.
Lives on the loop thread.
"""

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from ...coordination.replica_states import Key, ReplicaState, ReplicaStates
from ...runtime.logs import get_logger
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..partitions.catalog import Catalog
from ..partitions.replica_note import OldReplica
from ..replication.model import is_older
from ..replication.replica import Noted
from ..replication.state import State
from .machine_runner import noted_in
from .states import state_of

log = get_logger(__name__)

LOOK_EVERY_MS = 5_000
MOST_AT_ONCE = 100
"""Nodes that one look reads."""

Found = Mapping[Key, OldReplica]


def may_go(state: State, noted: Noted, broker_id: int, live: Collection[int]) -> bool:
    """Return whether the folder that noted this may be deleted. Pure. `live`: the brokers that are registered."""
    if is_older(state, noted) or state.must_keep(broker_id) or state.targets:
        return False
    members = {member.broker_id for member in state.members}
    return state.leader in live and bool(state.replicas) and members.issuperset(state.replicas)


class OldFolders:
    """See the module. Looks again until none is left."""

    def __init__(
        self,
        loop: Loop,
        broker_id: int,
        worker: Worker,
        states: ReplicaStates,
        catalog: Callable[[], Catalog],
        find: Callable[[Callable[[Found], None]], bool],
        drop: Callable[[str, UUID, int], bool],
    ) -> None:
        """`find` calls back with the folders of replicas that topics' nodes do not name; `drop` has one deleted, if that is still
        so. False: not now.
        """
        self._loop, self._broker_id, self._worker, self._states = loop, broker_id, worker, states
        self._catalog, self._find, self._drop = catalog, find, drop
        self._left: dict[Key, OldReplica] = {}

    def start(self) -> None:
        if not self._find(self._found):
            self._again(self.start)

    def _again(self, call: Callable[[], None]) -> None:
        self._loop.call_at(self._loop.now_ms + LOOK_EVERY_MS, call)

    def _found(self, found: Found) -> None:
        self._left = dict(found)
        if found:
            log.info("old_replicas_found", folders=[f"{one.topic}-{index}" for (_, index), one in found.items()])
            self._look()

    def _look(self) -> None:
        """Look at some; those that stay are looked at again behind the others."""
        keys = list(self._left)[:MOST_AT_ONCE]

        def read(states: Mapping[Key, ReplicaState]) -> None:
            live = {self._broker_id, *self._catalog().brokers}
            for key in keys:
                one = self._left.pop(key)
                state = states.get(key)
                is_due = state is not None and may_go(state_of(state), noted_in(one.noted), self._broker_id, live)
                if not (is_due and self._drop(one.topic, *key)):
                    self._left[key] = one
            if self._left:
                self._again(self._look)

        def failed(error: Exception) -> None:
            log.warning("old_replicas_not_looked_at", why=str(error), again_after_ms=LOOK_EVERY_MS)
            self._again(self._look)

        if not self._worker.submit(lambda: self._states.read_many(keys), read, failed):
            self._again(self._look)
