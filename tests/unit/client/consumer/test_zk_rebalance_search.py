"""Searches for an order of events in which members share partitions wrongly. Rebalancers and registries are real; ZooKeeper is a
dictionary whose answers get lost and whose sessions end, and the clock is a number.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.consumer import zk_rebalance
from headrace.client.consumer.zk_rebalance import Rebalancer
from headrace.client.fetch.fetched import TopicPartition
from headrace.coordination import paths
from headrace.coordination.assignment import assigned_to
from headrace.coordination.errors import ConnectionUnsure
from headrace.coordination.node import Listing, Node
from headrace.coordination.operations import Create, Delete, Operation
from headrace.coordination.values import json_bytes
from headrace.errors import HeadraceError
from headrace.runtime.backoff import Backoff

MEMBERS, PARTITIONS = 3, 5
GROUP, TOPIC = "g", "t"


class Server:
    """The tree of all sessions, and the watches on its nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.watches: dict[str, list[Callable[[object], None]]] = {}
        self.changes, self.zxid, self.sessions = 0, 0, 0

    def make(self, path: str, data: bytes, owner: int) -> bool:
        if path in self.nodes:
            return False
        self.zxid += 1
        self.changes += path.startswith(paths.consumer_ids(GROUP))
        self.nodes[path] = Node(data=data, version=0, owner_session=owner, modified_ms=0, created_zxid=self.zxid, created_ms=0)
        return True

    def remove(self, path: str) -> bool:
        if self.nodes.pop(path, None) is None:
            return False
        self.changes += path.startswith(paths.consumer_ids(GROUP))
        for fired in self.watches.pop(path, []):
            fired(None)
        return True

    def end(self, session: int) -> None:
        for path in [path for path, node in self.nodes.items() if node.owner_session == session]:
            self.remove(path)


class Tree:
    """The calls that the registries make here. `fault` (0, 1, …) is how many single calls still go well; the next one is `lost`,
    `answer lost` (carried out), or the session ends before it, so that it is made in the next session (`expired`).
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.session_id = 0
        self.fault: int | None = None
        self.kind = "lost"
        self.expire: Callable[[], None] = lambda: None

    def _send(self, act: Callable[[], Any]) -> Any:
        if self.fault is None:
            return act()
        self.fault -= 1
        if self.fault >= 0:
            return act()
        self.fault = None
        if self.kind == "expired":
            self.expire()
            return act()
        if self.kind == "answer lost":
            act()
        raise ConnectionUnsure("call", "/", "the answer was lost")

    def listing(self, path: str) -> Listing:
        names = frozenset(one.rpartition("/")[2] for one in self.server.nodes if one.rpartition("/")[0] == path)
        found: Listing = self._send(lambda: Listing(names=names, created_zxid=1, change_count=self.server.changes))
        return found

    def read_many(self, wanted: Iterable[str], *, fired: Callable[[object], None] | None = None) -> dict[str, Node]:
        found = {}
        for path in wanted:
            node = self._send(lambda path=path: self.server.nodes.get(path))  # type: ignore[misc]
            if node is not None:
                found[path] = node
                if fired is not None:
                    self.server.watches.setdefault(path, []).append(fired)
        return found

    def create_many(self, values: Mapping[str, bytes], *, ephemeral: bool = False) -> dict[str, Any]:
        assert ephemeral
        outcomes: dict[str, Any] = {}
        for path, data in values.items():
            try:
                made = self._send(lambda path=path, data=data: self.server.make(path, data, self.session_id))  # type: ignore[misc]
                outcomes[path] = self.server.nodes[path] if made else None
            except ConnectionUnsure as error:
                outcomes[path] = error
        return outcomes

    def transact(self, acts: Sequence[Operation]) -> int | None:
        def carry_out() -> int | None:
            for index, act in enumerate(acts):
                if isinstance(act, Create) == (act.path in self.server.nodes):
                    return index
            for act in acts:
                if isinstance(act, Create):
                    assert act.ephemeral
                    self.server.make(act.path, act.data, self.session_id)
                else:
                    assert isinstance(act, Delete)
                    self.server.remove(act.path)
            return None

        refused: int | None = self._send(carry_out)
        return refused

    def delete_unchanged(self, versions: Mapping[str, int]) -> set[str]:
        return {path for path in versions if self._send(lambda path=path: self.server.remove(path))}  # type: ignore[misc]


class PlayedSession:
    def __init__(self, server: Server) -> None:
        self.tree = Tree(server)
        self.generation = 0

    def is_sure(self) -> bool:
        return True


class Holder:
    """An application that answers at once; notes what it reads, and under which generation of its session."""

    def __init__(self) -> None:
        self.reads: dict[TopicPartition, int] = {}

    def place(self, own: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(own, 0)

    def assign(self, starts: Mapping[TopicPartition, int], *, committed: Mapping[TopicPartition, int], generation: int) -> None:
        assert not self.reads.keys() & starts.keys(), "assigned twice"
        self.reads.update(dict.fromkeys(starts, generation))

    def revoke(self, partitions: Collection[TopicPartition], *, timeout_ms: int) -> bool:
        self.lose(partitions)
        return True

    def lose(self, partitions: Collection[TopicPartition] | None) -> None:
        for name in list(self.reads) if partitions is None else partitions:
            del self.reads[name]

    def lose_all(self) -> None:
        self.lose(None)

    def await_quiet(self, timeout_ms: int) -> bool:
        return True

    def waits_for(self, what: str, error: HeadraceError | None) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error


class Topics:
    def __init__(self) -> None:
        self.topic_ids: dict[str, Any] = {}
        self.reads = 0
        self.during: Callable[[], None] = lambda: None

    def read(self) -> dict[str, list[int]]:
        self.reads += 1
        self.during()
        return {TOPIC: list(range(PARTITIONS))}


class Member:
    def __init__(self, server: Server, name: str, recheck_ms: int = 0) -> None:
        self.name, self.server = name, server
        self.session, self.holder, self.topics = PlayedSession(server), Holder(), Topics()
        self.session.tree.expire = self.expire
        self.rebalancer = Rebalancer(
            self.session,  # type: ignore[arg-type]
            self.holder,
            self.topics,  # type: ignore[arg-type]
            lambda names: dict.fromkeys(names, 0),
            group=GROUP,
            consumer_id=name,
            backoff=Backoff(),
            patience_ms=1 << 40,
            handover_ms=0,
            recheck_ms=recheck_ms,
        )

    def register(self) -> None:
        if self.session.tree.session_id == 0:
            self.server.sessions += 1
            self.session.tree.session_id = self.server.sessions
        value = json_bytes({"subscription": {TOPIC: 1}})
        self.server.make(paths.consumer(GROUP, self.name), value, self.session.tree.session_id)

    def expire(self) -> None:
        if self.session.tree.session_id:
            self.server.end(self.session.tree.session_id)
            self.server.sessions += 1
            self.session.tree.session_id = self.server.sessions
            self.session.generation += 1

    def turn(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ConnectionUnsure:
            pass

    def reading(self) -> set[TopicPartition]:
        """What it may hand out now: nothing of a session that is gone."""
        return {name for name, generation in self.holder.reads.items() if generation == self.session.generation}


class Clock:
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


who = st.integers(0, MEMBERS - 1)
events = st.one_of(
    st.tuples(st.sampled_from(["join", "turn", "turn", "freed", "leave", "expire"]), who),
    st.tuples(st.just("later"), st.integers(0, 2_000)),
    st.tuples(st.just("fault"), who, st.integers(0, 20), st.sampled_from(["lost", "answer lost", "expired"])),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(events, max_size=60))
def test_no_partition_is_read_twice_and_in_the_end_each_is_read_by_whom_it_is_assigned_to(story: list[tuple[Any, ...]]) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zk_rebalance, "time", clock)
        patch.setattr(zk_rebalance, "GATHER_MS", 0)
        server = Server()
        members = [Member(server, f"m{number}") for number in range(MEMBERS)]
        for event in story:
            play(event, members, clock)
            check(server, members)
        for member in members:
            member.session.tree.fault = None
            member.register()
        for _ in range(12):
            clock.now_s += 4
            for member in members:
                member.turn(member.rebalancer._rebalance)
                check(server, members)
        every = {f"m{number}": {TOPIC: 1} for number in range(MEMBERS)}
        for member in members:
            assert member.reading() == assigned_to(member.name, every, {TOPIC: range(PARTITIONS)})
            assert member.rebalancer._held == member.reading()


def play(event: tuple[Any, ...], members: list[Member], clock: Clock) -> None:
    match event:
        case ("join", number):
            members[number].register()
        case ("turn", number):
            members[number].turn(members[number].rebalancer._rebalance)
        case ("freed", number):
            members[number].turn(members[number].rebalancer._claim_freed)
        case ("leave", number):
            members[number].server.remove(paths.consumer(GROUP, members[number].name))
        case ("expire", number):
            members[number].expire()
        case ("later", ms):
            clock.now_s += ms / 1000
        case ("fault", number, after, kind):
            members[number].session.tree.fault, members[number].session.tree.kind = after, kind


def check(server: Server, members: list[Member]) -> None:
    for member in members:
        for name in member.reading():
            node = server.nodes.get(paths.owner(GROUP, *name))
            assert node is not None, f"{member.name} reads {name} without its node"
            assert node.owner_session == member.session.tree.session_id, f"{member.name} reads what another owns"


def test_a_change_of_the_group_does_not_read_the_topics_again_and_one_of_the_topics_does_even_while_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, server = Clock(), Server()
    monkeypatch.setattr(zk_rebalance, "time", clock)
    member, other = Member(server, "m0", recheck_ms=60_000), Member(server, "m1")
    member.register()
    for _ in range(10):
        clock.now_s += 2
        other.register()
        member.rebalancer._rebalance()
        server.remove(paths.consumer(GROUP, "m1"))
        member.rebalancer._rebalance()
    assert (member.topics.reads, len(member.reading())) == (1, PARTITIONS)
    member.topics.during = member.rebalancer.topics_changed
    member.rebalancer.topics_changed()
    member.rebalancer._rebalance()
    member.topics.during = lambda: None
    member.rebalancer._rebalance()
    member.rebalancer._rebalance()
    assert member.topics.reads == 3
    clock.now_s += 60
    member.rebalancer._rebalance()
    assert member.topics.reads == 4
