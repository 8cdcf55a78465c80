"""ZooKeeper in memory: one order of transactions, and servers that carry them out at once or later.

A write is decided by the leader's tree. A client reads what its own server has carried out, so it may read what is old; its own
writes, and a sync, bring its server up to date. Watches fire when the client's server carries the change out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from .scheduler import Process, Simulation

SERVERS = 3
STARTED_MS = 1_800_000_000_000
NODES = "/replicas/"
"""Above the nodes of replicated partitions."""


class Stat(NamedTuple):
    """The part of kazoo's that is used."""

    version: int
    ephemeralOwner: int
    mtime: int
    ctime: int
    czxid: int
    cversion: int
    numChildren: int


@dataclass(slots=True)
class Znode:
    data: bytes
    owner: int
    zxid: int
    at_ms: int
    version: int = 0
    cversion: int = 0
    changed_ms: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> Stat:
        return Stat(self.version, self.owner, self.changed_ms, self.at_ms, self.zxid, self.cversion, len(self.children))


class Act(NamedTuple):
    """One change, or a check that changes nothing: what, path, data, version, owner."""

    what: str
    path: str
    data: bytes = b""
    version: int = -1
    owner: int = 0


class Transaction(NamedTuple):
    zxid: int
    at_ms: int
    acts: tuple[Act, ...]


class Copy:
    """The tree as one server has it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self.zxid = 0

    def refusal(self, act: Act) -> KazooException | None:
        node = self.nodes.get(act.path)
        if act.what == "create":
            if node is not None:
                return NodeExistsError()
            above = self.nodes.get(parent_of(act.path))
            return NoNodeError() if above is None or above.owner else None
        if node is None:
            return NoNodeError()
        if act.version not in (-1, node.version):
            return BadVersionError()
        return NotEmptyError() if act.what == "delete" and node.children else None

    def carry_out(self, act: Act, zxid: int, at_ms: int) -> None:
        path = act.path
        if act.what == "create":
            self.nodes[path] = Znode(act.data, act.owner, zxid, at_ms, changed_ms=at_ms)
            above = self.nodes[parent_of(path)]
            above.children[path.rpartition("/")[2]] = None
            above.cversion += 1
        elif act.what == "delete":
            del self.nodes[path]
            above = self.nodes[parent_of(path)]
            del above.children[path.rpartition("/")[2]]
            above.cversion += 1
        elif act.what == "write":
            node = self.nodes[path]
            node.data, node.version, node.changed_ms = act.data, node.version + 1, at_ms


class Server:
    """One server, the clients that are connected to it, and their watches."""

    def __init__(self, ensemble: "Ensemble", number: int) -> None:
        self.number = number
        self.copy = Copy()
        self.lag_ms = 0.0
        self._ensemble = ensemble
        self.watches: dict[tuple[str, str], dict[Callable[[str], None], None]] = {}

    def catch_up(self, zxid: int) -> None:
        """Carry out what is missing, in its order."""
        for transaction in self._ensemble.log[self.copy.zxid : zxid]:
            self.copy.zxid = transaction.zxid
            for act in transaction.acts:
                self.copy.carry_out(act, transaction.zxid, transaction.at_ms)
            for act in transaction.acts:
                self._fire(act)

    def watch(self, kind: str, path: str, fired: Callable[[str], None]) -> None:
        self.watches.setdefault((kind, path), {})[fired] = None

    def forget(self, fired: Callable[[str], None]) -> None:
        for of_path in self.watches.values():
            of_path.pop(fired, None)

    def _fire(self, act: Act) -> None:
        if act.what == "check":
            return
        due = dict(self.watches.pop(("data", act.path), {}))
        if act.what != "write":
            due |= self.watches.pop(("children", parent_of(act.path)), {})
        if act.what == "delete":
            due |= self.watches.pop(("children", act.path), {})
        for fired in due:
            fired(act.path)


@dataclass(slots=True)
class SessionRecord:
    """What the ensemble knows of a client's session."""

    number: int
    timeout_ms: int
    heard_ms: int
    connection: int = 0
    """Requests of earlier connections are refused: the session has moved."""
    is_over: bool = False


Armed = Callable[[Process, list[Act]], float | None]
"""Looks at a swap of partitions' nodes that a process is about to send. None: it waits for another one. Otherwise it has acted,
and the swap arrives so many milliseconds later.
"""


class Ensemble:
    """See the module."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.log: list[Transaction] = []
        self.leader = Copy()
        self.servers = [Server(self, number) for number in range(SERVERS)]
        self.sessions: dict[int, SessionRecord] = {}
        self.is_away = False
        """Without a quorum: no client is answered, and no session ends."""
        self._next_session = 0x1000
        self._armed: list[Armed] = []

    def now_ms(self) -> int:
        return STARTED_MS + self.sim.now_ms

    # -- sessions ----------------------------------------------------------------------------------

    def open_session(self, timeout_ms: int) -> SessionRecord:
        self._next_session += 1
        record = SessionRecord(self._next_session, timeout_ms, self.sim.now_ms)
        self.sessions[record.number] = record
        self._look_later(record)
        return record

    def _look_later(self, record: SessionRecord) -> None:
        self.sim.call_in(max(10, record.heard_ms + record.timeout_ms - self.sim.now_ms), lambda: self._look(record))

    def _look(self, record: SessionRecord) -> None:
        if record.is_over:
            return
        if self.is_away:
            record.heard_ms = self.sim.now_ms  # a new leader gives every session its whole time
        if self.sim.now_ms - record.heard_ms >= record.timeout_ms:
            self.end_session(record)
        else:
            self._look_later(record)

    def end_session(self, record: SessionRecord) -> None:
        """Remove what the session owns. Its client learns it when it asks next."""
        if record.is_over:
            return
        record.is_over = True
        mine = [path for path, node in self.leader.nodes.items() if node.owner == record.number]
        self.sim.note("session over", record.number, *mine)
        if mine:
            self.commit([Act("delete", path) for path in mine])

    # -- writes ------------------------------------------------------------------------------------

    def arm(self, armed: Armed) -> None:
        """Let something befall a swap to come."""
        self._armed.append(armed)

    def disarm(self) -> None:
        self._armed.clear()

    def swap_asked(self, process: Process, acts: list[Act]) -> float:
        """Return how many milliseconds late the request is to arrive."""
        for armed in self._armed:
            late_ms = armed(process, acts)
            if late_ms is not None:
                self._armed.remove(armed)
                return late_ms
        return 0.0

    def transact(self, acts: Iterable[Act]) -> tuple[list[Any] | None, list[Exception]]:
        """Carry out all or none. Return each act's result, or the errors of all where one is refused."""
        wanted = list(acts)
        trial = Trial(self.leader)
        for index, act in enumerate(wanted):
            refusal = trial.refusal(act)
            if refusal is not None:
                before: list[Exception] = [RolledBackError() for _ in range(index)]
                return None, [*before, refusal, *(RuntimeInconsistency() for _ in wanted[index + 1 :])]
            trial.note(act)
        self.commit(wanted)
        results: list[Any] = []
        for act in wanted:
            node = self.leader.nodes.get(act.path)
            stat = None if node is None else node.stat()
            results.append((act.path, stat) if act.what == "create" else stat if act.what == "write" else True)
        return results, []

    def commit(self, acts: list[Act]) -> None:
        zxid = len(self.log) + 1
        transaction = Transaction(zxid, self.now_ms(), tuple(acts))
        self.log.append(transaction)
        for act in acts:
            self.leader.carry_out(act, zxid, transaction.at_ms)
        self.leader.zxid = zxid
        for server in self.servers:
            self.sim.call_in(server.lag_ms + self.sim.chance.uniform(0, 2), lambda server=server: server.catch_up(zxid))  # type: ignore[misc]
        self.sim.note("zookeeper", zxid, *(f"{act.what} {act.path} {act.data!r}" for act in acts))


class Trial:
    """Which acts would be refused after those before them in one transaction."""

    def __init__(self, tree: Copy) -> None:
        self._copy = Copy()
        self._tree = tree
        self._nodes = self._copy.nodes
        self._nodes.clear()
        self._known: set[str] = set()

    def refusal(self, act: Act) -> KazooException | None:
        for path in (act.path, parent_of(act.path)):
            if path not in self._known:
                self._known.add(path)
                node = self._tree.nodes.get(path)
                if node is not None:
                    self._nodes[path] = Znode(
                        node.data, node.owner, node.zxid, node.at_ms, node.version, node.cversion, 0, dict(node.children)
                    )
        return self._copy.refusal(act)

    def note(self, act: Act) -> None:
        self._copy.carry_out(act, 0, 0)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"
