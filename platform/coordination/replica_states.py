"""The nodes of replicated partitions: who leads, which brokers must have a batch, and where each leader epoch began.

    /replicas/{topic id}/{partition}    persistent  JSON, see `ReplicaState`
    /brokers/lives/{broker}             persistent  raised by each start of a broker

A node is changed only by a transaction that checks two things: the start number of the process that asks, and the version of the
node. So the swap of a dead process cannot land after its successor has begun. A topic with one replica has no node. Knows nothing
of what the words mean: `broker/replication` decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from . import paths
from .errors import ConnectionUnsure, CoordinationError, UnreadableNode, VersionConflict
from .node import Node
from .operations import Check, Operation, Write
from .session import Session
from .topic_id import id_of_word, id_word
from .values import json_bytes, read_json

SWAPS_TOGETHER = 50
"""So many swaps are tried as one transaction."""
BYTES_TOGETHER = 200_000

Key = tuple[UUID, int]
"""A topic's id and the number of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The content of one node, and the version under which it was read."""

    leader: int = -1
    """-1: none yet."""
    start_number: int = 0
    leader_epoch: int = 0
    members: tuple[tuple[int, str], ...] = ()
    """The in-sync set: broker and the life of its folder."""
    epochs: tuple[tuple[int, int], ...] = ()
    """Leader epoch and the first offset that may hold a batch of it, ascending."""
    replicas: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    """The whole list of replicas that a reassignment wants, empty when none is under way."""
    lost: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of offsets that recoveries gave up."""
    is_restored: bool = False
    """Whether `backup.restore` made this node, in place of one that the ensemble has lost."""
    base: int = 0
    """What is added to ZooKeeper's version, which begins at 0 again after a loss."""
    version: int = 0
    """ZooKeeper's, and `base`."""

    @property
    def in_sync(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.members)


class SwapOutcome(Enum):
    """What is known of a swap."""

    LANDED = "landed"
    PASSED = "passed"
    """The node has another version, or is gone."""
    FENCED = "fenced"
    """A later process of this broker has begun."""
    UNKNOWN = "unknown"
    """It has landed, will land, or never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSwap:
    """Writes `wanted` if the node still has `version` and the broker's start number is still this one."""

    key: Key
    version: int
    """ZooKeeper's own."""
    wanted: ReplicaState
    broker_id: int
    start_number: int


class ReplicaStates:
    """Reads, makes, changes and removes the nodes. Any thread but kazoo's own may call it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # -- the nodes ---------------------------------------------------------------------------------

    def create_missing(self, topic_id: UUID, replicas: Mapping[int, Sequence[int]]) -> None:
        """Make the nodes of a topic's partitions that have none: `replicas` has the brokers of each. Raises CoordinationError."""
        wanted = {
            paths.replica_state(id_word(topic_id), partition): encode(ReplicaState(replicas=tuple(dict.fromkeys(ids))))
            for partition, ids in replicas.items()
        }
        for outcome in self._session.tree.create_many(wanted).values():
            if isinstance(outcome, CoordinationError):
                raise outcome

    def read(self, topic_id: UUID, partition: int) -> ReplicaState | None:
        """Return the node's content, None when there is none. Raises CoordinationError."""
        return self.read_many([(topic_id, partition)]).get((topic_id, partition))

    def read_many(self, keys: Iterable[Key]) -> dict[Key, ReplicaState]:
        """Return those that exist, in one round of calls, not older than what had been written before this call.

        Raises CoordinationError.
        """
        by_path = {paths.replica_state(id_word(topic_id), partition): (topic_id, partition) for topic_id, partition in keys}
        if not by_path:
            return {}
        self._session.tree.sync(paths.REPLICAS)
        found = self._session.tree.read_many(by_path)
        return {by_path[path]: decode(path, node) for path, node in found.items()}

    def of_topic(self, topic_id: UUID) -> dict[int, ReplicaState]:
        """Return the nodes of a topic by partition. Raises CoordinationError."""
        numbers = self._session.tree.children(paths.replica_states(id_word(topic_id)))
        found = self.read_many((topic_id, int(number)) for number in numbers if number.isdigit())
        return {partition: state for (_, partition), state in sorted(found.items(), key=lambda one: one[0][1])}

    def topic_ids(self) -> list[UUID]:
        """Return the topics that have nodes. Raises CoordinationError."""
        found = (id_of_word(word) for word in self._session.tree.children(paths.REPLICAS))
        return [one for one in found if one is not None]

    def delete(self, topic_id: UUID) -> None:
        """Remove the nodes of a deleted topic. Raises CoordinationError."""
        folder = paths.replica_states(id_word(topic_id))
        numbers = self._session.tree.children(folder)
        self._session.tree.delete_many(f"{folder}/{number}" for number in numbers)
        self._session.tree.delete_many([folder])

    def swap_each(self, swaps: Sequence[WantedSwap]) -> list[SwapOutcome]:
        """Carry out each swap that can be. None depends on another one, and none is repeated that may have landed.

        Swaps of one process go together as one transaction: a call for each costs ten times as much. Where one of them cannot
        land, the transaction changes nothing, and each of it gets a transaction of its own. The calls are pipelined.
        """
        groups = _groups(swaps)
        outcomes: dict[int, SwapOutcome] = {}
        alone: list[int] = []
        for group, answer in zip(groups, self._session.tree.transact_each(map(_operations, groups)), strict=True):
            if len(group) > 1 and isinstance(answer, int) and answer > 0:
                alone += group
            else:
                outcomes |= dict.fromkeys(group, _outcome(answer))
        if alone:
            singles = [{number: swaps[number]} for number in alone]
            answers = self._session.tree.transact_each(map(_operations, singles))
            outcomes |= {number: _outcome(answer) for number, answer in zip(alone, answers, strict=True)}
        return [outcomes[number] for number in range(len(swaps))]

    def watch(self, topic_id: UUID, partition: int, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` on the session's thread, now and after each change of the node. Return what ends the watch."""
        return self._session.watch_data(paths.replica_state(id_word(topic_id), partition), changed)

    # -- start numbers -----------------------------------------------------------------------------

    def start_number(self, broker_id: int) -> int:
        """Return the start number of the broker's last process, 0 for none. Raises CoordinationError."""
        node = self._session.tree.read(paths.broker_life(broker_id))
        return 0 if node is None else node.version + 1

    def raise_start_number(self, broker_id: int, known: int) -> int:
        """Raise the broker's start number from `known` and return the new one. From now on no swap of an earlier process lands.

        The start number is the version of the node, so that a transaction can check it. Raises VersionConflict when it is not
        `known` any more, ConnectionUnsure when that is not known: read it again.
        """
        path, tree = paths.broker_life(broker_id), self._session.tree
        data = json_bytes({"version": 1, "started_ms": self._session.surroundings.wall_ms()})
        if known == 0:
            if not tree.create(path, data):
                raise VersionConflict("raise", path)
            return 1
        return tree.write(path, data, version=known - 1) + 1


def _groups(swaps: Sequence[WantedSwap]) -> list[dict[int, WantedSwap]]:
    """Return the swaps by their places, those of one process together, at most so many and so many bytes."""
    groups: list[dict[int, WantedSwap]] = []
    size_bytes, fence = 0, (-1, -1)
    for number, swap in enumerate(swaps):
        own_bytes, own = len(encode(swap.wanted)), (swap.broker_id, swap.start_number)
        is_full = not groups or len(groups[-1]) >= SWAPS_TOGETHER or size_bytes + own_bytes > BYTES_TOGETHER
        if is_full or own != fence:
            groups.append({})
            size_bytes, fence = 0, own
        groups[-1][number] = swap
        size_bytes += own_bytes
    return groups


def _operations(group: Mapping[int, WantedSwap]) -> list[Operation]:
    first, *_ = group.values()
    return [
        Check(path=paths.broker_life(first.broker_id), version=first.start_number - 1),
        *(
            Write(path=paths.replica_state(id_word(one.key[0]), one.key[1]), data=encode(one.wanted), version=one.version)
            for one in group.values()
        ),
    ]


def _outcome(answer: int | CoordinationError | None) -> SwapOutcome:
    match answer:
        case None:
            return SwapOutcome.LANDED
        case 0:
            return SwapOutcome.FENCED
        case int():
            return SwapOutcome.PASSED
        case ConnectionUnsure():
            return SwapOutcome.UNKNOWN
    return SwapOutcome.UNKNOWN  # What failed in a way that is not known here may have landed as well.


def encode(state: ReplicaState) -> bytes:
    """Return the node's JSON. A release that knows version 1 alone would lose what is added."""
    added = {"is_restored": state.is_restored, "base": state.base} if state.is_restored or state.base else {}
    return json_bytes(
        {
            "version": 2 if added else 1,
            "leader": state.leader,
            "start_number": state.start_number,
            "leader_epoch": state.leader_epoch,
            "members": [list(each) for each in state.members],
            "epochs": [list(each) for each in state.epochs],
            "replicas": list(state.replicas),
            "targets": list(state.targets),
            "lost": [list(each) for each in state.lost],
            **added,
        }
    )


def decode(path: str, node: Node) -> ReplicaState:
    """Return what a node holds. Raises UnreadableNode."""
    value = read_json(path, node.data)
    try:
        if value["version"] not in (1, 2):
            raise ValueError(f"version {value['version']!r}, 1 and 2 are known")
        base = int(value.get("base", 0))
        return ReplicaState(
            leader=int(value["leader"]),
            start_number=int(value["start_number"]),
            leader_epoch=int(value["leader_epoch"]),
            members=tuple((int(broker_id), str(life)) for broker_id, life in value["members"]),
            epochs=tuple((int(epoch), int(offset)) for epoch, offset in value["epochs"]),
            replicas=tuple(int(each) for each in value["replicas"]),
            targets=tuple(int(each) for each in value["targets"]),
            lost=tuple((int(begin), int(end)) for begin, end in value["lost"]),
            is_restored=bool(value.get("is_restored", False)),
            base=base,
            version=base + node.version,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise UnreadableNode(path, node.data, f"the state of a replicated partition is expected: {error!r}") from None
